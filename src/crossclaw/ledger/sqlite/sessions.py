"""Session rows: made once, found by key or id."""

import apsw

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.ledger.contract import EnsureSession
from crossclaw.ledger.sqlite.rows import SESSION, session_of
from crossclaw.ledger.sqlite.writer import Transaction

_BY_KEY = f"SELECT {SESSION} FROM sessions WHERE key = ?"


def ensure_session(transaction: Transaction, op: EnsureSession) -> Session:
    db, new, address = transaction.db, op.new, op.new.address
    key = new.key
    made = db.execute(
        "INSERT INTO sessions (agent_id, key, session_id, kind, chat_type, created_at, updated_at, "
        "channel, display_name, label, spawned_by) VALUES (?,?,?,?,?,?,?,?,?,?,?) "
        "ON CONFLICT (key) DO NOTHING RETURNING 1",
        (
            key.agent_id,
            key.text,
            new.session_id,
            key.kind,
            key.chat_type,
            op.at,
            op.at,
            new.channel or key.channel,
            new.display_name,
            new.label,
            new.spawned_by,
        ),
    ).fetchone()
    if made:
        db.execute(
            "INSERT INTO transcripts (session_id, agent_id, key, created_at) VALUES (?,?,?,?)",
            (new.session_id, key.agent_id, key.text, op.at),
        )
    if address is not None:
        db.execute(
            "UPDATE sessions SET last_channel = ?, last_to = ?, last_account_id = ?, "
            "last_thread_id = ?, display_name = coalesce(?, display_name) WHERE key = ?",
            (
                address.channel,
                address.to,
                address.account_id,
                address.thread_id,
                new.display_name,
                key.text,
            ),
        )
    found = find_session(db, key)
    assert found is not None
    return found


def find_session(db: apsw.Connection, key: SessionKey) -> Session | None:
    row = db.execute(_BY_KEY, (key.text,)).fetchone()
    return row and session_of(row)


def find_session_by_id(db: apsw.Connection, session_id: str) -> Session | None:
    row = db.execute(
        f"SELECT {SESSION} FROM sessions WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    return row and session_of(row)


def list_sessions(
    db: apsw.Connection, limit: int, agent_id: str | None, updated_after: int | None
) -> list[Session]:
    where = ["archived_at IS NULL"]
    values: list[str | int] = []
    if agent_id is not None:
        where.append("agent_id = ?")
        values.append(agent_id)
    if updated_after is not None:
        where.append("updated_at > ?")
        values.append(updated_after)
    rows = db.execute(
        f"SELECT {SESSION} FROM sessions WHERE {' AND '.join(where)} "
        "ORDER BY updated_at DESC LIMIT ?",
        (*values, limit),
    )
    return [session_of(row) for row in rows]
