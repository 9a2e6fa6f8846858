"""A SQLite file as one end of a move."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from crossclaw.domain.errors import StoreError
from crossclaw.ledger.database import Database
from crossclaw.ledger.moving import MovableStore, MovedTable
from crossclaw.ledger.sqlite.store import FolderLock, open_writer
from crossclaw.ledger.sqlite.words import put_words

T = TypeVar("T")

_TABLES = (
    "CREATE TEMP VIEW IF NOT EXISTS all_tables AS SELECT name FROM main.sqlite_schema "
    "WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'entries_words%'"
)


class SqliteMovable(MovableStore):
    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._lock = FolderLock(path.parent)
        try:
            self._db = open_writer(path, half_moved=True)
        except BaseException:
            self._lock.close()
            raise
        self._db.execute(_TABLES)

    def run(self, work: Callable[[Database], T]) -> T:
        try:
            return work(self._db)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise StoreError(
                f"{self.name} cannot be read: {error}; run crossclaw doctor"
            ) from error

    def store(self, work: Callable[[Database], None]) -> None:
        try:
            with self._db:
                work(self._db)
        except apsw.Error as error:
            raise StoreError(f"{self.name} cannot be written: {error}") from error

    def tables(self) -> list[MovedTable]:
        names = [
            str(name) for (name,) in self._db.execute("SELECT name FROM all_tables ORDER BY 1")
        ]
        return [self._table(name) for name in names if name != "move_progress"]

    def _table(self, name: str) -> MovedTable:
        columns = list(self._db.execute(f"PRAGMA table_info({name})"))
        keys = sorted((place, column) for _, column, *_, place in columns if place)
        return MovedTable(
            name,
            tuple(str(column[1]) for column in columns),
            tuple(str(column) for _, column in keys),
            frozenset(str(column[1]) for column in columns if column[2] == "BLOB"),
        )

    def put_words(self, db: Database, words: list[tuple[int, str]]) -> None:
        put_words(db, words)

    def finish(self, tables: Sequence[MovedTable]) -> None:
        """Does nothing: SQLite's row numbers follow the highest one by themselves."""

    def close(self) -> None:
        self._db.close()
        self._lock.close()
