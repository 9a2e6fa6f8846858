"""What a program in the sandbox may ask of the kernel, and that ordinary programs do not miss the rest."""

import os
import shutil
import struct
from pathlib import Path

import pytest

from crossclaw.domain.errors import Forbidden
from crossclaw.sandbox import seccomp
from tests.sandbox.rooms import Room

pytestmark = pytest.mark.spec("V4")

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
COLUMN = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
ASK = """
import ctypes, sys
ctypes.set_errno(0)
libc = ctypes.CDLL(None, use_errno=True)
number, *arguments = (int(word, 0) for word in sys.argv[1:])
result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
print("errno", ctypes.get_errno() if result == -1 else 0)
"""


@pytest.fixture
def room(tmp_path: Path) -> Room:
    room = Room(tmp_path, {"mode": "all"})
    (room.workspace / "ask.py").write_text(ASK, "utf-8")
    return room


def errno_of(room: Room, number: int | None, *arguments: int) -> int:
    told = room("exec", command=f"/usr/bin/python3 ask.py {number} {' '.join(map(str, arguments))}")
    return int(str(told).split("errno ")[1].split()[0])


@pytest.mark.parametrize(
    "name",
    ["ptrace", "mount", "bpf", "perf_event_open", "keyctl", "io_uring_setup", "userfaultfd", "setns",
     "open_by_handle_at", "add_key", "process_vm_readv", "fsopen"],
)  # fmt: skip
def test_what_no_ordinary_program_needs_is_refused(room: Room, name: str) -> None:
    assert errno_of(room, seccomp.REFUSED[name][COLUMN], 0, 0, 0, 0, 0) == EPERM


def test_new_namespaces_are_refused_by_every_call_that_makes_them(room: Room) -> None:
    new_user = 0x10000000
    assert errno_of(room, seccomp.UNSHARE[COLUMN], new_user) == EPERM
    assert errno_of(room, seccomp.CLONE[COLUMN], new_user | 17, 0, 0, 0, 0) == EPERM
    assert errno_of(room, seccomp.CLONE3[COLUMN], 0, 0) == ENOSYS
    assert errno_of(room, seccomp.UNSHARE[COLUMN], 0x400) == 0  # own descriptors: harmless


def test_nobody_types_into_a_terminal(room: Room) -> None:
    for request in (seccomp.TIOCSTI, seccomp.TIOCLINUX, seccomp.TIOCSTI | 1 << 32):
        assert errno_of(room, seccomp.IOCTL[COLUMN], 0, request, 0) == EPERM
    not_a_terminal = 25
    assert errno_of(room, seccomp.IOCTL[COLUMN], 1, 0x5401, 0) == not_a_terminal  # TCGETS goes on


def test_sockets_that_leave_the_network_namespace_are_refused(room: Room) -> None:
    for family in (40, 38, 17, 31):  # vsock, the kernel's ciphers, raw packets, Bluetooth
        assert errno_of(room, seccomp.SOCKET[COLUMN], family, 1, 0) == EAFNOSUPPORT
    assert errno_of(room, seccomp.SOCKET[COLUMN], 1, 1, 0) == 0


@pytest.mark.skipif(COLUMN != 0, reason="only there")
def test_numbers_of_another_kind_do_not_get_around_it(room: Room) -> None:
    assert errno_of(room, 0x40000000 | 101, 0, 0, 0, 0) == EPERM


def test_every_process_has_the_filter(room: Room) -> None:
    told = room("exec", command="grep -h ^Seccomp: /proc/self/status /proc/1/status; (grep ^Seccomp: /proc/self/status)")  # fmt: skip
    assert str(told).count("2") >= 2
    assert "Seccomp:\t0" not in told


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_program_is_one_that_the_kernel_takes(machine: str) -> None:
    """Every jump leads forward to a line that is there, and the last line is a verdict."""
    program = seccomp.seccomp_program(machine)
    lines = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]

    assert 50 < len(lines) < 4_096
    for at, (code, yes, no, _value) in enumerate(lines):
        if code in (seccomp._EQUAL, seccomp._AT_LEAST, seccomp._ANY_BIT):
            assert at + 1 + max(yes, no) < len(lines)
    assert lines[-1][0] == seccomp._RETURN
    assert seccomp.seccomp_program("sparc") == b""


PROGRAMS = {
    "git": "git init -q r && cd r && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && git log --oneline",
    "python": "/usr/bin/python3 -c \"import subprocess, threading, multiprocessing as m; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join(); p = m.Process(target=print, args=('process',)); p.start(); p.join(); print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\"",
    "node": "node -e \"const {Worker} = require('worker_threads'); require('fs').promises.writeFile('n', 'x').then(() => new Worker('console.log(process.pid > 0)', {eval: true}))\"",
    "cc": "printf 'int main(){return 0;}' > m.c && cc -pthread m.c -o m && ./m",
    "make": "printf 'all:\\n\\techo made\\n' > Makefile && make -j4",
    "tar": "echo a > a && tar czf a.tgz a && tar xzf a.tgz",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_programs_work(room: Room, name: str) -> None:
    if shutil.which("python3" if name == "python" else name, path="/usr/bin:/bin") is None:
        pytest.fail(f"{name} is not installed; this test is about it")
    assert str(room("exec", command=PROGRAMS[name])).endswith("[exit code 0]")


# ── the disk ───────────────────────────────────────────────────────────────────────────────────


def test_a_command_is_ended_before_it_takes_the_disk_from_the_ledger(tmp_path: Path) -> None:
    about = os.statvfs(tmp_path)
    free_mb = about.f_bavail * about.f_frsize // 2**20
    room = Room(tmp_path, {"mode": "all", "limits": {"keepFreeMb": free_mb - 48, "fileMb": 400}})

    told = room("exec", command="dd if=/dev/zero of=big bs=1M count=400 oflag=dsync; sleep 60")

    assert "MB of the disk would be left (sandbox.limits.keepFreeMb)" in told
    assert (room.workspace / "big").stat().st_size < 400 * 2**20


def test_a_file_tool_leaves_the_disk_to_the_ledger_as_well(tmp_path: Path) -> None:
    room = Room(tmp_path, {"mode": "all", "limits": {"keepFreeMb": 2**30}})

    with pytest.raises(Forbidden, match="keepFreeMb"):
        room("write", path="a", content="x")
    Room(tmp_path)("write", path="a", content="x")  # a free one is not bounded
