"""Damage: a row that cannot be read hurts nobody but itself.

Lists are decoded at once, and row by row where that fails: then what can be read is answered, and the rest is
counted. An entry whose words are damaged stays in its place as a note that says so.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

T = TypeVar("T")
Row = tuple[Any, ...]

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError)
"""What a row can be whose bytes are not those that were written. The disk's own trouble is SQLite's to tell."""

_met: dict[str, Counter[str]] = {}


def meet(db: apsw.Connection, table: str) -> None:
    _met.setdefault(str(db.filename), Counter())[table] += 1


def met(filename: str) -> Counter[str]:
    """How often a row of each table of a store could not be read, since the start."""
    return _met.get(filename, Counter())


def read_rows(
    db: apsw.Connection, table: str, sql: str, values: Row, make: Callable[[Row], T]
) -> list[T]:
    try:
        return [make(row) for row in db.execute(sql, values)]
    except UNREADABLE:
        return list(_one_by_one(db, table, sql, values, make))


def read_row(
    db: apsw.Connection, table: str, sql: str, values: Row, make: Callable[[Row], T]
) -> T | None:
    """Of one row that was asked for by its name: one that cannot be read is like none."""
    return next(iter(read_rows(db, table, sql, values, make)), None)


def _one_by_one(
    db: apsw.Connection, table: str, sql: str, values: Row, make: Callable[[Row], T]
) -> Iterator[T]:
    """A text that is no text makes the whole statement fail, so each row has a statement of its own."""
    counted = db.execute(f"SELECT count(*) FROM ({sql})", values).fetchone()
    for number in range(counted[0] if counted else 0):
        try:
            row = db.execute(f"SELECT * FROM ({sql}) LIMIT 1 OFFSET {number}", values).fetchone()
            if row is not None:
                yield make(row)
        except UNREADABLE:
            meet(db, table)


class Damaged(NamedTuple):
    """A row that cannot be read, for people."""

    table: str
    name: str
    why: str
