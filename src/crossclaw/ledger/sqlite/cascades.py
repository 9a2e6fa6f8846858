"""Cascades: how many runs one root cause has, and how many it may still get.

A run that was caused by another is counted when it is accepted. What an open exchange or spawn may still
begin (rounds, announces, the parent's answer to a report) is reserved by its own row: a send or a spawn is
accepted only if all of it fits, so nothing that was accepted is cut off later.
"""

from crossclaw.domain.errors import TooManyChildren, TooManyRuns
from crossclaw.domain.runs import NewRun
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite.writer import Transaction

# A round that is under way is counted already; after the last one comes the announce.
_RESERVED = (
    "SELECT (SELECT coalesce(sum(turns_max - turn + 1), 0) FROM exchanges "
    "WHERE root = ?1 AND state = 'open') + "
    "(SELECT coalesce(sum(CASE state WHEN 'running' THEN 1 ELSE 0 END + wakes), 0) FROM spawns "
    "WHERE root = ?1 AND state <> 'over')"
)
_ROOTS_OF_OPEN_RUNS = (
    "SELECT coalesce(CASE WHEN json_valid(cause) THEN cause ->> '$.chain[0]' END, run_id) "
    "FROM runs WHERE ended_at IS NULL"
)


def count_run(transaction: Transaction, new: NewRun, at: int) -> None:
    """Counts one more run of its root cause. A run that nothing has caused is counted with its
    first follower."""
    if not new.cause.chain:
        return
    transaction.db.execute(
        "INSERT INTO cascades (root, agent_id, runs, at) VALUES (?1, ?2, 2, ?3) "
        "ON CONFLICT (root) DO UPDATE SET runs = cascades.runs + 1, agent_id = ?2, at = ?3",
        (new.cause.chain[0], new.key.agent_id, at),
    )


def check_runs(db: Database, root: str, runs_max: int) -> None:
    """Refuses the step that has just put a send or a spawn which does not fit any more."""
    if sum(runs_of(db, root)) > runs_max:
        raise TooManyRuns(
            f"what one message brings about is limited to {runs_max} runs, and this would be more "
            "(session.agentToAgent.maxRuns); answer with what there is"
        )


def check_children(db: Database, parent_key: str, children_max: int) -> None:
    row = db.execute(
        "SELECT count(*) FROM spawns WHERE parent_key = ? AND state <> 'over'", (parent_key,)
    ).fetchone()
    if row and row[0] > children_max:
        raise TooManyChildren(
            f"this session has {children_max} sub-agents at work, and may not have more "
            "(agents.defaults.subagents.maxChildrenPerAgent); wait until one has reported"
        )


def runs_of(db: Database, root: str) -> tuple[int, int]:
    """The number of accepted runs of a root cause, and of reserved ones."""
    counted = db.execute("SELECT runs FROM cascades WHERE root = ?", (root,)).fetchone()
    reserved = db.execute(_RESERVED, (root,)).fetchone()
    return counted[0] if counted else 1, reserved[0] if reserved else 0


def prune_cascades(transaction: Transaction, before: int) -> None:
    """Deletes the counts of root causes that ended long ago."""
    transaction.db.execute(
        f"DELETE FROM cascades WHERE at < ? AND root NOT IN ({_ROOTS_OF_OPEN_RUNS})", (before,)
    )
