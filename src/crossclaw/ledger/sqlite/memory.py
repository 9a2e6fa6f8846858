"""Rows that outlive a compaction: the newest one, pinned entries, and what a session has under
way."""

from datetime import UTC, datetime
from typing import Any

from crossclaw.domain.compactions import Obligation
from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import PINNED_BYTES_MAX, PINS_MAX, PinEntry
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.rows import ENTRY, entry_of
from crossclaw.ledger.sqlite.writer import Transaction

OBLIGATIONS_MAX = 20  # of each kind; whoever has more under way is told of the newest
ABOUT_CHARS = 200


def find_compaction(db: Database, session_id: str) -> Entry | None:
    row = db.execute(
        f"SELECT {ENTRY} FROM entries INDEXED BY entries_compacted "
        "WHERE session_id = ? AND type = 'compaction' ORDER BY seq DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return row and entry_of(row)


def list_pinned(db: Database, session_id: str) -> list[Entry]:
    found = read_rows(
        db,
        "entries",
        f"SELECT {ENTRY} FROM entries INDEXED BY entries_pinned "
        "WHERE session_id = ? AND pinned ORDER BY seq",
        (session_id,),
        entry_of,
    )
    return [entry for entry in found if entry.message is not None]


def pin_entry(transaction: Transaction, op: PinEntry) -> Entry:
    db = transaction.db
    row = db.execute(
        f"SELECT {ENTRY} FROM entries WHERE session_id = ? AND entry_id = ? AND type = 'message'",
        (op.session_id, op.entry_id),
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no message {op.entry_id} in this session")
    entry = entry_of(row)
    if op.pinned and not entry.pinned:
        _refuse_too_many(transaction, op.session_id, entry.size)
    db.execute(
        "UPDATE entries SET pinned = ? WHERE session_id = ? AND seq = ?",
        (op.pinned, op.session_id, entry.seq),
    )
    return entry


def _refuse_too_many(transaction: Transaction, session_id: str, size: int) -> None:
    pins = list_pinned(transaction.db, session_id)
    if len(pins) >= PINS_MAX:
        raise Invalid(f"a session has at most {PINS_MAX} pins; unpin one first")
    if sum(pin.size for pin in pins) + size > PINNED_BYTES_MAX:
        raise Invalid(
            f"pinned messages have at most {PINNED_BYTES_MAX} bytes together, because every request "
            "carries them; unpin one first, or pin a shorter message"
        )


# Asked with every claim, and mostly there is nothing: one look at three indexes of what is open.
_ANY = (
    "SELECT EXISTS(SELECT 1 FROM spawns INDEXED BY spawns_living "
    "WHERE parent_key = ?1 AND state <> 'over') "
    "OR EXISTS(SELECT 1 FROM exchanges INDEXED BY exchanges_under_way "
    "WHERE requester_key = ?1 AND state <> 'over') "
    "OR EXISTS(SELECT 1 FROM timers INDEXED BY timers_of_session WHERE payload ->> '$.sessionKey' = ?1)"
)


def list_obligations(db: Database, key: SessionKey) -> list[Obligation]:
    (is_any,) = db.execute(_ANY, (key.text,)).fetchone() or (0,)
    if not is_any:
        return []
    children: list[Any] = db.execute(
        "SELECT child_key, coalesce(label || ': ', '') || task FROM spawns INDEXED BY spawns_living "
        "WHERE parent_key = ? AND state <> 'over' AND ended_at IS NULL "
        "ORDER BY created_at DESC LIMIT ?",
        (key.text, OBLIGATIONS_MAX),
    ).fetchall()
    sends: list[Any] = db.execute(
        "SELECT target_key, request FROM exchanges "
        "WHERE requester_key = ? AND state <> 'over' ORDER BY created_at DESC LIMIT ?",
        (key.text, OBLIGATIONS_MAX),
    ).fetchall()
    timers: list[Any] = db.execute(
        "SELECT kind, due_at FROM timers "
        "WHERE agent_id = ? AND payload ->> '$.sessionKey' = ? ORDER BY due_at LIMIT ?",
        (key.agent_id, key.text, OBLIGATIONS_MAX),
    ).fetchall()
    return [
        *(Obligation("child", name, about[:ABOUT_CHARS]) for name, about in children),
        *(Obligation("send", name, about[:ABOUT_CHARS]) for name, about in sends),
        *(Obligation("timer", name, _moment(due_at)) for name, due_at in timers),
    ]


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")
