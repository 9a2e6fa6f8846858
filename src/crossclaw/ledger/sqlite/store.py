"""Opening a store: the folder's lock, the library's version, the pragmas."""

import fcntl
import logging
import os
from contextlib import ExitStack
from pathlib import Path

import apsw

from crossclaw.disk.free_space import free_disk_bytes
from crossclaw.disk.private import make_file, make_folder
from crossclaw.domain.errors import StoreError, StoreFull, StoreLocked
from crossclaw.ledger.sqlite.migrate import migrate

log = logging.getLogger(__name__)

# Older libraries can lose committed rows when a checkpoint races with a writer (the WAL-reset bug).
SQLITE_VERSION_MIN = (3, 51, 3)

BUSY_MS = 5_000  # only another program that holds the file (a backup) can make us wait
ROOM_BYTES_MIN = (
    256 * 1024
)  # SQLite's shared memory and log; without room, it tells other errors than "full"
CHECKPOINT_PAGES = 4_000  # 16 MB of log between checkpoints: rare enough to be cheap
STATEMENTS_MAX = 256  # every statement of this package stays prepared

_HALF_MOVED = "SELECT 1 FROM sqlite_schema WHERE name = 'move_progress'"
HALF_MOVED = (
    "the store {} holds half of a ledger that is being moved here: run crossclaw ledger move again, it goes "
    "on where it stopped"
)


class FolderLock:
    """An exclusive lock on a state folder. The kernel releases it however the process ends.

    The folder itself is locked: a file in it can be renamed, and the next one of that name would be
    free. The file is locked as well, for file systems that lock no folders, and says who holds it.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        make_file(folder / "crossclaw.lock")
        with ExitStack() as opened:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, held)
            file = os.open(folder / "crossclaw.lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            opened.callback(os.close, file)
            try:
                _lock_folder(held)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(file, 32, 0).decode(errors="replace").strip()
                raise StoreLocked(
                    f"another gateway (process {holder or 'unknown'}) is using {folder}; stop it first, "
                    "or set OPENCLAW_STATE_DIR to another folder"
                ) from None
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()


def _lock_folder(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # as over NFS, where a lock needs something that can be written
        return


def refuse_unsafe_library(version: str | None = None) -> None:
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")) < SQLITE_VERSION_MIN:
        needed = ".".join(map(str, SQLITE_VERSION_MIN))
        raise StoreError(
            f"SQLite {found} can lose committed data (its WAL-reset bug); Crossclaw needs {needed} "
            "or newer: pip install --upgrade apsw"
        )


def open_writer(path: Path, *, half_moved: bool = False) -> apsw.Connection:
    """Opens the store for writing. `half_moved`: also one that a move has not filled yet."""
    refuse_unsafe_library()
    try:
        make_file(path)  # SQLite would make it by the umask; its log takes the mode of the store
        db = apsw.Connection(str(path), statementcachesize=STATEMENTS_MAX)
        db.set_busy_timeout(BUSY_MS)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        db.pragma("temp_store", "memory")
        migrate(db)
    except apsw.Error as error:
        if isinstance(error, apsw.FullError) or free_disk_bytes(path.parent) < ROOM_BYTES_MIN:
            raise StoreFull(f"the store {path} cannot be opened: the disk is full") from error
        raise StoreError(
            f"the store {path} cannot be opened: {error}. If it is damaged, move it away and "
            "restore a backup; the transcripts beside it are readable without it"
        ) from error
    if not half_moved and db.execute(_HALF_MOVED).fetchone():
        db.close()
        raise StoreError(HALF_MOVED.format(path))
    return db


def merge_log(path: Path) -> None:
    """Merges SQLite's log into the store after the last connection has closed, so that a copy of
    that one file is whole.

    Only a connection that writes does so when it closes, and readers close after the writer. If it
    fails nothing is lost: the log stays, and the next one who opens the store reads it.
    """
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()  # it joins the log
        db.close()
    except apsw.Error as error:
        log.warning("the log of the store %s stays beside it: %s", path, error)


def open_reader(path: Path) -> apsw.Connection:
    try:
        db = apsw.Connection(
            str(path), flags=apsw.SQLITE_OPEN_READONLY, statementcachesize=STATEMENTS_MAX
        )
        db.set_busy_timeout(BUSY_MS)
    except apsw.Error as error:
        raise StoreError(f"the store {path} cannot be read: {error}") from error
    return db
