"""Forks: copies rows of a transcript into another."""

from typing import Any

from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.domain.ids import entry_id_of
from crossclaw.domain.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    decode_message,
)
from crossclaw.domain.sessions import NewEntry, NewSession, Session
from crossclaw.ledger.forking import FORK_ENTRIES_MAX, Forked, ForkSession
from crossclaw.ledger.operations import EnsureSession
from crossclaw.ledger.sqlite.damage import UNREADABLE
from crossclaw.ledger.sqlite.entries import put_entry
from crossclaw.ledger.sqlite.sessions import ensure_session, find_session
from crossclaw.ledger.sqlite.words import indexed_words
from crossclaw.ledger.sqlite.writer import Transaction

COPIED = "entry_id, run_id, at, type, role, provenance, source_session, pinned, body"
CUT = "interrupted: the conversation was forked here, before this call had its result"


def fork_session(transaction: Transaction, op: ForkSession) -> Forked:
    source = find_session(transaction.db, op.source)
    if source is None:
        raise NotFound(f"there is no session {op.source}")
    last, asked = _where(transaction, source, op.entry_id)
    if last > FORK_ENTRIES_MAX:
        raise Invalid(
            f"a fork has at most {FORK_ENTRIES_MAX:,} entries; this one would have {last:,}"
        )
    new = NewSession(key=op.key, session_id=op.session_id, authority=source.authority)
    ensure_session(transaction, EnsureSession(new=new, at=op.at))
    messages = _copy(transaction, op, source.session_id, last)
    for call in _open_calls(messages):
        cut = ToolResultMessage(call.id, call.name, CUT, True, timestamp=op.at)
        entry = NewEntry(entry_id=entry_id_of(call.id, op.session_id), message=cut)
        put_entry(transaction, op.key.agent_id, op.session_id, None, entry, op.at)
    _note_lineage(transaction, op, source, last)
    _take_settings(transaction, op, source)
    forked = find_session(transaction.db, op.key)
    assert forked is not None
    return Forked(forked, asked)


def _where(
    transaction: Transaction, source: Session, entry_id: str | None
) -> tuple[int, UserMessage | None]:
    """The seq of the last entry that is copied, and a person's message that comes after it."""
    if entry_id is None:
        (last,) = transaction.get(
            "SELECT last_seq FROM transcripts WHERE session_id = ?", (source.session_id,)
        )
        return int(last), None
    row = transaction.db.execute(
        "SELECT seq, type, body FROM entries WHERE session_id = ? AND entry_id = ?",
        (source.session_id, entry_id),
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no entry {entry_id} in session {source.key}")
    seq, kind, body = row
    message = _read(body) if kind == "message" else None
    return (seq - 1, message) if isinstance(message, UserMessage) else (seq, None)


def _copy(transaction: Transaction, op: ForkSession, session_id: str, last: int) -> list[Message]:
    db, agent_id = transaction.db, op.key.agent_id
    rows = db.execute(
        f"SELECT {COPIED} FROM entries WHERE session_id = ? AND seq <= ? ORDER BY seq",
        (session_id, last),
    ).fetchall()
    db.executemany(
        f"INSERT INTO entries (agent_id, session_id, seq, {COPIED}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
        [(agent_id, op.session_id, seq, *row) for seq, row in enumerate(rows, start=1)],
    )
    db.execute(
        "UPDATE transcripts SET last_seq = ? WHERE session_id = ?", (len(rows), op.session_id)
    )
    db.execute(
        "INSERT INTO media_uses (agent_id, holder, sha256) SELECT agent_id, CAST(? AS TEXT), sha256 "
        "FROM media_uses WHERE holder = ?",
        (op.session_id, session_id),
    )
    messages = []
    for seq, row in enumerate(rows, start=1):
        message = _read(row[-1]) if row[3] == "message" else None
        if message is not None:
            transaction.index(op.session_id, seq, indexed_words(message))
            messages.append(message)
    transaction.appended.add(op.session_id)
    return messages


def _open_calls(messages: list[Message]) -> list[Any]:
    """The calls of the last answer that have no result yet."""
    answered = set[str]()
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_use_id)
        elif isinstance(message, AssistantMessage):
            return [call for call in message.tool_calls if call.id not in answered]
        else:
            break
    return []


def _note_lineage(transaction: Transaction, op: ForkSession, source: Session, last: int) -> None:
    note: dict[str, object] = {
        "about": "fork",
        "from": source.key.shown,
        "sessionId": source.session_id,
        "seq": last,
    }
    entry = NewEntry(entry_id=op.note_id, type="note", note=note)
    put_entry(transaction, op.key.agent_id, op.session_id, None, entry, op.at)


def _take_settings(transaction: Transaction, op: ForkSession, source: Session) -> None:
    transaction.db.execute(
        "UPDATE sessions SET model = ?, thinking = ?, verbose = ?, compactions = ? WHERE key = ?",
        (source.model, source.thinking, source.verbose, source.compactions, op.key.text),
    )


def _read(body: bytes) -> Message | None:
    try:
        return decode_message(body)
    except UNREADABLE:
        return None
