"""Copying a store consistently while a gateway writes to it, and checking whether a store is
whole."""

from pathlib import Path

import apsw

from crossclaw.disk.private import make_file
from crossclaw.domain.aliases import Counted
from crossclaw.domain.errors import StoreError, StoreTooNew
from crossclaw.ledger.sqlite.migrate import VERSION
from crossclaw.ledger.sqlite.store import open_reader

PAGES_A_STEP = 2_000  # 8 MB between two looks at the progress
COUNTED = ("sessions", "entries", "runs", "jobs", "media")


def copy_store(path: Path, copy: Path, progress: Counted = lambda done, of: None) -> None:
    """Copies the store as of one moment: the reading transaction keeps it while others go on
    writing."""
    make_file(copy)
    source, target = open_reader(path), apsw.Connection(str(copy))
    try:
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES_A_STEP)
                progress(backup.page_count - backup.remaining, backup.page_count)
        target.pragma("journal_mode", "delete")
    except apsw.Error as error:
        raise StoreError(f"the store {path} cannot be copied: {error}") from error
    finally:
        target.close()
        source.close()


def check_store(path: Path) -> dict[str, int]:
    """The number of rows in a store that is whole; raises if it is not."""
    db = open_reader(path)
    try:
        version = db.pragma("user_version")
        if version > VERSION:
            raise StoreTooNew(
                f"it has version {version}, this Crossclaw knows {VERSION}: upgrade first"
            )
        faults = [row[0] for row in db.execute("PRAGMA integrity_check(10)")]
        if faults != ["ok"]:
            raise StoreError(f"the store {path} is damaged: {'; '.join(faults)}")
        there = {
            row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
        counts = {
            name: db.execute(f"SELECT count(*) FROM {name}").get
            for name in COUNTED
            if name in there
        }
        return counts | {"storeVersion": version}
    except apsw.Error as error:
        raise StoreError(f"the store {path} cannot be read: {error}") from error
    finally:
        db.close()
