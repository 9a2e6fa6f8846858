"""Two bots that answer each other come to an end."""

import anyio
import pytest

from crossclaw.domain.addresses import Address, Inbound
from crossclaw.sessions.loops import MESSAGES_MAX, SILENCE_MS, BotLoops
from crossclaw.testing import VirtualClock

pytestmark = pytest.mark.anyio


def said(sender: str, number: int = 0) -> Inbound:
    where = Address("memory", "g1")
    return Inbound(address=where, sender=sender, text="hi", message_id=str(number))


@pytest.mark.spec("N7")
async def test_a_bot_that_says_much_is_not_heard_for_a_while_and_then_again() -> None:
    loops = BotLoops(VirtualClock())
    heard = [loops.may_answer(said("bot")) for _ in range(MESSAGES_MAX + 1)]
    other = loops.may_answer(said("another"))
    await anyio.sleep(SILENCE_MS / 1000 - 1)
    during = loops.may_answer(said("bot"))
    await anyio.sleep(1)

    assert heard == [True] * MESSAGES_MAX + [False]
    assert (other, during) == (True, False)
    assert loops.may_answer(said("bot"))
