"""Job rows and their ticks. The primary key of a tick makes it run once."""

from typing import Any

import msgspec

from crossclaw.domain.errors import Fenced, TickTaken
from crossclaw.domain.jobs import Job, JobSpec, Tick, TickStatus
from crossclaw.ledger.database import Database
from crossclaw.ledger.hints import JOBS
from crossclaw.ledger.jobs import (
    TICKS_KEPT,
    DeleteJob,
    MoveJob,
    PutJob,
    SettleTick,
    SwitchOffJob,
    SwitchOffJobs,
    TakeTick,
)
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.rows import to_json
from crossclaw.ledger.sqlite.writer import Transaction

JOB = "job_id, agent_id, spec, enabled, next_at, created_at, updated_at, off_because"
_TICK = "t.job_id, t.slot_at, t.status, t.run_id, t.summary, t.ended_at, r.key, r.session_id, r.started_at"
_spec = msgspec.json.Decoder(JobSpec)


def put_job(transaction: Transaction, op: PutJob) -> None:
    job = op.job
    transaction.db.execute(
        f"INSERT INTO jobs ({JOB}) VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (job_id) DO UPDATE SET "
        "agent_id = excluded.agent_id, spec = excluded.spec, enabled = excluded.enabled, "
        "next_at = excluded.next_at, updated_at = excluded.updated_at, "
        "off_because = excluded.off_because",
        (
            job.job_id,
            job.agent_id,
            to_json(job.spec),
            job.enabled,
            job.next_at,
            job.created_at,
            job.updated_at,
            job.off_because,
        ),
    )
    transaction.hint(JOBS, job.job_id)


_MADE_BY = (
    "EXISTS (SELECT 1 FROM json_each(spec, '$.authority.made_by') made "
    "JOIN json_each(?) ended ON made.value ->> '$.credential_id' = ended.value)"
)
_OFF = "UPDATE jobs SET enabled = 0, next_at = NULL, off_because = ?, updated_at = max(updated_at + 1, ?)"


def switch_off_jobs(transaction: Transaction, op: SwitchOffJobs) -> list[str]:
    rows = transaction.db.execute(
        f"{_OFF} WHERE enabled AND {_MADE_BY} RETURNING job_id",
        (op.reason, op.at, to_json(op.credential_ids)),
    )
    return [row[0] for row in rows]


def switch_off_job(transaction: Transaction, op: SwitchOffJob) -> None:
    row = transaction.db.execute(
        f"{_OFF} WHERE job_id = ? AND enabled AND updated_at = ? RETURNING 1",
        (op.reason, op.at, op.job.job_id, op.job.updated_at),
    ).fetchone()
    if row is None:
        raise Fenced(f"job {op.job.job_id} has been changed meanwhile")


def delete_job(transaction: Transaction, op: DeleteJob) -> bool:
    row = transaction.db.execute(
        "DELETE FROM jobs WHERE job_id = ? RETURNING 1", (op.job_id,)
    ).fetchone()
    return row is not None


def take_tick(transaction: Transaction, op: TakeTick) -> None:
    db, job = transaction.db, op.job
    if op.moves:
        _move(transaction, job, op.next_at)
    elif find_job(db, job.job_id) is None:
        raise Fenced(f"job {job.job_id} is gone")
    if not _insert(db, job.agent_id, op.tick):
        raise TickTaken(f"tick {op.tick.at} of job {job.job_id} was taken before")
    for missed in op.missed:
        _insert(db, job.agent_id, missed)
    _prune(db, job.job_id)


def move_job(transaction: Transaction, op: MoveJob) -> None:
    _move(transaction, op.job, op.next_at)
    _switch_off_when_over(transaction.db, op.job.job_id)


def _move(transaction: Transaction, job: Job, next_at: int | None) -> None:
    row = transaction.db.execute(
        "UPDATE jobs SET next_at = ? WHERE job_id = ? AND enabled AND next_at IS NOT DISTINCT FROM ? "
        "AND updated_at = ? RETURNING 1",
        (next_at, job.job_id, job.next_at, job.updated_at),
    ).fetchone()
    if row is None:
        raise Fenced(f"job {job.job_id} has been changed meanwhile")


