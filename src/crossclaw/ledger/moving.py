"""Moving a ledger from a file into PostgreSQL or back, table by table, and comparing both.

Each chunk of rows is stored together with how far the move has come, so a move that was killed goes
on where it stopped. While a move is not finished, no gateway opens its target. At the end every row
of both is read and compared.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from crossclaw.domain.aliases import Counted
from crossclaw.domain.errors import StoreError
from crossclaw.domain.messages import decode_message
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite.damage import UNREADABLE
from crossclaw.ledger.sqlite.words import indexed_words

T = TypeVar("T")

ROWS_AT_ONCE = 1_000
LARGE_ROWS_AT_ONCE = 4  # pictures and files have up to 16 MB each
LARGE = frozenset({"media"})
PROGRESS = "move_progress"
WORDS = "entries_words"  # made anew from the entries


class MovedTable(NamedTuple):
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    bytes_columns: frozenset[str]
    """The columns whose values are bytes, also where SQLite was once given a text."""

    @property
    def rows_at_once(self) -> int:
        return LARGE_ROWS_AT_ONCE if self.name in LARGE else ROWS_AT_ONCE

    def page(self, rows: int) -> str:
        marks = ", ".join("?" for _ in self.key)
        keys = ", ".join(self.key)
        return (
            f"SELECT {', '.join(self.columns)} FROM {self.name} "
            f"WHERE ({keys}) > ({marks}) ORDER BY {keys} LIMIT {rows}"
        )

    @property
    def first_page(self) -> str:
        return (
            f"SELECT {', '.join(self.columns)} FROM {self.name} "
            f"ORDER BY {', '.join(self.key)} LIMIT {self.rows_at_once}"
        )

    @property
    def insert(self) -> str:
        marks = ", ".join("?" for _ in self.columns)
        return f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({marks})"

    def key_of(self, row: Sequence[Any]) -> list[Any]:
        return [row[self.columns.index(name)] for name in self.key]

    def plain(self, row: Sequence[Any]) -> list[Any]:
        """A row in the form that both engines have."""
        return [
            value.encode() if name in self.bytes_columns and isinstance(value, str) else value
            for name, value in zip(self.columns, row, strict=True)
        ]


class MovableStore(ABC):
    """One end of a move: a store that nobody else uses meanwhile."""

    name: str

    @abstractmethod
    def run(self, work: Callable[[Database], T]) -> T:
        """Runs a function that reads."""

    @abstractmethod
    def store(self, work: Callable[[Database], None]) -> None:
        """Runs a function that writes, in one transaction."""

    @abstractmethod
    def tables(self) -> list[MovedTable]: ...

    @abstractmethod
    def put_words(self, db: Database, words: list[tuple[int, str]]) -> None: ...

    @abstractmethod
    def finish(self, tables: Sequence[MovedTable]) -> None:
        """Sets row numbers to go on after the highest one, when the last row is stored."""

    @abstractmethod
    def close(self) -> None: ...


class MoveReport(NamedTuple):
    rows: dict[str, int]
    resumed: bool


class Move:
    def __init__(
        self, source: MovableStore, target: MovableStore, progress: Counted = lambda done, of: None
    ) -> None:
        self._source, self._target, self._progress = source, target, progress
        self._tables = [table for table in source.tables() if table.name != WORDS]

    def run(self) -> MoveReport:
        total = sum(self._counts(self._source).values())
        resumed = self._begin()
        moved = 0
        for table in self._tables:
            for done in self._copy(table):
                self._progress(moved + done, total)
            moved += self._source.run(_count(table.name))
        self._verify()
        self._target.finish(self._tables)
        self._target.store(lambda db: _nothing(db.execute(f"DROP TABLE {PROGRESS}")))
        return MoveReport(self._counts(self._target), resumed)

    def _begin(self) -> bool:
        """Whether a move of this same source goes on. Refuses a target that contains anything
        else."""
        named = self._target.run(_progress_source)
        if named is None:
            filled = [name for name, rows in self._counts(self._target).items() if rows]
            if filled:
                raise StoreError(
                    f"{self._target.name} is not empty ({', '.join(filled[:5])}): a ledger is moved "
                    "into a new one"
                )
            self._target.store(self._create_progress)
            return False
        if named != self._source.name:
            raise StoreError(
                f"{self._target.name} holds half of a move from {named}; go on with that one, or name "
                "another target"
            )
        return True

    def _create_progress(self, db: Database) -> None:
        db.execute(
            f"CREATE TABLE {PROGRESS} (name TEXT PRIMARY KEY, last TEXT NOT NULL, moved BIGINT NOT NULL)"
        )
        db.execute(f"INSERT INTO {PROGRESS} VALUES (?, ?, 0)", ("source", self._source.name))

    def _copy(self, table: MovedTable) -> Iterator[int]:
        last, moved = self._target.run(_reached(table.name))
        while rows := self._source.run(_page(table, last, table.rows_at_once)):
            last, moved = table.key_of(rows[-1]), moved + len(rows)
            self._target.store(self._storing(table, rows, last, moved))
            yield moved

    def _storing(
        self, table: MovedTable, rows: list[list[Any]], last: list[Any], moved: int
    ) -> Callable[[Database], None]:
        def store(db: Database) -> None:
            db.executemany(table.insert, rows)
            if table.name == "entries":
                self._target.put_words(db, _words(table, rows))
            db.execute(
                f"INSERT INTO {PROGRESS} VALUES (?, ?, ?) ON CONFLICT (name) "
                "DO UPDATE SET last = excluded.last, moved = excluded.moved",
                (table.name, msgspec.json.encode(last).decode(), moved),
            )

        return store

    def _counts(self, store: MovableStore) -> dict[str, int]:
        return {table.name: store.run(_count(table.name)) for table in self._tables}

    def _verify(self) -> None:
        """Compares both stores by count and by content; raises if they differ."""
        for table in self._tables:
            there, here = digest_of(self._source, table), digest_of(self._target, table)
            if there != here:
                raise StoreError(
                    f"after the move the table {table.name} of {self._target.name} is not what "
                    f"{self._source.name} has ({here[0]} rows, {there[0]} there): something has written to one "
                    "of them meanwhile. The source is unchanged; move into an empty target"
                )


def digest_of(store: MovableStore, table: MovedTable) -> tuple[int, str]:
    """The number of rows of a table, and a digest of their content."""
    digest, count, last = hashlib.blake2b(digest_size=16), 0, None
    while rows := store.run(_page(table, last, table.rows_at_once)):
        for row in rows:
            digest.update(msgspec.msgpack.encode(row))
        last, count = table.key_of(rows[-1]), count + len(rows)
    return count, digest.hexdigest()


def _page(
    table: MovedTable, last: list[Any] | None, rows: int
) -> Callable[[Database], list[list[Any]]]:
    def read(db: Database) -> list[list[Any]]:
        found = db.execute(table.first_page) if last is None else db.execute(table.page(rows), last)
        return [table.plain(row) for row in found]

    return read


def _count(name: str) -> Callable[[Database], int]:
    return lambda db: int(db.execute(f"SELECT count(*) FROM {name}").fetchone()[0])


def _reached(name: str) -> Callable[[Database], tuple[list[Any] | None, int]]:
    def read(db: Database) -> tuple[list[Any] | None, int]:
        sql = f"SELECT last, moved FROM {PROGRESS} WHERE name = ?"
        row = db.execute(sql, (name,)).fetchone()
        return (msgspec.json.decode(row[0]), int(row[1])) if row else (None, 0)

    return read


def _progress_source(db: Database) -> str | None:
    """The name of the store from which a move into this one has begun."""
    if not _is_there(db):
        return None
    row = db.execute(f"SELECT last FROM {PROGRESS} WHERE name = 'source'").fetchone()
    return str(row[0]) if row else ""


def _is_there(db: Database) -> bool:
    tables = "SELECT 1 FROM all_tables WHERE name = ?"
    return db.execute(tables, (PROGRESS,)).fetchone() is not None


def _words(table: MovedTable, rows: list[list[Any]]) -> list[tuple[int, str]]:
    number, kind, body = (table.columns.index(name) for name in ("id", "type", "body"))
    found: list[tuple[int, str]] = []
    for row in rows:
        if row[kind] == "message":
            try:
                found.append((row[number], indexed_words(decode_message(row[body]))))
            except UNREADABLE:
                continue  # it is moved as it is, and cannot be searched there either
    return found


def _nothing(_rows: object) -> None:
    return None
