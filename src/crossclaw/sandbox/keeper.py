"""The keeper: runs a program, and ends with it everything that it started.

It is a program of its own, `keeper.py <pid of the gateway> <limits> <command…>`. Orphaned processes
below it become its children (Linux), also a daemon that has left its group: so it knows them all,
and ends them when the command ends, when it is told to (SIGTERM), when a limit is exceeded, or when
the gateway is gone, however it went. Its exit code is the command's.
"""

import os
import select
import signal
import stat
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import suppress

WATCH_S = 0.25  # between two looks at the gateway and at what the limits count
CLOSE_WATCH_S = 0.02  # likewise, when less than so many times what must stay free is left
NEAR = 8
FREE_NAMES = 10_000  # files that can still be made on the disk; a program makes 2,000 between two close looks
MEMORY_FOLDERS = ("tmp", "dev/shm", "home/agent")  # of a sandbox, as bubblewrap.py makes them
NAME_BYTES = 1024  # what the kernel keeps in memory for one that is there
MEASURE_S = 0.02  # how long the folder is measured at once, before the next look
MEASURE_PAUSE_S = 2.0  # between two measures, and at least ten times what one takes
DEPTH_MAX = 200  # of folders in each other: each is held open, and a process has 1,024 files
GRACE_S = 0.5  # for a command that is told to end; then it is ended
SUBREAPER, DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG in <linux/prctl.h>
NO_NEW_RIGHTS = 38  # PR_SET_NO_NEW_PRIVS
LANDLOCK_CREATE, LANDLOCK_RESTRICT = 444, 446  # system calls, on every processor
SCOPED = 1 | 2  # sockets without a file, signals
NO_SUCH_PROGRAM = 127  # as shells say it
NICENESS = 5  # of what runs under limits: the gateway comes first

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def main(arguments: Sequence[str]) -> int:
    gateway, limits, command = int(arguments[0]), _read_limits(arguments[1]), list(arguments[2:])
    folder, ledger = _paths_of(arguments[1])
    disk = ledger if _same_disk(folder, ledger) else folder
    size = _FolderWatch(folder, limits)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    term_signals: list[int] = []
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: term_signals.append(number))
    _control(SUBREAPER, 1)
    _bound(limits)
    pid = _start(command, limits)
    try:
        while (code := _reap(pid)) is None:
            if term_signals or os.getppid() != gateway:
                return _end_gently(pid, woken)
            if trouble := _passed(limits, disk) or size.passed():
                sys.stderr.write(f"[ended: {trouble}]\n")
                return 128 + signal.SIGKILL
            _nap(woken, min(_next_look_s(limits, disk), size.next_look_s))
        return code
    finally:
        _end_all(pid)


def _start(command: list[str], limits: dict[str, int]) -> int:
    """Starts the command in a group of its own: one that ends its group does not end its keeper. If
    the keeper is killed all the same, the kernel ends the command."""
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        _control(DEATH_SIGNAL, signal.SIGKILL)
        # Python ignores these, and whoever is started inherits it. Where nothing can be written, a program is told so
        # and goes on.
        may_write = limits.get("file") != 0
        for ignored in (signal.SIGPIPE, *((signal.SIGXFSZ,) if may_write else ())):
            signal.signal(ignored, signal.SIG_DFL)
        if limits:
            _keep_from_others()
        if os.getppid() == keeper:
            os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    finally:
        sys.stderr.flush()
        os._exit(NO_SUCH_PROGRAM)


def _control(what: int, value: int) -> None:
    """Sets a property of this process in the kernel, on Linux."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  only there

        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def _keep_from_others() -> None:
    """Separates the command from other programs by Landlock (Linux 6.12): it reaches only its own
    processes and abstract sockets. Those belong to the network: with the machine's, a program could
    talk to its desktop and so type into the owner's terminals."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  only there

        kernel = ctypes.CDLL(None)
        handled = bytes(16) + SCOPED.to_bytes(8, sys.byteorder)  # files and ports: as they are
        rules = kernel.syscall(LANDLOCK_CREATE, handled, len(handled), 0)
        if rules >= 0:
            kernel.prctl(NO_NEW_RIGHTS, 1, 0, 0, 0)
            kernel.syscall(LANDLOCK_RESTRICT, rules, 0)
            os.close(rules)


