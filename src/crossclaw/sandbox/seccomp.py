"""The system call filter of a sandbox: refuses what no ordinary program needs and every escape of
the last years used.

It is a small program for the kernel (classic BPF), written here by hand: number in, verdict out.
What it refuses is answered with "not permitted", as on a machine where it is switched off, so
programs go on without it; `clone3`, whose flags a filter cannot see, with "not implemented", after
which every C library takes `clone`. On a processor that is not listed there is no filter; the other
protections stay.
"""

import os
import platform
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache

REFUSED = {
    # name: (x86_64, aarch64); None where there is no such call
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "move_pages": (279, 239),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "fanotify_init": (300, 262),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    "_sysctl": (156, None),
}
CLONE, UNSHARE, CLONE3, IOCTL, SOCKET = (56, 220), (272, 97), (435, 435), (16, 29), (41, 198)

NAMESPACES = (
    0x7E020080  # every CLONE_NEW… flag: mounts, cgroup, UTS, IPC, users, processes, network, time
)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # type into a terminal as if its owner had
FAMILIES = (
    1,
    2,
    10,
    16,
)  # sockets: unix, IPv4, IPv6, netlink; others (vsock, packet, …) leave namespaces

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}
_X32 = 0x40000000  # calls of a third kind on x86_64, which the numbers above would miss
NETLINK, ROUTES = (
    16,
    0,
)  # of the kernel's own sockets the one that tells addresses, which programs ask for

# Where each lies; the lower half of an argument.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_EPROTONOSUPPORT, _EAFNOSUPPORT = 0x0005005D, 0x00050061

Instruction = tuple[int, int, int, int]
"""Code, how many lines to jump if so, how many if not, and the value."""


@lru_cache(2)
def seccomp_program(machine: str | None = None) -> bytes:
    """The filter in the kernel's form; empty for an unknown processor."""
    known = _ARCHITECTURES.get(machine or platform.machine())
    if known is None:
        return b""
    column, architecture = known
    lines = [
        *_unless(_ARCHITECTURE, _EQUAL, architecture, _EPERM),
        *(_if(_NUMBER, _AT_LEAST, _X32, _EPERM) if column == 0 else ()),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    lines += _call(CLONE3[column], [(_RETURN, 0, 0, _ENOSYS)])
    for call in (CLONE, UNSHARE):
        lines += _call(call[column], _if(_FIRST, _ANY_BIT, NAMESPACES, _EPERM))
    typing = [*_if(_SECOND, _EQUAL, TIOCSTI, _EPERM), *_if(_SECOND, _EQUAL, TIOCLINUX, _EPERM)]
    lines += _call(IOCTL[column], typing)
    lines += _call(SOCKET[column], _families())
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, (_RETURN, 0, 0, _ALLOW)])


@contextmanager
def with_filter(
    argv: Sequence[str], program: bytes
) -> Generator[tuple[Sequence[str], tuple[int, ...]]]:
    """Bubblewrap's command line with the filter, and the descriptor that it reads it from; each start has
    one of its own, because reading moves its position."""
    if not program:
        yield argv, ()
        return
    descriptor = os.memfd_create("seccomp")  # memory, no file
    try:
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield [argv[0], "--seccomp", str(descriptor), *argv[1:]], (descriptor,)
    finally:
        os.close(descriptor)


def _if(where: int, test: int, value: int, verdict: int) -> Sequence[Instruction]:
    return [(_LOAD, 0, 0, where), (test, 0, 1, value), (_RETURN, 0, 0, verdict)]


def _unless(where: int, test: int, value: int, verdict: int) -> Sequence[Instruction]:
    return [(_LOAD, 0, 0, where), (test, 1, 0, value), (_RETURN, 0, 0, verdict)]


def _call(number: int, lines: Sequence[Instruction]) -> list[Instruction]:
    """These lines for one call only; what they do not decide is allowed."""
    whole = [*lines, (_RETURN, 0, 0, _ALLOW)]
    return [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, len(whole), number), *whole]


def _families() -> list[Instruction]:
    lines: list[Instruction] = [(_LOAD, 0, 0, _FIRST)]
    for left, family in zip(range(len(FAMILIES), 0, -1), FAMILIES, strict=True):
        lines.append((_EQUAL, left, 0, family))
    lines.append((_RETURN, 0, 0, _EAFNOSUPPORT))
    only_routes = [(_LOAD, 0, 0, _THIRD), (_EQUAL, 1, 0, ROUTES), (_RETURN, 0, 0, _EPROTONOSUPPORT)]
    return [*lines, (_EQUAL, 0, len(only_routes), NETLINK), *only_routes]
