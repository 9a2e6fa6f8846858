"""Waits that can never end are found when they would begin (S9)."""

import tempfile
from itertools import permutations
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossclaw.domain.errors import NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import BeginWait, EndWait
from tests.ledger.making import ANA, BEN, CHO, begun, end, submit
from tests.proof.size import examples


async def wait(ledger: Ledger, waiter: Run, target_run_id: str) -> list[SessionKey]:
    return await ledger.do(BeginWait(fence=waiter.fence, target_run_id=target_run_id, at=5))


@pytest.mark.spec("S9")
async def test_two_that_wait_for_each_other_are_noticed_by_the_second(ledger: Ledger) -> None:
    ana, ben = await begun(ledger, "a1", ANA), await begun(ledger, "b1", BEN)
    await submit(ledger, "b2", BEN)
    await submit(ledger, "a2", ANA)

    assert await wait(ledger, ana, "b2") == []
    assert await wait(ledger, ben, "a2") == [BEN, ANA, BEN]
    found = await ledger.find_run("b1")
    assert found is not None
    assert found.status == "running"


@pytest.mark.spec("S9")
@pytest.mark.parametrize("order", list(permutations([ANA, BEN, CHO])))
async def test_a_longer_circle_is_named_from_end_to_end(
    ledger: Ledger, order: tuple[SessionKey, ...]
) -> None:
    runs = {key: await begun(ledger, f"{key.name}-1", key) for key in order}
    for key in order:
        await submit(ledger, f"{key.name}-2", key)
    one, two, three = order

    assert await wait(ledger, runs[one], f"{two.name}-2") == []
    assert await wait(ledger, runs[two], f"{three.name}-2") == []
    assert await wait(ledger, runs[three], f"{one.name}-2") == [three, one, two, three]


@pytest.mark.spec("S9")
async def test_waiting_for_a_run_queued_behind_oneself_is_a_circle(ledger: Ledger) -> None:
    ana = await begun(ledger, "a1", ANA)
    await submit(ledger, "a2", ANA)

    assert await wait(ledger, ana, "a2") == [ANA, ANA]


@pytest.mark.spec("S9")
async def test_a_wait_that_ended_closes_no_circle(ledger: Ledger) -> None:
    ana, ben = await begun(ledger, "a1", ANA), await begun(ledger, "b1", BEN)
    await submit(ledger, "b2", BEN)
    await submit(ledger, "a2", ANA)
    await wait(ledger, ana, "b2")
    await ledger.do(EndWait(fence=ana.fence, target_run_id="b2"))

    assert await wait(ledger, ben, "a2") == []


async def test_the_end_of_a_run_ends_all_waits_with_it(ledger: Ledger) -> None:
    ana, ben = await begun(ledger, "a1", ANA), await begun(ledger, "b1", BEN)
    await submit(ledger, "a2", ANA)
    await wait(ledger, ana, "b1")
    await end(ledger, ben)

    later = await begun(ledger, "b3", BEN)
    assert await wait(ledger, later, "a2") == []


async def test_a_run_with_several_waits_waits_until_the_last_has_ended(ledger: Ledger) -> None:
    ana = await begun(ledger, "a1", ANA)
    await submit(ledger, "b1", BEN)
    await submit(ledger, "c1", CHO)
    for target in ("b1", "c1"):
        await wait(ledger, ana, target)

    await ledger.do(EndWait(fence=ana.fence, target_run_id="b1"))
    assert (await ledger.find_run("a1")).status == "waiting"  # type: ignore[union-attr]
    await ledger.do(EndWait(fence=ana.fence, target_run_id="c1"))
    assert (await ledger.find_run("a1")).status == "running"  # type: ignore[union-attr]


async def test_waiting_for_what_has_ended_needs_no_wait(ledger: Ledger) -> None:
    ana, ben = await begun(ledger, "a1", ANA), await begun(ledger, "b1", BEN)
    await end(ledger, ben)

    assert await wait(ledger, ana, "b1") == []
    assert (await ledger.find_run("a1")).status == "running"  # type: ignore[union-attr]
    with pytest.raises(NotFound):
        await wait(ledger, ana, "nobody")


def reaches(edges: set[tuple[int, int]], start: int, goal: int) -> bool:
    """The oracle: can one walk from start to goal?"""
    seen, todo = set(), [start]
    while todo:
        place = todo.pop()
        if place == goal:
            return True
        if place not in seen:
            seen.add(place)
            todo += [after for before, after in edges if before == place]
    return False


@pytest.mark.spec("S9")
@settings(max_examples=examples(13, 40), deadline=None)
@given(plan=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14))
def test_a_wait_is_refused_exactly_when_it_would_close_a_circle(
    plan: list[tuple[int, int]],
) -> None:
    async def scenario(folder: str) -> None:
        ledger = open_ledger(Path(folder) / "l.sqlite", inline=True)
        keys = [SessionKey.named("main", f"s{n}") for n in range(6)]
        runs = [await begun(ledger, f"r{n}", key) for n, key in enumerate(keys)]
        for n, key in enumerate(keys):
            await submit(ledger, f"q{n}", key)
        edges: set[tuple[int, int]] = set()
        for waiter, target in plan:
            circle = await wait(ledger, runs[waiter], f"q{target}")
            assert bool(circle) == reaches(edges, target, waiter)
            if not circle:
                edges.add((waiter, target))
        await ledger.close()

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(scenario, folder)
