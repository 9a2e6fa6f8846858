"""What needs attention, on SQLite: small partial indexes contain only what is in trouble."""

from collections.abc import Sequence
from typing import Any

from crossclaw.domain.sessions import Session
from crossclaw.ledger.attention import TEXT_CHARS, Dismiss, Resend, TightBudget, TroubledDelivery
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.rows import SESSION, damaged_session, session_of, to_json
from crossclaw.ledger.sqlite.writer import Transaction

_DISMISSED_MS = 90 * 24 * 3600 * 1000  # what it was about is long gone then
_TROUBLED = "state IN ('uncertain', 'failed')"


def dismiss(transaction: Transaction, op: Dismiss) -> None:
    transaction.db.execute("DELETE FROM dismissals WHERE at < ?", (op.at - _DISMISSED_MS,))
    transaction.db.execute(
        "INSERT INTO dismissals (name, agent_id, at) VALUES (?,?,?) "
        "ON CONFLICT (name) DO UPDATE SET at = excluded.at",
        (op.name, op.agent_id, op.at),
    )


def resend(transaction: Transaction, op: Resend) -> bool:
    """Sends a delivery again because a person wants it, though an earlier attempt may have arrived:
    that one counts no longer. One in pieces keeps its split and what has arrived of it."""
    made = transaction.db.execute(
        "UPDATE outbox SET state = 'pending', attempt = CASE WHEN EXISTS "
        "(SELECT 1 FROM delivery_pieces WHERE delivery_id = ?2) THEN 1 ELSE 0 END, "
        "not_before = 0, error = NULL, tried_at = NULL, "
        f"created_at = ?1, updated_at = ?1 WHERE id = ?2 AND {_TROUBLED} RETURNING 1",
        (op.at, op.delivery_id),
    ).fetchone()
    if made is None:
        return False
    transaction.db.execute(
        "UPDATE delivery_pieces SET state = 'pending', tried_at = NULL "
        "WHERE delivery_id = ? AND state <> 'delivered'",
        (op.delivery_id,),
    )
    transaction.db.execute(
        "DELETE FROM delivery_previews WHERE delivery_key = "
        "(SELECT delivery_key FROM outbox WHERE id = ?)",
        (op.delivery_id,),
    )
    return True


def dismissed(db: Database, names: Sequence[str]) -> set[str]:
    rows: Any = db.execute(
        "SELECT name FROM dismissals WHERE name IN (SELECT value FROM json_each(?))",
        (to_json(list(names)),),
    )
    return {name for (name,) in rows}


def troubled_sessions(db: Database, limit: int) -> list[Session]:
    sql = (
        f"SELECT {SESSION} FROM sessions INDEXED BY sessions_in_trouble "
        "WHERE last_status IN ('error', 'timeout') AND archived_at IS NULL "
        "ORDER BY updated_at DESC LIMIT ?"
    )
    return read_rows(db, "sessions", sql, (limit,), session_of, damaged_session)


def troubled_deliveries(db: Database, since: int, limit: int) -> list[TroubledDelivery]:
    sql = (
        f"SELECT id, key, channel, chat, substr(text, 1, {TEXT_CHARS}), state, attempt, updated_at, run_id, error "
        f"FROM outbox INDEXED BY outbox_in_trouble WHERE {_TROUBLED} AND updated_at >= ? "
        "ORDER BY updated_at DESC LIMIT ?"
    )
    return read_rows(db, "outbox", sql, (since, limit), lambda row: TroubledDelivery(*row))


def tight_budgets(db: Database, share: float, limit: int) -> list[TightBudget]:
    """One row for each account: that of the oldest run that still spends from it."""
    sql = (
        "SELECT a.account_id, r.run_id, r.key, r.created_at, a.tokens_spent, a.tokens_max, a.cost_spent, a.cost_max "
        "FROM runs r JOIN accounts a ON a.account_id = r.account_id WHERE r.ended_at IS NULL AND "
        "(a.tokens_spent >= a.tokens_max * CAST(?1 AS DOUBLE PRECISION) OR a.cost_spent >= a.cost_max * ?1) "
        "ORDER BY r.created_at DESC, r.run_id DESC LIMIT ?2"
    )
    found = read_rows(db, "runs", sql, (share, limit), lambda row: (row[0], TightBudget(*row[1:])))
    return list(dict(found).values())
