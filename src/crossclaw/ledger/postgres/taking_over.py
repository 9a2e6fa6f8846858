"""Taking over: gateways that are alive continue what others with expired leases have left.

The row of a dead gateway is removed first, and none of its transactions can be under way then (each
locks its row). From there on it writes nothing, whatever it still does.
"""

from crossclaw.domain.runs import Run
from crossclaw.domain.suspects import InterruptedRun, Suspicion, suspects_after
from crossclaw.ledger.database import Database
from crossclaw.ledger.gateways import TakeOver, TellGateways
from crossclaw.ledger.operations import Recovered
from crossclaw.ledger.sqlite.recovering import find_suspicion, idle_runs, keep_suspicion
from crossclaw.ledger.sqlite.rows import RUN, run_of
from crossclaw.ledger.sqlite.writer import Transaction

_END_LEASES = (
    "DELETE FROM gateways WHERE incarnation IN (SELECT incarnation FROM gateways "
    "WHERE until < (extract(epoch FROM clock_timestamp()) * 1000)::bigint AND incarnation <> ? "
    "FOR UPDATE SKIP LOCKED) RETURNING gateway_id"
)
_LEFT = (
    f"SELECT {RUN} FROM runs WHERE owner IS NOT NULL AND NOT EXISTS "
    "(SELECT 1 FROM gateways g WHERE g.incarnation = runs.owner) ORDER BY id FOR UPDATE SKIP LOCKED"
)


def take_over(transaction: Transaction, op: TakeOver) -> Recovered:
    """Takes over all runs of dead gateways. Like every step that does not say what it touches, it
    has locked everything."""
    db = transaction.db
    gone = tuple(str(name) for (name,) in db.execute(_END_LEASES, (op.owner,)).fetchall())
    left = [run_of(row) for row in db.execute(_LEFT).fetchall()]
    at_work = [run for run in left if run.status != "queued"]  # else it waited for its turn
    idle = idle_runs(db, at_work)
    died = [InterruptedRun(run.run_id, run.attempt) for run in at_work if run.run_id not in idle]
    before = find_suspicion(db)
    suspicion, fresh = _suspicion_after(db, before, died)
    given_up = keep_suspicion(db, before, suspicion)
    kept = {run_id for group in fresh for run_id in group} | {run.run_id for run in given_up}
    for run in left:
        _queue_again(db, run, op.owner if run.run_id in kept else None, run.run_id in idle)
    keys = {run.run_id: run.key for run in left}
    return Recovered(
        keys=list(dict.fromkeys(keys.values())),
        given_up=given_up,
        groups=[[keys[run_id] for run_id in group if run_id in keys] for group in fresh],
        window_ms=suspicion.window_ms if suspicion else 0,
        gone=gone,
        runs=len(left) - len(given_up),
    )


def tell_gateways(transaction: Transaction, op: TellGateways) -> None:
    transaction.hint(op.kind, op.value)


def _queue_again(db: Database, run: Run, owner: str | None, was_idle: bool) -> None:
    """Queues a run again with the next epoch, so that what its former owner still writes is void. A
    suspect is reserved for the gateway that lets it begin, and one that is given up for the gateway
    that ends it."""
    db.execute("DELETE FROM waits WHERE run_id = ?", (run.run_id,))
    db.execute(
        "UPDATE runs SET status = 'queued', owner = ?, epoch = epoch + 1, attempt = ? WHERE run_id = ?",
        (owner, max(run.attempt - was_idle, 0), run.run_id),
    )


def _suspicion_after(
    db: Database, before: Suspicion | None, died: list[InterruptedRun]
) -> tuple[Suspicion | None, tuple[tuple[str, ...], ...]]:
    """What is suspected now, and the new groups of it. Suspects of a living gateway stay there."""
    alive = _held_elsewhere(db, before)
    known = {run_id for group in before.groups for run_id in group} if before else set()
    if before is None or not alive or known & {each.run_id for each in died}:
        after = suspects_after(before, died)
        return after, after.groups if after else ()
    fresh = suspects_after(None, died)
    if fresh is None:
        return before, ()
    groups = (*before.groups, *fresh.groups)
    merged = Suspicion(groups, before.window_ms, before.uptime_ms)
    return merged, fresh.groups


def _held_elsewhere(db: Database, before: Suspicion | None) -> bool:
    """Whether a living gateway has one of the suspects."""
    for run_id in (each for group in before.groups for each in group) if before else ():
        if db.execute(
            "SELECT 1 FROM runs JOIN gateways g ON g.incarnation = runs.owner WHERE run_id = ?",
            (run_id,),
        ).fetchone():
            return True
    return False
