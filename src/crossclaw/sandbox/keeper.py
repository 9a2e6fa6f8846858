"""The keeper: runs a program, and ends with it everything that it started.

It is a program of its own, `keeper.py <pid of the gateway> <limits> <command…>`. Whoever below it loses
its parent becomes its child (Linux), also a daemon that has left its group: so it knows them all, and
ends them when the command ends, when it is told to (SIGTERM), when a limit is passed, or when the
gateway is gone, however it went. Its exit code is the command's.
"""

import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

WATCH_S = 0.25  # between two looks at the gateway and at what the limits count
CLOSE_WATCH_S = 0.02  # likewise, when less than so many times what must stay free is left
NEAR = 8
FREE_NAMES = 1_000  # files that can still be made on the disk
GRACE_S = 0.5  # for a command that is told to end; then it is ended
SUBREAPER, DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG in <linux/prctl.h>
NO_SUCH_PROGRAM = 127  # as shells say it
NICENESS = 5  # of what runs under limits: the gateway comes first

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def main(arguments: Sequence[str]) -> int:
    gateway, limits, command = int(arguments[0]), _read_limits(arguments[1]), list(arguments[2:])
    disk = _disk_of(arguments[1])
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    told: list[int] = []
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    _control(SUBREAPER, 1)
    _bound(limits)
    pid = _start(command)
    try:
        while (code := _reap(pid)) is None:
            if told or os.getppid() != gateway:
                return _end_gently(pid, woken)
            if trouble := _passed(limits, disk):
                sys.stderr.write(f"[ended: {trouble}]\n")
                return 128 + signal.SIGKILL
            _nap(woken, _next_look_s(limits, disk))
        return code
    finally:
        _end_all(pid)


def _start(command: list[str]) -> int:
    """In a group of its own: a command that ends its group does not end its keeper. Should the keeper
    be killed all the same, the kernel ends the command."""
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        _control(DEATH_SIGNAL, signal.SIGKILL)
        for ignored in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
        ):  # by Python, and whoever is started inherits it
            signal.signal(ignored, signal.SIG_DFL)
        if os.getppid() == keeper:
            os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    finally:
        sys.stderr.flush()
        os._exit(NO_SUCH_PROGRAM)


def _control(what: int, value: int) -> None:
    """What the kernel shall do with this process, where it can be asked."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  only there

        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def _nap(woken: int, seconds: float) -> None:
    if select.select([woken], [], [], seconds)[0]:
        os.read(woken, 4096)


def _reap(pid: int) -> int | None:
    """Whoever has ended is let go. The exit code, once it is the command."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else 128 - code
    return None


def _end_gently(pid: int, woken: int) -> int:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGTERM)
    naps = 10
    while naps and _reap(pid) is None:
        _nap(woken, GRACE_S / 10)
        naps -= 1
    return 128 + signal.SIGTERM


def _end_all(pid: int) -> None:
    """Its group at once, then whoever is left: each that dies leaves its own children to us. One that is
    another user's by now (`sudo`) cannot be ended by us, and is not waited for."""
    _kill_group(pid)
    foreign: set[int] = set()
    try:
        while True:
            for child in _children():
                _kill_group(child)
                try:
                    os.kill(child, signal.SIGKILL)
                except PermissionError:
                    foreign.add(child)
                except ProcessLookupError:
                    pass
            if foreign and foreign.issuperset(_children()):
                return
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if (group := os.getpgid(pid)) != os.getpgrp():
            os.killpg(group, signal.SIGKILL)


# ── who there is ───────────────────────────────────────────────────────────────────────────────


def _parents() -> dict[int, int]:
    """Of every process of this machine; none where there is no /proc."""
    found: dict[int, int] = {}
    with suppress(FileNotFoundError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                # A program's name may hold brackets and blanks: what follows its last bracket is ours.
                found[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
    return found


def _children() -> list[int]:
    return [pid for pid, parent in _parents().items() if parent == os.getpid()]


def _descendants() -> list[int]:
    below: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        below.setdefault(parent, []).append(pid)
    found = list(below.get(os.getpid(), ()))
    for pid in found:
        found += below.get(pid, ())
    return found


# ── limits ─────────────────────────────────────────────────────────────────────────────────────


def _read_limits(text: str) -> dict[str, int]:
    pairs = (part.split("=") for part in text.split(",") if "=" in part)
    return {name: int(value) for name, value in pairs}


def _disk_of(text: str) -> str:
    """The last part, in hexadecimal: a path may hold anything."""
    return os.fsdecode(bytes.fromhex(text.rpartition(",")[2])) if text else ""


def _bound(limits: dict[str, int]) -> None:
    """By the kernel, for each process alone: what the watch would see too late."""
    if not limits:
        return
    import resource  # noqa: PLC0415  only here

    os.nice(NICENESS)
    for what, most in (
        (resource.RLIMIT_DATA, limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["file"]),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _passed(limits: dict[str, int], disk: str) -> str:
    """Which limit all processes together have passed."""
    if not limits:
        return ""
    if free_bytes(disk) < limits["free"]:
        return f"less than {limits['free'] // 2**20} MB of the disk would be left (sandbox.limits.keepFreeMb)"
    pids = _descendants()
    if len(pids) > limits["processes"]:
        return f"more than {limits['processes']} processes at once"
    if sum(map(_resident_bytes, pids)) > limits["memory"]:
        return f"more than {limits['memory'] // 2**20} MB of memory"
    return ""


def free_bytes(disk: str) -> int:
    """As a quota of its folder says it, where there is one. A disk without room for a name is full, too."""
    try:
        about = os.statvfs(disk)
    except OSError:
        return sys.maxsize
    if about.f_files and about.f_favail < FREE_NAMES:
        return 0
    return about.f_bavail * about.f_frsize


def _next_look_s(limits: dict[str, int], disk: str) -> float:
    """Near the end of the disk it is looked at often: disks write gigabytes in a second."""
    near = bool(limits) and free_bytes(disk) < limits["free"] * NEAR
    return CLOSE_WATCH_S if near else WATCH_S


def _resident_bytes(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as statm:
        _, resident, shared = statm.read().split()[:3]
        return (int(resident) - int(shared)) * _PAGE_BYTES
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
