"""Timers, exports, the audit and what the sweep deletes."""

from collections.abc import Sequence

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.database import Database
from crossclaw.ledger.operations import (
    FAR_MS,
    JUMP_MS,
    ArmTimer,
    Audit,
    Export,
    MarkCompressed,
    MarkExported,
    PassTime,
    PruneDedupe,
    TakeTimer,
    Timer,
)
from crossclaw.ledger.sqlite.cascades import prune_cascades
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.figure_sums import fold_slots
from crossclaw.ledger.sqlite.media import sweep_unnamed
from crossclaw.ledger.sqlite.outbox import drop_old_files
from crossclaw.ledger.sqlite.rows import EXPORT, TIMER, export_of, timer_of, to_json
from crossclaw.ledger.sqlite.writer import Transaction

_GAP = "gap:"
"""The prefix of rows for gaps in which no time passed, with their beginning; the value is where a
gap ended."""
_IS_GAP = f"substr(name, 1, {len(_GAP)}) = '{_GAP}'"
_MARK = (
    "INSERT INTO marks (name, at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET at = excluded.at"
)


def arm_timer(transaction: Transaction, op: ArmTimer) -> None:
    timer = op.timer
    transaction.db.execute(
        "INSERT INTO timers (timer_key, agent_id, kind, due_at, payload) VALUES (?,?,?,?,?) "
        "ON CONFLICT (timer_key) DO UPDATE SET due_at = excluded.due_at, payload = excluded.payload",
        (timer.timer_key, timer.agent_id, timer.kind, timer.due_at, to_json(timer.payload)),
    )


def pass_time(transaction: Transaction, op: PassTime) -> int:
    db = transaction.db
    last = db.execute("SELECT at FROM marks WHERE name = 'swept'").fetchone()
    jump = op.at - last[0] - op.elapsed_ms if last else 0
    if abs(jump) <= JUMP_MS:
        jump = 0
    if jump:
        db.execute(
            "UPDATE timers SET due_at = due_at + ?1 "
            "WHERE kind IN (SELECT value FROM json_each(?2)) AND due_at <= ?3",
            (jump, to_json(op.kinds), FAR_MS - abs(jump)),
        )
    if jump > 0:  # what lies between was no time that has passed
        db.execute(_MARK, (f"{_GAP}{op.at - jump}", op.at))
    elif jump < 0:  # put right: what the clock said before was wrong
        db.execute(f"DELETE FROM marks WHERE {_IS_GAP} AND at > ?", (op.at,))
    db.execute(_MARK, ("swept", op.at))
    return jump


def moment_ago(db: Database, *, now: int, passed_ms: int) -> int:
    gaps = db.execute(
        f"SELECT CAST(substr(name, ?) AS INTEGER), at FROM marks WHERE {_IS_GAP} ORDER BY at DESC",
        (len(_GAP) + 1,),
    )
    moment = now - passed_ms
    for began, ended in gaps:
        if ended <= moment:
            break
        moment -= ended - began
    return moment


def take_timer(transaction: Transaction, op: TakeTimer) -> bool:
    row = transaction.db.execute(
        "DELETE FROM timers WHERE timer_key = ? RETURNING 1", (op.timer_key,)
    ).fetchone()
    return row is not None


def list_timers(
    db: Database, *, due_before: int, limit: int, kinds: Sequence[str] | None = None
) -> list[Timer]:
    sql = (
        f"SELECT {TIMER} FROM timers WHERE due_at <= ?1 "
        "AND (?2 IS NULL OR kind IN (SELECT value FROM json_each(?2))) ORDER BY due_at LIMIT ?3"
    )
    values = (due_before, None if kinds is None else to_json(list(kinds)), limit)
    return read_rows(db, "timers", sql, values, timer_of)


def count_timers(db: Database) -> dict[str, int]:
    return dict(db.execute("SELECT kind, count(*) FROM timers GROUP BY kind"))


def mark_exported(transaction: Transaction, op: MarkExported) -> None:
    transaction.db.executemany(
        "UPDATE transcripts SET exported_seq = ?2, exported_bytes = ?3, compressed_at = NULL "
        "WHERE session_id = ?1",
        op.exports,
    )


def mark_compressed(transaction: Transaction, op: MarkCompressed) -> bool:
    transaction.db.execute(
        "UPDATE transcripts SET compressed_at = ?1 "
        "WHERE session_id = ?2 AND last_seq = ?3 AND exported_seq = ?3",
        (op.at, op.session_id, op.seq),
    )
    return bool(transaction.db.changes())


def list_old_exports(db: Database, *, before: int, after: str = "", limit: int) -> list[Export]:
    columns = ", ".join(f"t.{name}" for name in EXPORT.split(", "))
    rows = db.execute(
        f"SELECT {columns} FROM transcripts t LEFT JOIN sessions s ON s.session_id = t.session_id "
        "WHERE t.session_id > ? AND t.compressed_at IS NULL AND t.last_seq > 0 "
        "AND t.exported_seq = t.last_seq AND (t.closed_at <= ?2 OR s.updated_at <= ?2 "
        "OR s.archived_at IS NOT NULL) ORDER BY t.session_id LIMIT ?3",
        (after, before, limit),
    )
    return [export_of(row) for row in rows]


def list_compressed(db: Database, session_ids: Sequence[str]) -> set[str]:
    rows = db.execute(
        "SELECT t.session_id FROM json_each(?) s JOIN transcripts t ON t.session_id = s.value "
        "WHERE t.compressed_at IS NOT NULL",
        (to_json(list(session_ids)),),
    )
    return {row[0] for row in rows}


def list_exports(db: Database, *, behind: bool, after: str = "", limit: int) -> list[Export]:
    only = "exported_seq < last_seq AND" if behind else ""
    rows = db.execute(
        f"SELECT {EXPORT} FROM transcripts WHERE {only} session_id > ? ORDER BY session_id LIMIT ?",
        (after, limit),
    )
    return [export_of(row) for row in rows]


def list_transcripts(db: Database, key: SessionKey, *, limit: int, offset: int) -> list[Export]:
    rows = db.execute(
        f"SELECT {EXPORT} FROM transcripts WHERE key = ? ORDER BY created_at, session_id "
        "LIMIT ? OFFSET ?",
        (key.text, limit, offset),
    )
    return [export_of(row) for row in rows]


def find_export(db: Database, session_id: str) -> Export | None:
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
    pruned = int(transaction.db.changes())
    prune_cascades(transaction, op.before)
    fold_slots(transaction.db, op.before)
    drop_old_files(transaction.db, op.before)
    sweep_unnamed(transaction.db, op.before)
    return pruned
