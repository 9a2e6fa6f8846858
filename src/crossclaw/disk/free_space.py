"""Free space on a disk: how much is left, and whether an error means that there is none."""

import errno
import os
from pathlib import Path

from crossclaw.domain.errors import StoreFull

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def free_disk_bytes(folder: Path) -> int:
    """How many bytes an ordinary user could still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def is_disk_full(error: BaseException | None) -> bool:
    """Whether this error, its cause or one of its group says that the disk is full."""
    if error is None:
        return False
    if isinstance(error, BaseExceptionGroup):
        return any(is_disk_full(each) for each in error.exceptions)
    if isinstance(error, StoreFull) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        return True
    return is_disk_full(error.__cause__)
