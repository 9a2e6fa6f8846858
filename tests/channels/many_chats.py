"""Many chats of one account that all have something to say at once."""

from pathlib import Path

import anyio

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Piece
from crossclaw.channels.manifest import Rate, Traits
from crossclaw.delivery.outbox import Outbox
from crossclaw.domain.addresses import Address
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import NewDelivery, PutDelivery, TakenDelivery
from crossclaw.policy.decision import Decision
from crossclaw.testing import MemoryChannel, VirtualClock
from tests.ledger.making import ANA, session

A_SECOND = 30


async def all_may(_taken: TakenDelivery) -> Decision:
    return Decision(True, "everything goes out")


async def talk_in_many_chats(folder: Path, chats: int) -> list[tuple[str, str, float]]:
    """Two replies to each: where, what and when, as they were sent."""
    sent: list[tuple[str, str, float]] = []

    class Timed(MemoryChannel):
        async def send(self, piece: Piece) -> str | None:
            sent.append((piece.address.to, piece.text, anyio.current_time()))
            return await super().send(piece)

    channel = Timed(traits=Traits(rate=Rate(A_SECOND, 1.0), chat_rate=Rate(1, 1.0)))
    ledger, accounts = open_ledger(folder / "l.sqlite", inline=True), LiveAccounts()
    await ledger.commit(session(ANA))
    for number in range(2 * chats):
        where = Address("memory", f"chat {number % chats}")
        text = f"{number // chats}"
        new = NewDelivery(delivery_key=f"d{number}", key=ANA, address=where, text=text)
        await ledger.do(PutDelivery(new=new, at=1))
    accounts.put(LiveAccount("memory", "default", channel, channel.traits))
    async with anyio.create_task_group() as tasks:
        await tasks.start(Outbox(ledger, accounts, VirtualClock(), all_may).serve)
        await channel.wait_sent(2 * chats)
        tasks.cancel_scope.cancel()
    await ledger.close()
    return sent
