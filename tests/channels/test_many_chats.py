"""Many chats are active on one account: a thousand in make channels, a few in make test. In virtual time."""

from pathlib import Path

import anyio
import pytest

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Piece
from crossclaw.channels.manifest import Rate, Traits
from crossclaw.delivery.outbox import Outbox
from crossclaw.domain.addresses import Address
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import NewDelivery, PutDelivery, Taken
from crossclaw.policy.decision import Decision
from crossclaw.testing import MemoryChannel, VirtualClock
from tests.channels.conftest import REAL
from tests.ledger.making import ANA, session

CHATS_AT_ONCE = 1_000 if REAL else 60


async def all_may(_taken: Taken) -> Decision:
    return Decision(True, "everything goes out")


@pytest.mark.spec("N9")
async def test_many_chats_of_one_account_keep_their_order_and_the_platforms_rates(
    tmp_path: Path,
) -> None:
    times: list[tuple[str, str, float]] = []

    class Timed(MemoryChannel):
        async def send(self, piece: Piece) -> str | None:
            times.append((piece.address.to, piece.text, anyio.current_time()))
            return await super().send(piece)

    channel = Timed(traits=Traits(rate=Rate(30, 1.0), chat_rate=Rate(1, 1.0)))
    ledger, accounts = open_ledger(tmp_path / "l.sqlite", inline=True), LiveAccounts()
    await ledger.commit(session(ANA))
    for number in range(2 * CHATS_AT_ONCE):
        where = Address("memory", f"chat {number % CHATS_AT_ONCE}")
        text = f"{number // CHATS_AT_ONCE}"
        new = NewDelivery(delivery_key=f"d{number}", key=ANA, address=where, text=text)
        await ledger.do(PutDelivery(new=new, at=1))
    accounts.put(LiveAccount("memory", "default", channel, channel.traits))
    async with anyio.create_task_group() as tasks:
        await tasks.start(Outbox(ledger, accounts, VirtualClock(), all_may).serve)
        await channel.wait_sent(2 * CHATS_AT_ONCE)
        tasks.cancel_scope.cancel()
    await ledger.close()

    by_chat: dict[str, list[tuple[str, float]]] = {}
    for to, text, at in times:
        by_chat.setdefault(to, []).append((text, at))
    assert len(by_chat) == CHATS_AT_ONCE
    assert all([text for text, _ in each] == ["0", "1"] for each in by_chat.values())
    assert all(each[1][1] - each[0][1] >= 1.0 - 1e-6 for each in by_chat.values())
    sent_at = sorted(at for *_, at in times)
    assert all(later - at >= 1.0 - 1e-6 for at, later in zip(sent_at, sent_at[30:], strict=False))
