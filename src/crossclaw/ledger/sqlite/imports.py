"""Imports: writes whole transcripts of another store in batches."""

from typing import Any

import msgspec

from crossclaw.domain.errors import Fenced, Invalid
from crossclaw.domain.messages import UserMessage, encode_message
from crossclaw.ledger.database import Database
from crossclaw.ledger.imports import (
    BeginImport,
    ImportedEntry,
    ImportedSession,
    ImportEntries,
    ImportState,
)
from crossclaw.ledger.sqlite.entries import ROLE_OF
from crossclaw.ledger.sqlite.media import keep_in_note, keep_in_transcript
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.sessions import CHANGEABLE
from crossclaw.ledger.sqlite.words import indexed_words
from crossclaw.ledger.sqlite.writer import Transaction

_KEPT = CHANGEABLE | {
    "channel",
    "spawned_by",
    "last_channel",
    "last_to",
    "last_account_id",
    "last_thread_id",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "context_tokens",
    "compactions",
    "system_sent",
    "aborted_last_run",
}


def begin_import(transaction: Transaction, op: BeginImport) -> ImportState | None:
    db, session = transaction.db, op.session
    known = _state(db, session.session_id)
    if known is not None:
        if known.last_seq == known.entries:
            _refresh(db, session)
        return known
    if _transcript_is_there(db, session.session_id):
        return None
    remarks = () if session.past else _put_session(db, session)
    _put_transcript(db, session, op)
    return ImportState(remarks=remarks)


def _refresh(db: Database, session: ImportedSession) -> None:
    """Updates what was changed there since, unless something happened here later."""
    columns = {name: v for name, v in session.columns.items() if name in _KEPT}
    names = "".join(f"{name} = ?, " for name in columns)
    values = [to_json(v) if isinstance(v, dict) else v for v in columns.values()]
    db.execute(
        f"UPDATE sessions SET {names} updated_at = ? WHERE session_id = ? AND updated_at < ?",
        (*values, session.updated_at, session.session_id, session.updated_at),
    )


def _state(db: Database, session_id: str) -> ImportState | None:
    row = db.execute(
        "SELECT i.size, i.bytes, i.lines, i.entries, t.last_seq FROM imports i "
        "JOIN transcripts t USING (session_id) WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    size, read, lines, entries, last_seq = row
    return ImportState(size=size, bytes=read, lines=lines, entries=entries, last_seq=last_seq)


def _transcript_is_there(db: Database, session_id: str) -> bool:
    row = db.execute("SELECT 1 FROM transcripts WHERE session_id = ?", (session_id,)).fetchone()
    return row is not None


def _put_session(db: Database, session: ImportedSession) -> tuple[str, ...]:
    key, columns = session.key, dict(session.columns)
    if unknown := columns.keys() - _KEPT:
        raise Invalid(f"a session has no {', '.join(sorted(unknown))}")
    if db.execute("SELECT 1 FROM sessions WHERE key = ?", (key.text,)).fetchone():
        return (f"{key} is in use here; what was said there is kept as a past transcript",)
    values: dict[str, Any] = {
        "agent_id": key.agent_id,
        "key": key.text,
        "session_id": session.session_id,
        "kind": key.kind,
        "chat_type": key.chat_type,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        **columns,
    }
    names = ", ".join(values)
    marks = ", ".join("?" for _ in values)
    db.execute(
        f"INSERT INTO sessions ({names}) VALUES ({marks})",
        tuple(to_json(v) if isinstance(v, dict) else v for v in values.values()),
    )
    return ()


def _put_transcript(db: Database, session: ImportedSession, op: BeginImport) -> None:
    key, current = session.key, session.session_id
    stands = db.execute("SELECT 1 FROM sessions WHERE session_id = ?", (current,)).fetchone()
    closed_at = None if stands else session.updated_at
    db.execute(
        "INSERT INTO transcripts (session_id, agent_id, key, created_at, closed_at) "
        "VALUES (?,?,?,?,?)",
        (current, key.agent_id, key.text, session.created_at, closed_at),
    )
    db.execute(
        "INSERT INTO imports (session_id, agent_id, path, at) VALUES (?,?,?,?)",
        (current, key.agent_id, op.path, op.at),
    )


def import_entries(transaction: Transaction, op: ImportEntries) -> None:
    db, after = transaction.db, op.after
    row = db.execute(
        "UPDATE imports SET size = ?, bytes = ?, lines = ?, entries = ? "
        "WHERE session_id = ? AND bytes = ? AND entries = ? RETURNING agent_id",
        (after.size, after.bytes, after.lines, after.entries, op.session_id, op.before.bytes,
         op.before.entries),
    ).fetchone()  # fmt: skip
    if row is None:
        raise Fenced(f"another import of {op.session_id} has gone on meanwhile")
    if not op.entries:
        return
    (last_seq,) = transaction.get(
        "SELECT last_seq FROM transcripts WHERE session_id = ?", (op.session_id,)
    )
    last_id = transaction.numbers_for(len(op.entries)) - 1
    kept = [_kept(transaction, row[0], op.session_id, imported) for imported in op.entries]
    rows, words = _rows_of(row[0], msgspec.structs.replace(op, entries=kept), last_seq, last_id)
    db.executemany(
        "INSERT INTO entries (id, agent_id, session_id, seq, entry_id, at, type, role, provenance, "
        "body) VALUES (?,?,?,?,?,?,?,?,?,?)",
        rows,
    )
    transaction.words.extend(words)
    db.execute(
        "UPDATE transcripts SET last_seq = ? WHERE session_id = ?",
        (last_seq + len(op.entries), op.session_id),
    )


def _kept(
    transaction: Transaction, agent_id: str, session_id: str, imported: ImportedEntry
) -> ImportedEntry:
    """The entry with its pictures and files stored by their hashes: nearly always itself, as it has none."""
    entry, where = imported.entry, (agent_id, session_id, None)
    if entry.message is not None:
        message = keep_in_transcript(transaction, *where, entry.message, imported.at)
        if message is entry.message:
            return imported
        return ImportedEntry(msgspec.structs.replace(entry, message=message), imported.at)
    if not entry.note:
        return imported
    note = keep_in_note(transaction, *where, entry.note, imported.at)
    return ImportedEntry(msgspec.structs.replace(entry, note=note), imported.at)


def _rows_of(
    agent_id: str, op: ImportEntries, last_seq: int, last_id: int
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """The rows of the entries, and their words for the search index."""
    rows: list[tuple[Any, ...]] = []
    words: list[tuple[int, str]] = []
    for number, imported in enumerate(op.entries, 1):
        rows.append(
            (last_id + number, agent_id, op.session_id, last_seq + number, *_columns(imported))
        )
        if imported.entry.message is not None:
            words.append((last_id + number, indexed_words(imported.entry.message)))
    return rows, words


def _columns(imported: ImportedEntry) -> tuple[Any, ...]:
    entry, message = imported.entry, imported.entry.message
    if message is None:
        return (
            entry.entry_id,
            imported.at,
            entry.type,
            None,
            None,
            to_json(entry.note or {}).encode(),
        )
    provenance = message.provenance if isinstance(message, UserMessage) else None
    return (
        entry.entry_id,
        imported.at,
        entry.type,
        ROLE_OF[type(message)],
        provenance and provenance.kind,
        encode_message(message),
    )
