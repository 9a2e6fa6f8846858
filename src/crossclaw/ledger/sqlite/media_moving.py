"""Moves the pictures of earlier releases out of their messages."""

from typing import NamedTuple

import apsw
import msgspec

from crossclaw.domain.messages import UserMessage, decode_message, encode_message
from crossclaw.ledger.sqlite.damage import UNREADABLE
from crossclaw.ledger.sqlite.media import keep_in_note, keep_in_transcript, keep_waiting
from crossclaw.ledger.sqlite.writer import SqliteTransaction, Transaction

_CARRIES, _NAMES = b'"base64"', b'"stored"'
"""What every message contains that carries a picture, or refers to one. A tool's result could be
any JSON, also one that looks like a reference only now; but a reference is valid only where its picture
is."""
_MARKED = "(instr(CAST({0} AS BLOB), ?2) OR instr(CAST({0} AS BLOB), ?3))"


class _Row(NamedTuple):
    number: int
    agent_id: str
    session_id: str
    run_id: str | None
    at: int
    type: str
    body: bytes


def move_media(db: apsw.Connection) -> None:
    """Moves pictures out, one message at a time: an old store may have gigabytes of them. What
    cannot be read stays unchanged."""
    transaction = SqliteTransaction(db)
    query = (
        "SELECT id, agent_id, session_id, run_id, at, type, body FROM entries "
        f"WHERE id > ?1 AND {_MARKED.format('body')} ORDER BY id LIMIT 1"
    )
    last = 0
    while row := db.execute(query, (last, _CARRIES, _NAMES)).fetchone():
        entry = _Row(*row)
        last = entry.number
        moved = _moved(transaction, entry)
        if moved is not None:
            db.execute("UPDATE entries SET body = ? WHERE id = ?", (moved, last))
    _move_waiting(transaction)


def _moved(transaction: Transaction, row: _Row) -> bytes | None:
    """The changed body; None if it stays unchanged."""
    where = (row.agent_id, row.session_id, None)
    try:
        if row.type != "message":
            note = msgspec.json.decode(row.body, type=dict)
            changed = keep_in_note(transaction, *where, note, row.at)
            return None if changed is note else msgspec.json.encode(changed)
        message = decode_message(row.body)
        kept = keep_in_transcript(transaction, *where, message, row.at)
        return None if kept is message else encode_message(kept)
    except UNREADABLE:
        return None


def _move_waiting(transaction: Transaction) -> None:
    db = transaction.db
    query = (
        "SELECT run_id, agent_id, at, message FROM inbox "
        f"WHERE run_id > ?1 AND {_MARKED.format('message')} ORDER BY run_id LIMIT 1"
    )
    last = ""
    while row := db.execute(query, (last, _CARRIES, _NAMES)).fetchone():
        last, agent_id, at, body = row
        try:
            message = decode_message(body)
        except UNREADABLE:
            continue
        if isinstance(message, UserMessage):
            kept = keep_waiting(transaction, agent_id, last, message, at)
            db.execute(
                "UPDATE inbox SET message = ? WHERE run_id = ?", (encode_message(kept), last)
            )
