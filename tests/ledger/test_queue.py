"""The queue of a lane: what a claim takes along, and what it must not."""

from typing import Any

import pytest

from crossclaw.domain.messages import UserMessage
from crossclaw.domain.queueing import Queueing
from crossclaw.domain.runs import NewRun, Outcome, RunPlan
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    Claim,
    Claimed,
    EndOpenRun,
    Join,
    Joined,
    NotYet,
    Recover,
    ReleaseRun,
    ResetSession,
    Submit,
)
from tests.ledger.making import ANA, end, session

STEER = Queueing(mode="steer")


async def chat(
    ledger: Ledger, run_id: str, at: int = 1, queue: Queueing | None = None, **plans: Any
) -> None:
    plan = RunPlan(queue=queue or Queueing(), **plans)
    new = NewRun(run_id=run_id, key=ANA, kind="chat", message=UserMessage(run_id), plan=plan)
    await ledger.commit(session(ANA), Submit(new=new, at=at))


async def take(ledger: Ledger, at: int, owner: str = "me") -> Claimed:
    claimed = await ledger.do(Claim(key=ANA, owner=owner, at=at))
    assert isinstance(claimed, Claimed)
    return claimed


async def two_together(ledger: Ledger) -> Claimed:
    await busy_with(ledger, "r0", "r1", "r2")
    return await take(ledger, 5000)


async def busy_with(ledger: Ledger, first: str, *others: str, at: int = 1) -> None:
    """The first has been answered; the others came meanwhile, a millisecond apart."""
    await chat(ledger, first, at)
    run = (await take(ledger, at)).run
    for number, run_id in enumerate(others):
        await chat(ledger, run_id, at + number)
    await end(ledger, run)


async def test_what_waited_begins_a_moment_after_the_last_message(ledger: Ledger) -> None:
    await busy_with(ledger, "r0", "r1", "r2", at=100)

    early = await ledger.do(Claim(key=ANA, owner="me", at=1100))
    late = await take(ledger, 1101)

    assert early == NotYet(1101)
    assert late.joined is not None
    assert [run.run_id for run in (late.run, *late.joined.runs)] == ["r1", "r2"]


async def test_an_album_is_answered_together_with_what_was_said_beside_it(ledger: Ledger) -> None:
    await busy_with(ledger, "r0", "r1")
    await chat(ledger, "album", 2, joined=True, answers="7")

    taken = await take(ledger, 5000)

    assert taken.joined is not None
    assert [run.run_id for run in taken.joined.runs] == ["album"]


async def test_a_clock_that_was_set_back_holds_nobody_up(ledger: Ledger) -> None:
    await busy_with(ledger, "r0", "r1", at=1_000_000)

    assert (await take(ledger, 50)).run.run_id == "r1"


@pytest.mark.spec("B1")
async def test_a_batch_that_goes_back_is_taken_again_as_it_was(ledger: Ledger) -> None:
    batch = await two_together(ledger)
    await ledger.do(ReleaseRun(fence=batch.run.fence))
    await chat(ledger, "r3", at=5001)

    again = await take(ledger, 9000)
    ended = [run.run_id for run in (await ledger.do(_end_of(again))).runs]
    after = await take(ledger, 9000)

    assert (again.run.run_id, again.entry, again.joined) == ("r1", None, None)
    assert ended == ["r1", "r2"]
    assert after.run.run_id == "r3"


@pytest.mark.spec("B1")
async def test_a_batch_of_a_dead_owner_is_taken_over_with_all_its_runs(ledger: Ledger) -> None:
    batch = await two_together(ledger)
    recovered = await ledger.do(Recover(owner="another", at=9))

    again = await take(ledger, 9000, "another")
    carried = await ledger.find_run("r2")

    assert recovered.keys == [ANA]
    assert again.run.run_id == batch.run.run_id
    assert carried is not None
    assert (carried.merged_into, carried.epoch) == ("r1", again.run.epoch)


async def test_messages_join_the_run_that_they_steer_once(ledger: Ledger) -> None:
    await chat(ledger, "r0", queue=STEER)
    run = (await take(ledger, 2)).run
    await chat(ledger, "r1", queue=STEER)
    await chat(ledger, "r2", queue=Queueing(mode="followup"))
    await chat(ledger, "r3", queue=STEER)

    first = await ledger.do(Join(fence=run.fence, at=3))
    again = await ledger.do(Join(fence=run.fence, at=4))

    assert [joined.run_id for joined in first.runs] == ["r1"]
    assert [entry.message for entry in first.entries] == [UserMessage("r1")]
    assert again == Joined()  # the one in between is not overtaken


async def test_nothing_joins_a_run_whose_session_began_anew(ledger: Ledger) -> None:
    await chat(ledger, "r0", queue=STEER)
    run = (await take(ledger, 2)).run
    await ledger.do(ReleaseRun(fence=run.fence))
    await ledger.do(ResetSession(key=ANA, session_id="fresh", at=3))
    run = (await take(ledger, 4)).run
    await chat(ledger, "r1", queue=STEER)

    assert await ledger.do(Join(fence=run.fence, at=5)) == Joined()
    await end(ledger, run)
    assert (await take(ledger, 9000)).run.session_id == "fresh"


def _end_of(claimed: Claimed) -> EndOpenRun:
    return EndOpenRun(run_id=claimed.run.run_id, outcome=Outcome("ok", reply="x"), at=9000)
