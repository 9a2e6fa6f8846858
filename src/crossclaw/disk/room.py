"""Free space on a disk: how much is left, and whether an error means that there is none."""

import errno
import os
from pathlib import Path

from crossclaw.domain.errors import StoreFull

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def room_bytes(folder: Path) -> int:
    """How many bytes an ordinary user could still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def is_for_lack_of_room(error: BaseException | None) -> bool:
    """Whether this error, its cause or one of its group says that the disk is full."""
    if error is None:
        return False
    if isinstance(error, BaseExceptionGroup):
        return any(is_for_lack_of_room(each) for each in error.exceptions)
    if isinstance(error, StoreFull) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        return True
    return is_for_lack_of_room(error.__cause__)