def _nap(woken: int, seconds: float) -> None:
    if select.select([woken], [], [], seconds)[0]:
        os.read(woken, 4096)


def _reap(pid: int) -> int | None:
    """Reaps ended processes; returns the exit code once the command is among them."""
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
    """Ends the command's group at once, then all others: each that dies leaves its own children to
    us. One that belongs to another user by now (`sudo`) cannot be ended by us, and is not waited
    for."""
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
    """The parent of every process of this machine; none if there is no /proc."""
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


def _paths_of(text: str) -> tuple[str, str]:
    """The paths in the limits: the last two parts, in hexadecimal, since a path may contain
    anything."""
    if not text:
        return "", ""
    folder, ledger = (os.fsdecode(bytes.fromhex(part)) for part in text.split(",")[-2:])
    return folder, ledger


def _same_disk(one: str, other: str) -> bool:
    """Whether two paths are on the same disk. A quota on the folder hides what is free for the
    ledger, so that is asked at the ledger."""
    with suppress(OSError):
        return os.stat(one).st_dev == os.stat(other).st_dev
    return False


def _bound(limits: dict[str, int]) -> None:
    """Sets the kernel's limits for each single process, which catch what the watch would see too
    late."""
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
    """Which limit all processes together exceed."""
    if not limits:
        return ""
    if free_bytes(disk) < limits["free"]:
        return f"less than {limits['free'] // 2**20} MB of the disk would be left (sandbox.limits.keepFreeMb)"
    pids = _descendants()
    if len(pids) > limits["processes"]:
        return f"more than {limits['processes']} processes at once"
    if sum(map(_resident_bytes, pids)) + _files_in_memory(pids) > limits["memory"]:
        return f"more than {limits['memory'] // 2**20} MB of memory"
    return ""


def _files_in_memory(pids: Sequence[int]) -> int:
    """The memory that a sandbox's own /tmp and the like take: bytes, and what the kernel needs for
    each name, of which it would allow millions. They are measured through a process inside, which
    has another root than we."""
    ours = os.stat("/")
    for pid in pids:
        with suppress(OSError):
            root = f"/proc/{pid}/root"
            theirs = os.stat(root)
            if (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino):
                return sum(_taken_bytes(f"{root}/{name}") for name in MEMORY_FOLDERS)
    return 0


def _taken_bytes(folder: str) -> int:
    about = os.statvfs(folder)
    taken = (about.f_blocks - about.f_bfree) * about.f_frsize
    return taken + (about.f_files - about.f_ffree) * NAME_BYTES


def free_bytes(disk: str) -> int:
    """The free bytes of a disk; 0 if it has no room for names."""
    room, names = free_room(disk)
    return 0 if names < FREE_NAMES else room


def free_room(disk: str) -> tuple[int, int]:
    """The free bytes and names, as the folder's quota says if it has one."""
    try:
        about = os.statvfs(disk)
    except OSError:
        return sys.maxsize, sys.maxsize
    return about.f_bavail * about.f_frsize, about.f_favail if about.f_files else sys.maxsize


def _next_look_s(limits: dict[str, int], disk: str) -> float:
    """The time until the next look. It is short when the disk is nearly full: disks write gigabytes
    in a second."""
    if not limits:
        return WATCH_S
    room, names = free_room(disk)
    near = room < limits["free"] * NEAR or names < FREE_NAMES * NEAR
    return CLOSE_WATCH_S if near else WATCH_S


# ── what a folder holds ────────────────────────────────────────────────────────────────────────


