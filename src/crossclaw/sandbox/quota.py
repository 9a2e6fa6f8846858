"""Quotas of the kernel: on ext4 and XFS a folder can be a project, and a project has a limit that
no program exceeds.

A quota that the owner has set on a folder is found by what the disk reports for that folder. If
there is none, the disk counts projects (mounted with `prjquota`) and the gateway may set them (it
runs as root), it does. A sandbox cannot change a file's project: the kernel does not allow it from
a user namespace.
"""

import ctypes
import fcntl
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

_GET_ATTRIBUTES, _SET_ATTRIBUTES = 0x801C581F, 0x401C5820  # FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR
_ATTRIBUTES = struct.Struct("=IIIII8s")  # flags, extent size, extents, project, cow extent size
_INHERITED = 0x200  # FS_XFLAG_PROJINHERIT: what is made in the folder is of its project
_QUOTACTL_FD = 443  # on every processor; Linux 5.14
_SET_QUOTA, _PROJECTS, _LIMITS = (
    0x800008,
    2,
    1 | 4,
)  # Q_SETQUOTA, PRJQUOTA, QIF_BLIMITS | QIF_ILIMITS
_OURS = 1 << 30
"""The bit of projects that are ours; below it are those that people choose."""


class Quota(msgspec.Struct, frozen=True):
    """The kernel's limit for a folder; 0: only the disk's."""

    bytes: int
    files: int


def find_quota(folder: Path) -> Quota | None:
    """The quota in force there, whoever set it. The kernel reports the limit as the disk's size for
    a project's folder."""
    with suppress(OSError):
        here, disk = os.statvfs(folder), os.statvfs(_top(folder))
        size = here.f_blocks * here.f_frsize if here.f_blocks < disk.f_blocks else 0
        files = here.f_files if here.f_files < disk.f_files else 0
        return Quota(size, files) if size or files else None
    return None


def _top(folder: Path) -> Path:
    """The highest folder on the same disk."""
    disk = os.stat(folder).st_dev
    top = folder.resolve()
    while top != top.parent and os.stat(top.parent).st_dev == disk:
        top = top.parent
    return top


def hold_quota(folder: Path, bytes_max: int, files_max: int) -> Quota | None:
    """Sets a quota if we can; returns the one in force then: the owner's own, or ours."""
    found = find_quota(folder)
    if sys.platform != "linux" or os.geteuid() != 0 or not (bytes_max or files_max):
        return found
    with suppress(OSError, RecursionError):  # a tree may be made too deep to be walked
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            project = _project_of(root)
            if project and not project & _OURS:
                return found  # it is somebody's already
            own = _OURS | (os.fstat(root).st_ino & (_OURS - 1))
            _limit(root, own, bytes_max, files_max)
            _give_all(root, own)
        finally:
            os.close(root)
    return find_quota(folder)


def _project_of(descriptor: int) -> int:
    attributes = fcntl.ioctl(descriptor, _GET_ATTRIBUTES, bytes(_ATTRIBUTES.size))
    return int(_ATTRIBUTES.unpack(attributes)[3])


def _limit(root: int, project: int, bytes_max: int, files_max: int) -> None:
    """Sets the limit of a project. Raises if the disk has no project quotas, or if we may not set
    them."""
    # struct if_dqblk: limits in KiB and files, each hard, soft, used; two times; which of it counts.
    limits = struct.pack(
        "=QQQQQQQQI4x", -(-bytes_max // 1024), 0, 0, files_max, 0, 0, 0, 0, _LIMITS
    )
    library = ctypes.CDLL(None, use_errno=True)
    command = (_SET_QUOTA << 8) | _PROJECTS
    if library.syscall(_QUOTACTL_FD, root, command, project, limits) != 0:
        raise OSError(ctypes.get_errno(), "no quota for projects")


def _give_all(root: int, project: int) -> None:
    """Puts everything that is there into the project; what comes later inherits it."""
    _give(root, project, is_folder=True)
    for _path, _folders, files, opened in os.fwalk(".", dir_fd=root):
        _give(opened, project, is_folder=True)
        for descriptor in _opened(files, opened):
            _give(descriptor, project, is_folder=False)


def _opened(names: list[str], folder: int) -> Iterator[int]:
    """Opens the regular files among these names: opening anything else may have effects."""
    for name in names:
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=folder)
            try:
                yield descriptor
            finally:
                os.close(descriptor)


def _give(descriptor: int, project: int, *, is_folder: bool) -> None:
    attributes = fcntl.ioctl(descriptor, _GET_ATTRIBUTES, bytes(_ATTRIBUTES.size))
    flags, extent, extents, before, cow, rest = _ATTRIBUTES.unpack(attributes)
    wanted = flags | (_INHERITED if is_folder else 0)
    if (flags, before) != (wanted, project):
        attributes = _ATTRIBUTES.pack(wanted, extent, extents, project, cow, rest)
        fcntl.ioctl(descriptor, _SET_ATTRIBUTES, attributes)
