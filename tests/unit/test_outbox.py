"""The outbox is stopped at every one of its awaits: what was not tried is pending again, what was tried is
never tried twice on a platform that would show it twice, and nothing is lost."""

from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Piece
from crossclaw.delivery.outbox import LAST_S, Outbox
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import StoreError
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Delivery, NewDelivery, Op, PutDelivery, Taken
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.policy.decision import Decision
from crossclaw.testing import MemoryChannel, VirtualClock
from tests.ledger.making import ANA, session

R = TypeVar("R")
STEP_S = 1.0
LAST_MOMENT_S = 14  # a delivery is over by then, however slow


class SlowLedger(SqliteLedger):
    """A disk that takes its time: before a step is stored, and before its caller hears of it."""

    step_s = STEP_S

    async def do(self, op: Op[R]) -> R:
        await anyio.sleep(self.step_s)
        answer = await super().do(op)
        await anyio.sleep(self.step_s)
        return answer

    async def list_open_deliveries(self, *, after: int = 0, limit: int) -> list[Delivery]:
        await anyio.sleep(STEP_S)
        return await super().list_open_deliveries(after=after, limit=limit)


class SlowChannel(MemoryChannel):
    async def send(self, piece: Piece) -> str | None:
        self.tries += 1
        await anyio.sleep(STEP_S)
        self.sent.append((piece.address.to, piece.text))
        await anyio.sleep(STEP_S)
        return "m1"


async def slowly_allowed(taken: Taken) -> Decision:
    await anyio.sleep(STEP_S)
    return Decision(True, "")


async def with_a_reply(ledger: Ledger) -> None:
    new = NewDelivery(delivery_key="reply", key=ANA, address=Address("memory", "ana"), text="hi")
    await ledger.commit(session(ANA), PutDelivery(new=new, at=1))


async def state_of(ledger: Ledger) -> tuple[str, int]:
    found = await ledger.find_delivery("reply")
    assert found is not None
    return found.state, found.attempt


def outbox_of(ledger: Ledger, channel: MemoryChannel, **other: Any) -> Outbox:
    accounts = LiveAccounts()
    accounts.put(LiveAccount(channel.name, channel.account_id, channel, channel.traits))
    return Outbox(ledger, accounts, VirtualClock(), other.get("may_deliver", slowly_allowed))


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize("moment_s", [half / 2 for half in range(LAST_MOMENT_S * 2 + 1)])
async def test_stopped_at_any_await_what_was_not_tried_is_pending_again(
    tmp_path: Path, moment_s: float
) -> None:
    ledger, chat = SlowLedger(tmp_path / "l.sqlite", inline=True), SlowChannel()
    await with_a_reply(ledger)
    with anyio.move_on_after(moment_s):
        await outbox_of(ledger, chat).serve()
    state, attempt = await state_of(ledger)

    with anyio.move_on_after(60):
        await outbox_of(ledger, chat).serve()
    end, _ = await state_of(ledger)
    await ledger.close()

    if state == "pending":
        assert (attempt, end, chat.sent) == (0, "delivered", [("ana", "hi")])
    else:
        assert chat.tries == 1
        assert end in ("delivered", "uncertain")
        assert len(chat.sent) <= 1


@pytest.mark.spec("N9")
async def test_a_claim_that_takes_longer_than_a_closing_gateway_waits_is_undone(
    tmp_path: Path,
) -> None:
    ledger, chat = SlowLedger(tmp_path / "l.sqlite", inline=True), SlowChannel()
    await with_a_reply(ledger)
    ledger.step_s = 3 * LAST_S
    stored_s = STEP_S + ledger.step_s
    with anyio.move_on_after(stored_s + 0.5):  # stored, and its caller has not heard of it
        await outbox_of(ledger, chat).serve()
    state = await state_of(ledger)
    await ledger.close()

    assert (state, chat.tries) == (("pending", 0), 0)


@pytest.mark.spec("N9")
async def test_whoever_looks_for_a_quiet_moment_sees_every_claim(tmp_path: Path) -> None:
    ledger, chat = SlowLedger(tmp_path / "l.sqlite", inline=True), SlowChannel()
    await with_a_reply(ledger)
    outbox, seen = outbox_of(ledger, chat), set[tuple[str, bool]]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.serve)
        for _ in range(LAST_MOMENT_S * 4):
            seen.add(((await state_of(ledger))[0], outbox.at_work))
            await anyio.sleep(STEP_S / 4)
        tasks.cancel_scope.cancel()
    await ledger.close()

    assert ("sending", True) in seen
    assert ("sending", False) not in seen
    assert ("delivered", False) in seen


@pytest.mark.spec("N9")
async def test_a_policy_that_cannot_be_asked_leaves_the_reply_to_be_tried_later(
    tmp_path: Path,
) -> None:
    ledger, chat = open_ledger(tmp_path / "l.sqlite", inline=True), MemoryChannel()
    await with_a_reply(ledger)
    asked = 0

    async def may_deliver(taken: Taken) -> Decision:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StoreError("the disk does not answer")
        return Decision(True, "")

    with anyio.move_on_after(60):
        await outbox_of(ledger, chat, may_deliver=may_deliver).serve()
    end = await state_of(ledger)
    await ledger.close()

    assert (end, chat.sent) == (("delivered", 1), [("ana", "hi")])


async def test_a_ledger_that_cannot_be_read_for_a_moment_ends_no_outbox(tmp_path: Path) -> None:
    class Forgetful(SqliteLedger):
        reads = 0

        async def list_open_deliveries(self, *, after: int = 0, limit: int) -> list[Delivery]:
            self.reads += 1
            if self.reads in (2, 3):  # the first is for what was cut off
                raise StoreError("the ledger could not be read")
            return await super().list_open_deliveries(after=after, limit=limit)

    ledger, chat = Forgetful(tmp_path / "l.sqlite", inline=True), MemoryChannel()
    async with anyio.create_task_group() as tasks:
        await tasks.start(outbox_of(ledger, chat).serve)
        await with_a_reply(ledger)
        await anyio.sleep(60)
        tasks.cancel_scope.cancel()
    await ledger.close()

    assert chat.sent == [("ana", "hi")]
