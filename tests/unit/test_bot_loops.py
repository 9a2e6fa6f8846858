"""Two bots that answer each other come to an end."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from crossclaw.domain.addresses import Address, Inbound
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Dedupe, Submit
from crossclaw.sessions.loops import MESSAGES_MAX, SILENCE_MS, BotLoops
from crossclaw.testing import VirtualClock
from tests.ledger.making import ANA, run, session

pytestmark = pytest.mark.anyio


def said(sender: str, number: int = 0) -> Inbound:
    where = Address("memory", "g1")
    return Inbound(address=where, sender=sender, text="hi", message_id=str(number))


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncGenerator[Ledger]:
    opened = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    yield opened
    await opened.close()


@pytest.mark.spec("N7")
async def test_a_bot_that_says_much_is_not_heard_for_a_while_and_then_again(ledger: Ledger) -> None:
    loops = BotLoops(ledger, VirtualClock())
    heard = [await loops.may_answer(said("bot")) for _ in range(MESSAGES_MAX + 1)]
    other = await loops.may_answer(said("another"))
    await anyio.sleep(SILENCE_MS / 1000 - 1)
    during = await loops.may_answer(said("bot"))
    await anyio.sleep(1)

    assert heard == [True] * MESSAGES_MAX + [False]
    assert (other, during) == (True, False)
    assert await loops.may_answer(said("bot"))


@pytest.mark.spec("N7")
async def test_a_restart_does_not_let_a_loop_begin_anew(ledger: Ledger) -> None:
    clock = VirtualClock()
    await ledger.commit(session(ANA))
    for number in range(MESSAGES_MAX):
        for sender in ("bot", "another")[: 2 if number < 5 else 1]:
            once = Dedupe("inbound", said(sender, number).dedupe_key, "")
            new = run(f"{sender}{number}")
            await ledger.do(Submit(new=new, at=clock.now_ms(), dedupe=once))
        await anyio.sleep(1)

    assert not await BotLoops(ledger, clock).may_answer(said("bot", 50))
    assert await BotLoops(ledger, clock).may_answer(said("another", 50))
    assert await BotLoops(ledger, clock).may_answer(said("bo", 50))
    await anyio.sleep(SILENCE_MS / 1000)
    assert await BotLoops(ledger, clock).may_answer(said("bot", 51))
