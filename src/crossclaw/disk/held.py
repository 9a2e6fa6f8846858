"""Held files: valid as long as the process that wrote them lives.

The kernel holds the lock and releases it however that process ends, so nobody trusts what a killed
one has left behind.
"""

import fcntl
import os
import stat
from pathlib import Path

from crossclaw.disk.private import new_file

READ_MAX = 256  # bytes: a port, a name


class HeldFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None

    def write(self, text: str) -> None:
        """Writes the file. It is locked before it gets its name: whoever sees it sees it held."""
        with new_file(self._path) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(text)
            lock = os.dup(file.fileno())
        self._let_go()
        self._lock = lock

    def remove(self) -> None:
        """Removes the file, unless it was never written: then it is another's."""
        if self._lock is not None:
            self._path.unlink(missing_ok=True)
            self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def read_held(path: Path) -> str | None:
    """The content of the file; None if nobody holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, READ_MAX).decode("utf-8", "replace")
    except OSError:  # a file system without locks: nobody can know
        return None
    finally:
        os.close(descriptor)
    return None
