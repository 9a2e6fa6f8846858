"""How figures are written: sums in slots of five minutes, in the transaction of what they count,
and kept when sessions are deleted.

The counts of all steps of a batch are added up first, so that there is one statement for each
agent, model and channel, however many turns there were. Slots that are older than a week become
hours.
"""

from collections.abc import Iterable
from operator import add
from typing import Any

from crossclaw.domain.figures import HOUR_MS, SLOT_MS, FigureKey, Figures
from crossclaw.ledger.database import Database

CountedFigures = tuple[FigureKey, Figures]

SLOT_MINUTES, HOUR_MINUTES = SLOT_MS // 60_000, HOUR_MS // 60_000
ADDED = ", ".join(f"sum({name})" for name in Figures._fields)
_SUMS = ", ".join(Figures._fields)
_MARKS = ", ".join("?" * (6 + len(Figures._fields)))
_ADD = ", ".join(f"{name} = figures.{name} + excluded.{name}" for name in Figures._fields)
_PLACE = "minutes, at, agent_id, model, channel, shard"
_WRITE = (
    f"INSERT INTO figures ({_PLACE}, {_SUMS}) VALUES ({_MARKS}) "
    f"ON CONFLICT ({_PLACE}) DO UPDATE SET {_ADD}"
)
_FOLD = (
    f"INSERT INTO figures ({_PLACE}, {_SUMS}) "
    f"SELECT {HOUR_MINUTES}, at - at % {HOUR_MS}, agent_id, model, channel, 0, {ADDED} FROM figures "
    f"WHERE minutes = {SLOT_MINUTES} AND at < ? GROUP BY at - at % {HOUR_MS}, agent_id, model, channel "
    f"ON CONFLICT ({_PLACE}) DO UPDATE SET {_ADD}"
)


def figure_writes(
    counted: Iterable[CountedFigures], shard: int = 0
) -> list[tuple[str, tuple[Any, ...]]]:
    """The statements that add these to what stands there, always in the same order. Each gateway that shares a store adds
    to rows of its own `shard`, so that none waits for another's commit."""
    sums: dict[FigureKey, Any] = {}
    for key, figures in counted:
        before = sums.get(key)
        sums[key] = figures if before is None else list(map(add, before, figures))
    return [(_WRITE, (SLOT_MINUTES, *key, shard, *sums[key])) for key in sorted(sums)]


def fold_slots(db: Database, before: int) -> None:
    """Combines older slots into hours."""
    hour = before - before % HOUR_MS
    db.execute(_FOLD, (hour,))
    db.execute(f"DELETE FROM figures WHERE minutes = {SLOT_MINUTES} AND at < ?", (hour,))
