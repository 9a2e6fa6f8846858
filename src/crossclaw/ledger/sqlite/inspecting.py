"""Inspecting a store: reads every row as it would be used, and reports those that cannot be
read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from crossclaw.domain.errors import InvalidKey, StoreError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import decode_message
from crossclaw.ledger.agreed import HeldTool
from crossclaw.ledger.channels import PairedSender
from crossclaw.ledger.sqlite.agreed_tools import list_held_tools
from crossclaw.ledger.sqlite.channels import list_paired_senders
from crossclaw.ledger.sqlite.credentials import CREDENTIAL, credential_of
from crossclaw.ledger.sqlite.damage import UNREADABLE, Damaged, StoredRow
from crossclaw.ledger.sqlite.jobs import JOB, job_of
from crossclaw.ledger.sqlite.media import MEDIA_USE, check_media, check_use
from crossclaw.ledger.sqlite.rows import (
    DELIVERY,
    ENTRY,
    RUN,
    SESSION,
    TIMER,
    decode_entry,
    delivery_of,
    run_of,
    session_of,
    timer_of,
    why_of,
)
from crossclaw.ledger.sqlite.spawns import SPAWN, spawn_of
from crossclaw.ledger.sqlite.store import open_reader

ROWS_AT_ONCE = 1_000
PAIRED_MAX = 1_000  # people; whoever has more knows that they are many


class _Table(NamedTuple):
    name: str
    order: str
    """The unique column by which its rows are named and paged."""
    columns: str
    read: Callable[[StoredRow], Any]


def _session(row: StoredRow) -> Any:
    session = session_of(row)
    return SessionKey.stored(session.key.text)


_TABLES = (
    _Table("sessions", "id", SESSION, _session),
    _Table("entries", "id", ENTRY, decode_entry),
    _Table("runs", "id", RUN, run_of),
    _Table("inbox", "run_id", "message", lambda row: decode_message(row[0])),
    _Table("outbox", "id", DELIVERY, delivery_of),
    _Table("timers", "timer_key", TIMER, timer_of),
    _Table("jobs", "job_id", JOB, job_of),
    _Table("spawns", "child_key", SPAWN, spawn_of),
    _Table("credentials", "credential_id", CREDENTIAL, credential_of),
    _Table("media", "id", "sha256, data", check_media),
    _Table("media_uses", "id", MEDIA_USE, check_use),
)


def damaged_rows(path: Path) -> Iterator[Damaged]:
    db = open_reader(path)
    try:
        there = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
        for table in _TABLES:
            if table.name in there:  # a store of an earlier release lacks some
                yield from _damaged(db, table)
    finally:
        db.close()


def held_in(path: Path) -> list[HeldTool]:
    db = open_reader(path)
    try:
        return list_held_tools(db)
    except apsw.SQLError:
        return []  # of an earlier release, which held none
    finally:
        db.close()


def paired_in(path: Path) -> list[PairedSender]:
    """The senders that were paired by a code."""
    try:
        db = open_reader(path)
    except StoreError:
        return []  # told already, with the rows
    try:
        return list_paired_senders(db, limit=PAIRED_MAX)
    except apsw.SQLError:
        return []  # of an earlier release, which had none
    finally:
        db.close()


def _damaged(db: apsw.Connection, table: _Table) -> Iterator[Damaged]:
    """The damaged rows of a table. It reads a page at once, and row by row if that fails: invalid
    text ends the whole page."""
    last: Any = None
    page = (
        f"SELECT {table.order} FROM {table.name} WHERE ?1 IS NULL OR {table.order} > ?1 "
        f"ORDER BY {table.order} LIMIT {ROWS_AT_ONCE}"
    )
    while names := [row[0] for row in db.execute(page, (last,))]:
        try:
            for row in db.execute(_whole(table, "BETWEEN ? AND ?"), (names[0], names[-1])):
                table.read(row)
        except (*UNREADABLE, InvalidKey):
            for name in names:
                yield from _tried(db, table, name)
        last = names[-1]


def _whole(table: _Table, which: str, columns: str = "") -> str:
    return f"SELECT {columns or table.columns} FROM {table.name} WHERE {table.order} {which}"


def _tried(db: apsw.Connection, table: _Table, name: Any) -> Iterator[Damaged]:
    try:
        for row in db.execute(_whole(table, "= ?"), (name,)):
            table.read(row)
    except (*UNREADABLE, InvalidKey) as error:
        yield Damaged(table.name, f"{table.order} {name}{_where(db, table, name)}", why_of(error))


def _where(db: apsw.Connection, table: _Table, name: Any) -> str:
    """The session it belongs to, if that can be read."""
    named = {"entries": "session_id", "sessions": "key", "runs": "key", "media_uses": "holder"}
    column = named.get(table.name)
    if column is None:
        return ""
    try:
        row = db.execute(_whole(table, "= ?", column), (name,)).fetchone()
        return f" of {row[0]}" if row else ""
    except UNREADABLE:
        return ""