def _insert(db: Database, agent_id: str, tick: Tick) -> bool:
    db.execute(
        "INSERT INTO job_slots (job_id, slot_at, agent_id, run_id, status, summary, ended_at) "
        "VALUES (?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
        (tick.job_id, tick.at, agent_id, tick.run_id, tick.status, tick.summary, tick.ended_at),
    )
    return db.changes() > 0


def _prune(db: Database, job_id: str) -> None:
    db.execute(
        "DELETE FROM job_slots WHERE job_id = ?1 AND status != 'running' AND slot_at <= "
        "(SELECT slot_at FROM job_slots WHERE job_id = ?1 ORDER BY slot_at DESC LIMIT 1 OFFSET ?2)",
        (job_id, TICKS_KEPT),
    )


def settle_tick(transaction: Transaction, op: SettleTick) -> bool:
    db = transaction.db
    row = db.execute(
        "UPDATE job_slots SET status = ?, summary = ?, ended_at = ? "
        "WHERE job_id = ? AND slot_at = ? AND status = 'running' RETURNING 1",
        (op.status, op.summary, op.at, op.tick.job_id, op.tick.at),
    ).fetchone()
    _switch_off_when_over(db, op.tick.job_id)
    transaction.hint(JOBS, op.tick.job_id)
    return row is not None


def _switch_off_when_over(db: Database, job_id: str) -> None:
    db.execute("UPDATE jobs SET enabled = 0 WHERE job_id = ? AND next_at IS NULL", (job_id,))


def find_job(db: Database, job_id: str) -> Job | None:
    row = db.execute(f"SELECT {JOB} FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    return row and job_of(row)


def list_jobs(db: Database) -> list[Job]:
    return read_rows(db, "jobs", f"SELECT {JOB} FROM jobs ORDER BY created_at", (), job_of)


def list_due_jobs(db: Database, *, due_before: int, limit: int) -> list[Job]:
    sql = (
        f"SELECT {JOB} FROM jobs WHERE enabled AND next_at IS NOT NULL AND next_at <= ? "
        "ORDER BY next_at LIMIT ?"
    )
    return read_rows(db, "jobs", sql, (due_before, limit), job_of)


def next_job_at(db: Database, *, after: int) -> int | None:
    row = db.execute(
        "SELECT min(next_at) FROM jobs WHERE enabled AND next_at IS NOT NULL AND next_at > ?",
        (after,),
    ).fetchone()
    next_at: int | None = row and row[0]
    return next_at


def list_ticks(
    db: Database, job_id: str | None, *, limit: int, status: TickStatus | None = None
) -> list[Tick]:
    """Ticks of one job, by its key; or of all, which only people ask for, by reading every row."""
    ticks = f"SELECT {_TICK} FROM job_slots t LEFT JOIN runs r ON r.run_id = t.run_id"
    wanted = "(?2 IS NULL OR t.status = ?2) ORDER BY t.slot_at DESC LIMIT ?3"
    which = "?1 IS NULL" if job_id is None else "t.job_id = ?1"
    rows = db.execute(f"{ticks} WHERE {which} AND {wanted}", (job_id, status, limit))
    return [_tick_of(row) for row in rows]


def count_ticks_under_way(db: Database) -> int:
    row = db.execute(
        "SELECT count(*) FROM job_slots t JOIN runs r USING (run_id) "
        "WHERE t.status = 'running' AND r.ended_at IS NULL"
    ).fetchone()
    return int(row[0]) if row else 0


def job_of(row: tuple[Any, ...]) -> Job:
    return Job(
        job_id=row[0],
        agent_id=row[1],
        spec=_spec.decode(row[2]),
        enabled=bool(row[3]),
        next_at=row[4],
        created_at=row[5],
        updated_at=row[6],
        off_because=row[7],
    )


def _tick_of(row: tuple[Any, ...]) -> Tick:
    return Tick(
        job_id=row[0],
        at=row[1],
        status=row[2],
        run_id=row[3],
        summary=row[4],
        ended_at=row[5],
        key=row[6],
        session_id=row[7],
        started_at=row[8],
    )
