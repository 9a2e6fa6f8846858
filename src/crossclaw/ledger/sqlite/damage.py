"""Damage: a row that cannot be read affects nothing but itself.

Lists are decoded at once, and row by row if that fails: then what can be read is returned, and the
rest is counted. A damaged entry or session stays in its place and is marked.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import apsw
import apsw.ext
import msgspec

from crossclaw.ledger.database import Database

StoredRow = tuple[Any, ...]

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError)
"""The errors of decoding a row whose bytes are not those that were written. SQLite itself reports
the disk's errors."""

_met: dict[str, Counter[str]] = {}


def meet(db: Database, table: str) -> None:
    _met.setdefault(str(db.filename), Counter())[table] += 1


def met(filename: str) -> Counter[str]:
    """How often a row of each table of a store could not be read, since the start."""
    return _met.get(filename, Counter())


def read_rows(
    db: Database,
    table: str,
    sql: str,
    values: StoredRow,
    make: Callable[[StoredRow], T],
    damaged: Callable[[StoredRow], T] | None = None,
) -> list[T]:
    """Reads rows. `damaged` makes what is shown in place of a row that cannot be read; without it
    the row is left out."""
    try:
        return [make(row) for row in db.execute(sql, values)]
    except UNREADABLE:
        return list(_one_by_one(db, table, sql, values, make, damaged))


def _one_by_one(
    db: Database,
    table: str,
    sql: str,
    values: StoredRow,
    make: Callable[[StoredRow], T],
    damaged: Callable[[StoredRow], T] | None,
) -> Iterator[T]:
    """Reads each row by a statement of its own, since invalid text makes a whole statement fail."""
    counted = db.execute(f"SELECT count(*) FROM ({sql}) AS r", values).fetchone()
    for number in range(counted[0] if counted else 0):
        only = f"SELECT * FROM ({sql}) AS r LIMIT 1 OFFSET {number}"
        try:
            row = db.execute(only, values).fetchone()
            if row is not None:
                yield make(row)
        except UNREADABLE:
            meet(db, table)
            if damaged is not None:
                yield from _in_its_place(db, only, values, damaged)


def _in_its_place(
    db: Database, sql: str, values: StoredRow, damaged: Callable[[StoredRow], T]
) -> Iterator[T]:
    row = legible_row(db, sql, values)
    try:
        if row is not None:
            yield damaged(row)
    except UNREADABLE:
        return  # nothing of it can be told; it is counted, and doctor names it


def legible_row(db: Database, sql: str, values: StoredRow) -> StoredRow | None:
    """The first row of a statement, also where a text of it is no text: then with marks for the wrong bytes. A server
    stores no such text."""
    if not isinstance(db, apsw.Connection):
        plain: StoredRow | None = db.execute(sql, values).fetchone()
        return plain
    names = [f"c{n}" for n in range(len(apsw.ext.query_info(db, sql).description))]
    parts = ", ".join(
        f"typeof({name}), CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
        for name in names
    )
    columns = ", ".join(names)
    row = db.execute(f"WITH r({columns}) AS ({sql}) SELECT {parts} FROM r", values).fetchone()
    if row is None:
        return None
    pairs = zip(row[::2], row[1::2], strict=True)
    return tuple(v.decode("utf-8", "replace") if kind == "text" else v for kind, v in pairs)


class Damaged(NamedTuple):
    """A row that cannot be read, for people."""

    table: str
    name: str
    why: str
