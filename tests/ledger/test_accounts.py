"""Accounts in the ledger: opened with a claim, inherited by cause, held only by living claims."""

import msgspec
import pytest

from crossclaw.domain.budgets import Allowance, Amount, Grant
from crossclaw.domain.errors import Fenced
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Cause, Run, RunKind
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    Append,
    Claim,
    Claimed,
    EndOpenRun,
    Recover,
    ReleaseRun,
    Reserve,
    Submit,
)
from tests.ledger.making import ANA, BEN, CHO, OK, run, says, session

TEN = Allowance(tokens=10_000)


async def begun(
    ledger: Ledger,
    run_id: str,
    key: SessionKey,
    allowance: Allowance | None = TEN,
    *,
    by: Run | None = None,
    kind: RunKind = "send",
) -> Run:
    """A claimed run, from outside or caused by another one."""
    cause = by.cause.followed_by(by.run_id, hops=1) if by else Cause()
    new = msgspec.structs.replace(run(run_id, key), cause=cause, kind=kind if by else "chat")
    *_, claimed = await ledger.commit(
        session(key),
        Submit(new=new, at=1),
        Claim(key=key, owner="me", at=60_000, allowance=allowance),
    )
    found: Run = claimed.run
    return found


async def reserve(ledger: Ledger, of: Run, tokens: int, spent: int = 0) -> Grant:
    assert of.cause.purse is not None
    return await ledger.do(
        Reserve(
            fence=of.fence,
            account_id=of.cause.purse.account_id,
            fixed=Amount(tokens),
            output=Amount(),
            at=60_001,
            spent=Amount(spent),
        )
    )


def costly(tokens: int) -> NewEntry:
    return msgspec.structs.replace(says("words", f"e{tokens}"), spent=Amount(tokens))


async def held(ledger: Ledger, account_id: str) -> tuple[int, int]:
    found = await ledger.find_account(account_id)
    assert found is not None
    return found.spent.tokens, found.reserved.tokens


@pytest.mark.spec("B5")
async def test_a_reservation_gives_way_to_what_was_spent_in_the_step_of_the_answer(
    ledger: Ledger,
) -> None:
    mine = await begun(ledger, "r1", ANA)
    assert (await reserve(ledger, mine, 4_000)).allowed
    assert await held(ledger, "r1") == (0, 4_000)

    await ledger.do(Append(fence=mine.fence, entries=[costly(1_500)], at=2))
    assert await held(ledger, "r1") == (1_500, 0)


@pytest.mark.spec("B5")
async def test_runs_of_one_tree_cannot_reserve_more_than_there_is(ledger: Ledger) -> None:
    mine = await begun(ledger, "r1", ANA)
    other = await begun(ledger, "r2", BEN, by=mine)
    assert (await reserve(ledger, mine, 6_000)).allowed

    assert not (await reserve(ledger, other, 4_001)).allowed
    assert (await reserve(ledger, other, 4_000)).allowed
    assert await held(ledger, "r1") == (0, 10_000)
    assert await ledger.find_account("r2") is None


@pytest.mark.spec("B5")
async def test_a_refusal_still_counts_what_was_spent_before(ledger: Ledger) -> None:
    mine = await begun(ledger, "r1", ANA)
    await reserve(ledger, mine, 9_000)

    assert not (await reserve(ledger, mine, 9_000, spent=2_000)).allowed
    assert await held(ledger, "r1") == (2_000, 0)


@pytest.mark.spec("B5")
async def test_an_inner_account_counts_in_the_outer_one_as_well(ledger: Ledger) -> None:
    mine = await begun(ledger, "r1", ANA)
    inner = await begun(ledger, "r2", CHO, Allowance(tokens=5_000, own=True), by=mine)
    assert not (await reserve(ledger, inner, 5_001)).allowed
    assert (await reserve(ledger, inner, 5_000)).allowed
    assert (await held(ledger, "r1"), await held(ledger, "r2")) == ((0, 5_000), (0, 5_000))
    assert not (await reserve(ledger, mine, 5_001)).allowed

    await ledger.do(Append(fence=inner.fence, entries=[costly(700)], at=2))
    assert (await held(ledger, "r1"), await held(ledger, "r2")) == ((700, 0), (700, 0))


@pytest.mark.spec("B5")
@pytest.mark.parametrize("kind", ["round", "announce", "agent"])
async def test_what_belongs_to_a_send_opens_no_account_of_its_own(
    ledger: Ledger, kind: RunKind
) -> None:
    mine = await begun(ledger, "r1", ANA)
    follower = await begun(ledger, "r2", CHO, Allowance(tokens=5_000, own=True), by=mine, kind=kind)

    assert follower.cause.purse == mine.cause.purse


@pytest.mark.spec("B5")
async def test_an_agent_with_a_budget_has_it_also_where_whoever_sends_has_none(
    ledger: Ledger,
) -> None:
    free = await begun(ledger, "r1", ANA, None)
    bound = await begun(ledger, "r2", CHO, Allowance(tokens=5_000, own=True), by=free)

    assert free.cause.purse is None
    assert bound.cause.purse is not None
    assert bound.cause.purse.account_id == "r2"


@pytest.mark.spec("B5")
async def test_nobody_has_more_time_than_whoever_pays(ledger: Ledger) -> None:
    mine = await begun(ledger, "r1", ANA, Allowance(minutes=2))
    long = await begun(ledger, "r2", CHO, Allowance(minutes=60, own=True), by=mine)
    assert mine.cause.purse is not None
    assert long.cause.purse is not None

    assert mine.cause.purse.ends_at_ms == 60_000 + 120_000
    assert (long.cause.purse.ends_at_ms, long.cause.purse.minutes) == (180_000, 2)


@pytest.mark.spec("B5", "B1")
@pytest.mark.parametrize("end", ["released", "recovered", "ended"])
async def test_nothing_stays_reserved_by_a_claim_that_is_gone(ledger: Ledger, end: str) -> None:
    mine = await begun(ledger, "r1", ANA)
    await reserve(ledger, mine, 9_000)
    if end == "released":
        await ledger.do(ReleaseRun(fence=mine.fence))
    elif end == "recovered":
        await ledger.do(Recover(owner="another", at=9))
    else:
        await ledger.do(EndOpenRun(run_id="r1", outcome=OK, at=3))

    assert await held(ledger, "r1") == (0, 0)
    with pytest.raises(Fenced):
        await reserve(ledger, mine, 1)


@pytest.mark.spec("B5", "B1")
async def test_a_run_that_is_taken_up_again_keeps_its_account_and_reserves_anew(
    ledger: Ledger,
) -> None:
    mine = await begun(ledger, "r1", ANA)
    await reserve(ledger, mine, 9_000, spent=500)
    await ledger.do(Recover(owner="another", at=9))
    claimed = await ledger.do(Claim(key=ANA, owner="another", at=70_000, allowance=TEN))
    assert isinstance(claimed, Claimed)

    assert claimed.run.cause.purse == mine.cause.purse
    assert (await reserve(ledger, claimed.run, 9_000)).allowed
    assert await held(ledger, "r1") == (500, 9_000)
