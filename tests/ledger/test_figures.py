"""Figures are added up with what they count: once, also when a step is refused or a session goes."""

import msgspec
import pytest

from crossclaw.domain.errors import Fenced
from crossclaw.domain.figures import HOUR_MS, SLOT_MS, Figures, quantile
from crossclaw.domain.messages import AssistantMessage, Text, Usage
from crossclaw.domain.runs import Outcome, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.figures import FigureQuery, FigureRow, turn_figures
from crossclaw.ledger.operations import (
    Append,
    DeleteSession,
    EndOpenRun,
    EndRun,
    PruneDedupe,
    Submit,
)
from tests.ledger.making import ANA, BEN, CHO, OK, begun, run, session

NOW = 1_000 * HOUR_MS
ERROR = Outcome("error", error="no key")


def said(entry_id: str, tokens: int = 10, cost: float | None = None) -> NewEntry:
    usage = Usage(tokens, 5, cache_read=3, cost=cost)
    message = AssistantMessage([Text("yes")], provider="p", model="m", usage=usage)
    return NewEntry(entry_id=entry_id, message=message)


async def finish(ledger: Ledger, run: Run, at: int = NOW, outcome: Outcome = OK) -> None:
    await ledger.commit(
        Append(fence=run.fence, entries=[said(run.run_id, cost=0.5)], at=at),
        EndRun(fence=run.fence, outcome=outcome, at=at),
    )


async def look(ledger: Ledger, by: str | None = None, step_ms: int = HOUR_MS) -> list[FigureRow]:
    query = FigureQuery(since=NOW, until=NOW + 2 * HOUR_MS, step_ms=step_ms, by=by)  # type: ignore[arg-type]
    return await ledger.monitoring.figures(query)


async def test_turns_tokens_and_cost_are_added_up_by_agent_model_and_channel(
    ledger: Ledger,
) -> None:
    for run_id, key, outcome in (("a", ANA, OK), ("b", BEN, ERROR), ("c", CHO, OK)):
        await finish(ledger, await begun(ledger, run_id, key), outcome=outcome)

    (all_,) = await look(ledger)
    agents = {row.name: row.figures for row in await look(ledger, "agent")}
    assert (all_.at, all_.figures.turns, all_.figures.failed) == (NOW, 3, 1)
    assert (all_.figures.input, all_.figures.cached, all_.figures.output) == (30, 9, 15)
    assert all_.figures.cost_usd == pytest.approx(1.5)
    assert {name: each.turns for name, each in agents.items()} == {"main": 2, "ops": 1}
    assert [row.name for row in await look(ledger, "model")] == ["p/m"]
    assert [row.name for row in await look(ledger, "channel")] == ["webchat"]


async def test_each_step_of_time_has_its_own_figures(ledger: Ledger) -> None:
    for number, at in enumerate((NOW, NOW + 1, NOW + SLOT_MS, NOW + HOUR_MS)):
        await finish(ledger, await begun(ledger, f"r{number}"), at=at)

    slots = [(row.at - NOW, row.figures.turns) for row in await look(ledger, step_ms=SLOT_MS)]
    hours = [(row.at - NOW, row.figures.turns) for row in await look(ledger)]
    assert slots == [(0, 2), (SLOT_MS, 1), (HOUR_MS, 1)]
    assert hours == [(0, 3), (HOUR_MS, 1)]


async def test_what_is_refused_is_not_counted_and_no_end_is_counted_twice(ledger: Ledger) -> None:
    ours = await begun(ledger, "r1")
    await finish(ledger, ours)
    with pytest.raises(Fenced):
        await finish(ledger, ours)
    ours = await begun(ledger, "r2")
    with pytest.raises(Fenced):
        await ledger.commit(
            Append(fence=ours.fence, entries=[said("e")], at=NOW),
            EndOpenRun(run_id="r1", outcome=OK, at=NOW, fenced=True),
        )

    (row,) = await look(ledger)
    assert (row.figures.turns, row.figures.calls) == (1, 1)


async def test_figures_stay_when_their_session_is_deleted(ledger: Ledger) -> None:
    await finish(ledger, await begun(ledger, "r1"))
    before = await look(ledger, "agent")
    await ledger.do(DeleteSession(key=ANA, at=NOW + 1))

    assert await look(ledger, "agent") == before != []


async def test_old_slots_become_hours_that_say_the_same(ledger: Ledger) -> None:
    for number in range(4):
        at = NOW + number * (HOUR_MS // 2) + number
        await finish(ledger, await begun(ledger, f"r{number}"), at=at)
    before = await look(ledger)
    for _ in range(2):
        await ledger.do(PruneDedupe(before=NOW + 2 * HOUR_MS + 5))
    late = await begun(ledger, "late")
    await finish(ledger, late, at=NOW + 3)
    await ledger.do(PruneDedupe(before=NOW + 2 * HOUR_MS + 5))

    after = await look(ledger)
    assert [row.figures.turns for row in before] == [2, 2]
    assert [row.figures.turns for row in after] == [3, 2]
    assert [row.at for row in await look(ledger, step_ms=SLOT_MS)] == [NOW, NOW + HOUR_MS]


async def test_a_command_is_no_turn_and_a_run_that_never_began_has_no_time(ledger: Ledger) -> None:
    await ledger.commit(
        session(ANA),
        Submit(new=msgspec.structs.replace(run("c"), kind="command"), at=4),
        EndOpenRun(run_id="c", outcome=OK, at=NOW),
        Submit(new=run("q"), at=4),
        EndOpenRun(run_id="q", outcome=Outcome("aborted", error="stopped"), at=NOW),
    )

    (row,) = await look(ledger)
    assert (row.figures.turns, row.figures.stopped, sum(row.figures.timed)) == (1, 1, 0)


async def test_figures_are_narrowed_to_one_agent_model_or_channel(ledger: Ledger) -> None:
    for key in (ANA, CHO):
        await finish(ledger, await begun(ledger, f"r-{key.agent_id}", key))
    only = FigureQuery(since=NOW, until=NOW + 1, step_ms=SLOT_MS, agent_id="ops", channel="webchat")
    nobody = FigureQuery(since=NOW, until=NOW + 1, step_ms=SLOT_MS, model="p/other")

    (row,) = await ledger.monitoring.figures(only)
    assert row.figures.turns == 1
    assert await ledger.monitoring.figures(nobody) == []


def test_the_median_is_read_from_classes() -> None:
    turns = [turn_figures("ok", ms) for ms in (100, 200, 2_000, 2_500, 9_000)]
    total = Figures()
    for each in turns:
        total = total.plus(each)

    assert total.timed == (2, 0, 2, 1, 0, 0, 0, 0)
    assert 1_000 <= (total.took(0.5) or 0) <= 3_000
    assert 3_000 <= (total.took(0.95) or 0) <= 10_000
    assert Figures().took(0.5) is None
    assert quantile([0] * 7 + [1], 0.95) is not None
