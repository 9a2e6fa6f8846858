"""Timers, exports, the audit and what must be swept."""

import apsw

from crossclaw.ledger.contract import (
    ArmTimer,
    Audit,
    Export,
    MarkExported,
    PruneDedupe,
    TakeTimer,
    Timer,
)
from crossclaw.ledger.sqlite.rows import EXPORT, TIMER, export_of, timer_of, to_json
from crossclaw.ledger.sqlite.writer import Transaction


def arm_timer(transaction: Transaction, op: ArmTimer) -> None:
    timer = op.timer
    transaction.db.execute(
        "INSERT INTO timers (timer_key, agent_id, kind, due_at, payload) VALUES (?,?,?,?,?) "
        "ON CONFLICT (timer_key) DO UPDATE SET due_at = excluded.due_at, payload = excluded.payload",
        (timer.timer_key, timer.agent_id, timer.kind, timer.due_at, to_json(timer.payload)),
    )


def take_timer(transaction: Transaction, op: TakeTimer) -> bool:
    row = transaction.db.execute(
        "DELETE FROM timers WHERE timer_key = ? RETURNING 1", (op.timer_key,)
    ).fetchone()
    return row is not None


def list_timers(db: apsw.Connection, due_before: int, limit: int) -> list[Timer]:
    rows = db.execute(
        f"SELECT {TIMER} FROM timers WHERE due_at <= ? ORDER BY due_at LIMIT ?",
        (due_before, limit),
    )
    return [timer_of(row) for row in rows]


def next_timer_at(db: apsw.Connection) -> int | None:
    row = db.execute("SELECT min(due_at) FROM timers").fetchone()
    return row and row[0]


def mark_exported(transaction: Transaction, op: MarkExported) -> None:
    transaction.db.executemany(
        "UPDATE transcripts SET exported_seq = ?2, exported_bytes = ?3 WHERE session_id = ?1",
        op.exports,
    )


def list_exports(db: apsw.Connection, behind: bool, after: str, limit: int) -> list[Export]:
    only = "exported_seq < last_seq AND" if behind else ""
    rows = db.execute(
        f"SELECT {EXPORT} FROM transcripts WHERE {only} session_id > ? ORDER BY session_id LIMIT ?",
        (after, limit),
    )
    return [export_of(row) for row in rows]


def find_export(db: apsw.Connection, session_id: str) -> Export | None:
    row = db.execute(
        f"SELECT {EXPORT} FROM transcripts WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    return row and export_of(row)


def write_audit(transaction: Transaction, op: Audit) -> None:
    transaction.db.execute(
        "INSERT INTO audit (at, agent_id, principal, action, target, allowed, reason) "
        "VALUES (?,?,?,?,?,?,?)",
        (op.at, op.agent_id, op.principal, op.action, op.target, op.allowed, op.reason),
    )


def prune_dedupe(transaction: Transaction, op: PruneDedupe) -> int:
    transaction.db.execute("DELETE FROM dedupe WHERE at < ?", (op.before,))
    return int(transaction.db.changes())
