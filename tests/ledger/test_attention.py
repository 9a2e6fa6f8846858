"""What is in trouble is found by small indexes; what was dismissed is remembered."""

from crossclaw.domain.addresses import Address
from crossclaw.domain.runs import Outcome
from crossclaw.ledger.attention import Dismiss, Resend
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    EndOpenRun,
    NewDelivery,
    PutDelivery,
    SettleDelivery,
    Submit,
    TakeDelivery,
)
from tests.ledger.making import ANA, BEN, run, session


async def test_a_session_in_trouble_is_found_until_it_has_answered(ledger: Ledger) -> None:
    await ledger.commit(session(ANA), session(BEN))
    ends = (("r1", ANA, Outcome("error", error="no key")), ("r2", BEN, Outcome("ok", reply="yes")))
    for at, (run_id, key, outcome) in enumerate(ends, 5):
        await ledger.commit(
            Submit(new=run(run_id, key), at=4), EndOpenRun(run_id=run_id, outcome=outcome, at=at)
        )
    (found,) = await ledger.monitoring.troubled_sessions(limit=9)
    await ledger.commit(
        Submit(new=run("r3"), at=8),
        EndOpenRun(run_id="r3", outcome=Outcome("ok", reply="now"), at=9),
    )

    assert (found.key, found.last_run_id, found.last_error) == (ANA, "r1", "no key")
    assert await ledger.monitoring.troubled_sessions(limit=9) == []


async def test_a_delivery_that_failed_is_found_and_tried_again_once(ledger: Ledger) -> None:
    await ledger.commit(session(ANA))
    new = NewDelivery(delivery_key="d1", key=ANA, address=Address("telegram", "42"), text="hi")
    await ledger.do(PutDelivery(new=new, at=5))
    (put,) = await ledger.list_open_deliveries(limit=9)
    await ledger.do(TakeDelivery(delivery_id=put.delivery_id, at=6))
    await ledger.do(
        SettleDelivery(delivery_id=put.delivery_id, state="failed", at=7, error="no such chat")
    )
    (found,) = await ledger.monitoring.troubled_deliveries(since=7, limit=9)
    late = await ledger.monitoring.troubled_deliveries(since=8, limit=9)
    answers = [await ledger.do(Resend(delivery_id=put.delivery_id, at=8)) for _ in range(2)]
    (again,) = await ledger.list_open_deliveries(limit=9)

    assert (found.state, found.error, found.to) == ("failed", "no such chat", "42")
    assert late == []
    assert answers == [True, False]
    assert (again.state, again.attempt, again.error) == ("pending", 0, None)
    assert again.tried_at is None


async def test_what_was_dismissed_is_known_by_its_name(ledger: Ledger) -> None:
    await ledger.do(Dismiss(name="run:r1", agent_id="", at=5))
    await ledger.do(Dismiss(name="run:r1", agent_id="", at=6))

    assert await ledger.monitoring.dismissed(["run:r1", "run:r2"]) == {"run:r1"}
    assert await ledger.monitoring.tight_budgets(share=0.8, limit=9) == []