def measure(folder: str) -> Generator[None, None, tuple[int, int]]:
    """The bytes and names below a folder, by directory handles: no link is followed, no other disk
    entered. It yields after each name, because a folder may have millions. What hides itself counts
    as infinite."""
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return 0, 0
    size = files = 0
    disk = os.fstat(root).st_dev
    above = [(root, os.scandir(root))]
    try:
        while above:
            yield
            opened, names = above[-1]
            entry = next(names, None)
            if entry is None:
                names.close()
                os.close(above.pop()[0])
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                about = entry.stat(follow_symlinks=False)
                files += 1
                size += about.st_blocks * 512 // (1 if entry.is_dir() else max(1, about.st_nlink))
                if stat.S_ISDIR(about.st_mode) and about.st_dev == disk:
                    below = _enter(entry.name, opened, about.st_uid, len(above))
                    if below is not None:
                        above.append((below, os.scandir(below)))
    except OverflowError:
        return sys.maxsize, sys.maxsize
    finally:
        for opened, names in above:
            names.close()
            os.close(opened)
    return size, files


def _enter(name: str, above: int, owner: int, depth: int) -> int | None:
    """Opens a folder. One that its owner has closed to itself, or that is too deep, could hide
    anything, so it raises."""
    if depth >= DEPTH_MAX:
        raise OverflowError
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=above)
    except PermissionError:
        if owner == os.geteuid():
            raise OverflowError from None
    except OSError:
        pass  # it is gone, or no folder any more
    return None


class _FolderWatch:
    """Watches the size of a folder while a command runs. Asking for the free space of the disk is
    cheap, so the folder is measured only when that has fallen by half of what it may still take,
    and now and then."""

    def __init__(self, folder: str, limits: dict[str, int]) -> None:
        self._folder = folder
        self._most = (limits.get("folder_bytes", 0), limits.get("folder_files", 0))
        self._walk: Generator[None, None, tuple[int, int]] | None = None
        self._began = self._took_s = 0.0
        self._due = time.monotonic() + WATCH_S
        self._free = free_room(folder)
        self._room = (0, 0)

    @property
    def next_look_s(self) -> float:
        return MEASURE_S / 2 if self._walk is not None else WATCH_S

    def passed(self) -> str:
        """Which limit the folder exceeds, as far as it is known by now."""
        if not any(self._most):
            return ""
        if self._walk is None:
            if time.monotonic() < self._due and not self._fell():
                return ""
            self._began, self._free = time.monotonic(), free_room(self._folder)
            self._walk = measure(self._folder)
        until = time.monotonic() + MEASURE_S
        try:
            while time.monotonic() < until:
                next(self._walk)
        except StopIteration as done:
            self._walk = None
            return self._judge(*done.value)
        return ""

    def _fell(self) -> bool:
        if time.monotonic() < self._began + 2 * self._took_s:
            return False  # others write, too: it is not measured all the time for them
        now = free_room(self._folder)
        pairs = zip(self._free, now, self._room, self._most, strict=True)
        return any(most and then - free > room // 2 for then, free, room, most in pairs)

    def _judge(self, size: int, files: int) -> str:
        self._took_s = time.monotonic() - self._began
        self._due = time.monotonic() + max(MEASURE_PAUSE_S, 10 * self._took_s)
        bytes_max, files_max = self._most
        self._room = (max(0, bytes_max - size), max(0, files_max - files))
        if bytes_max and size > bytes_max:
            return f"the workspace holds more than {bytes_max // 2**20} MB (sandbox.limits.workspaceMb)"
        if files_max and files > files_max:
            return (
                f"the workspace holds more than {files_max} files (sandbox.limits.workspaceFiles)"
            )
        return ""


def _resident_bytes(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as statm:
        _, resident, shared = statm.read().split()[:3]
        return (int(resident) - int(shared)) * _PAGE_BYTES
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
