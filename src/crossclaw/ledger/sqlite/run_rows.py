"""Rows of runs, children and deliveries for monitoring: their columns, and the types made of
them."""

from typing import Any

import msgspec
from msgspec.structs import replace

from crossclaw.domain.runs import Outcome
from crossclaw.domain.states import State, delivery_state, end_state, run_state
from crossclaw.ledger.monitoring import DeliveryRow, RunRow, SpawnRow

# The run right before, of a cause that can be read.
BEFORE = "CASE WHEN json_valid(r.cause) THEN json_extract(r.cause, '$.chain[#-1]') END"
# What a person has to allow before a run goes on; of one that is over nobody asks.
ASKS = (
    "CASE WHEN r.ended_at IS NULL THEN (SELECT a.wish ->> '$.shown' FROM approvals a "
    "WHERE a.status = 'waiting' AND a.run_id = r.run_id LIMIT 1) END"
)
SEEN = (
    "SELECT r.id, r.run_id, r.key, r.agent_id, r.kind, r.status, r.created_at, r.started_at, "
    "r.ended_at, r.exchange_id, r.hops, r.epoch, p.run_id, "
    "coalesce(p.key, x.requester_key, s.parent_key), r.error, " + ASKS + " FROM runs r "
    "LEFT JOIN runs p ON p.run_id = " + BEFORE + " "
    # A guest asks without a run of its own: its send or spawn says who it was.
    "LEFT JOIN exchanges x ON x.run_id = r.run_id LEFT JOIN spawns s ON s.run_id = r.run_id"
)
SPAWN_SEEN = (
    "SELECT child_key, parent_key, run_id, task, state, created_at, label, outcome, ended_at, "
    "announced_at FROM spawns"
)
DELIVERY_SEEN = (
    "SELECT run_id, channel, chat, text, state, attempt, created_at, updated_at, error FROM outbox"
)


def seen_run(row: tuple[Any, ...]) -> RunRow:
    *known, asks = row
    status, error = row[5], row[14]
    standing = None if status == "ok" else run_state(status, error, asks=asks)
    return RunRow(**dict(zip(RunRow.__struct_fields__, (*known, standing), strict=True)))


def seen_spawn(row: tuple[Any, ...]) -> SpawnRow:
    return replace(SpawnRow(*row), standing=unless_ok(spawn_standing(row[4], row[7])))


def seen_delivery(row: tuple[Any, ...]) -> DeliveryRow:
    return replace(DeliveryRow(*row), standing=unless_ok(delivery_state(row[4], row[8], row[5])))


def unless_ok(state: State) -> State | None:
    return None if state.name == "ok" else state


def spawn_standing(state: str, outcome: str | None) -> State:
    """The state of a child, by what is stored of its task."""
    if outcome is None:
        return State("running") if state != "over" else State("ok")
    try:
        ended = msgspec.json.decode(outcome, type=Outcome)
    except msgspec.MsgspecError:
        return end_state("error", "its stored form is damaged; crossclaw doctor names it")
    return end_state(ended.status, ended.error)


def seen_damaged(row: tuple[Any, ...]) -> RunRow:
    return seen_run((*row[:-2], "its stored form is damaged; crossclaw doctor names it", None))
