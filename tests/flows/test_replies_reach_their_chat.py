"""The outbox: in order, retried when that helps, uncertain when nobody knows, never silently twice."""

from math import inf
from pathlib import Path

import anyio
import pytest

from crossclaw.channels.contract import Piece
from crossclaw.delivery.sender import ATTEMPTS_MAX
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain, PlatformUnreachable
from crossclaw.ledger.operations import Delivery
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, open_gateway
from crossclaw.testing.time import NOON_MS, VirtualClock
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gateway").mkdir()
    return tmp_path / "gateway"


async def delivery_after(folder: Path, chat: MemoryChannel, seconds: float = 3600) -> Delivery:
    async with open_gateway(folder, Recording(), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(seconds)
        found = await gateway.ledger.find_delivery(f"reply:{run_id}")
    assert found is not None
    return found


async def test_a_delivered_reply_knows_its_platform_id(folder: Path) -> None:
    delivery = await delivery_after(folder, MemoryChannel(settings=OPEN_TO_ALL))

    assert (delivery.state, delivery.platform_id, delivery.attempt) == ("delivered", "memory-1", 1)


async def test_a_platform_that_is_down_for_a_while_gets_the_reply_later(folder: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.extend(DeliveryError("503", retryable=True) for _ in range(3))

    delivery = await delivery_after(folder, chat)

    assert (delivery.state, delivery.attempt) == ("delivered", 4)
    assert chat.sent == [("ana", "re: hi")]


async def test_a_platform_says_when_to_come_back(folder: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.append(DeliveryError("slow down", retryable=True, retry_after_s=120))

    assert (await delivery_after(folder, chat, seconds=100)).state == "pending"
    assert chat.tries == 1


@pytest.mark.spec("B2")
async def test_a_platform_that_says_each_time_when_to_come_back_gets_the_reply_in_the_end(
    folder: Path,
) -> None:
    """It has not refused the message, so none of these was an attempt. It is asked less and less often."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.extend([DeliveryError("slow down", retryable=True, retry_after_s=5)] * 12)

    delivery = await delivery_after(folder, chat, seconds=3600)

    assert (delivery.state, delivery.attempt, chat.tries) == ("delivered", 1, 13)
    assert chat.sent == [("ana", "re: hi")]


async def test_a_platform_that_says_later_is_asked_nine_times_more_after_a_week(
    folder: Path,
) -> None:
    later = DeliveryError("slow down", retryable=True, retry_after_s=5)
    chat, again = MemoryChannel(settings=OPEN_TO_ALL), MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.extend([later] * 99)
    again.faults.extend([later] * 99)

    waiting = await delivery_after(folder, chat, seconds=1200)
    next_week = VirtualClock(NOON_MS + 8 * 86_400_000)
    async with open_gateway(folder, Recording(), channels=[again], clock=next_week) as gateway:
        await anyio.sleep(1200)
        given_up = await gateway.ledger.find_delivery(waiting.delivery_key)

    assert (waiting.state, waiting.attempt, chat.tries > 8) == ("pending", 0, True)
    assert given_up is not None
    assert (given_up.state, given_up.error, again.tries) == ("failed", "slow down", ATTEMPTS_MAX)


async def test_a_refusal_is_final_and_shown(folder: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.append(DeliveryError("the chat does not exist"))

    delivery = await delivery_after(folder, chat)

    assert (delivery.state, delivery.error, chat.tries) == ("failed", "the chat does not exist", 1)


async def test_retries_end(folder: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.extend(DeliveryError("503", retryable=True) for _ in range(99))

    delivery = await delivery_after(folder, chat, seconds=36_000)

    assert (delivery.state, delivery.attempt) == ("failed", ATTEMPTS_MAX)


@pytest.mark.spec("B2")
async def test_a_platform_that_is_not_to_be_reached_for_hours_loses_nobody_a_reply(
    folder: Path,
) -> None:
    """A cable that was pulled says nothing of the message: it is no attempt, and there is no last one."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    away = PlatformUnreachable("the network is unreachable")
    chat.faults.extend([away] * 100)

    async with open_gateway(folder, Recording(), channels=[chat]) as gateway:
        first, second = [await chat.say(who, "hi") for who in ("ana", "ben")]
        await anyio.sleep(3 * 3600)
        found = [await gateway.ledger.find_delivery(f"reply:{each}") for each in (first, second)]

    assert [(each.state, each.attempt) for each in found if each] == [("delivered", 1)] * 2
    assert sorted(chat.sent) == [("ana", "re: hi"), ("ben", "re: hi")]
    assert chat.tries == 102


async def test_a_reply_that_waits_for_its_platform_goes_out_as_soon_as_the_account_is_connected(
    folder: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.extend([PlatformUnreachable("not connected yet")] * 6)
    async with open_gateway(folder, Recording(), channels=[chat]) as gateway:
        await chat.say("ana", "hi")
        await anyio.sleep(65)
        tries = chat.tries
        gateway.outbox.look_again()
        await anyio.sleep(0.5)

    assert (tries, chat.tries, chat.sent) == (6, 7, [("ana", "re: hi")])


@pytest.mark.spec("B2")
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (DeliveryUncertain("cut off"), "cut off"),
        (RuntimeError("adapter fault"), "RuntimeError: adapter fault"),
    ],
)
async def test_a_message_whose_fate_is_unknown_is_not_sent_again_and_says_why(
    folder: Path, fault: Exception, why: str
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    chat.faults.append(fault)

    delivery = await delivery_after(folder, chat)

    assert (delivery.state, delivery.error, chat.tries) == ("uncertain", why, 1)


class Telling(MemoryChannel):
    """Says what became of a message before it answers, as WhatsApp's statuses and our own messages on a Mac may come."""

    def __init__(self, told: str, then: str, knows_key_s: float = 0.0) -> None:
        super().__init__(knows_key_s=knows_key_s, settings=OPEN_TO_ALL)
        self._told, self._then = told, then

    async def send(self, piece: Piece) -> str | None:
        platform_id = await super().send(piece)
        assert self.host is not None
        if self._told == "arrived":
            await self.host.confirm_delivery(piece.delivery_key, platform_id)
        else:
            await self.host.fail_delivery(piece.delivery_key, "the window is closed")
        if self._then == "cut off":
            raise DeliveryUncertain("cut off")
        if self._then == "hang":
            await anyio.sleep_forever()
        return platform_id


@pytest.mark.spec("B2")
@pytest.mark.parametrize("knows_key_s", [0.0, inf])
@pytest.mark.parametrize("then", ["answer", "cut off"])
@pytest.mark.parametrize(("told", "state"), [("arrived", "delivered"), ("failed", "failed")])
async def test_what_a_platform_tells_before_it_answers_is_what_became_of_the_message(
    folder: Path, told: str, then: str, state: str, knows_key_s: float
) -> None:
    chat = Telling(told, then, knows_key_s)

    delivery = await delivery_after(folder, chat, seconds=600)

    assert (delivery.state, chat.tries) == (state, 1)
    assert delivery.error == (None if told == "arrived" else "the window is closed")


@pytest.mark.spec("B2")
@pytest.mark.parametrize(("told", "state"), [("arrived", "delivered"), ("failed", "failed")])
async def test_what_a_platform_has_told_is_known_after_a_crash(
    folder: Path, told: str, state: str
) -> None:
    chat, again = Telling(told, "hang"), MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(folder, Recording(), channels=[chat]):
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(10)
        left = crashed_copy(folder)
    async with open_gateway(left, Recording(), channels=[again]) as gateway:
        await anyio.sleep(60)
        found = await gateway.ledger.find_delivery(f"reply:{run_id}")

    assert found is not None
    assert (found.state, again.sent) == (state, [])


@pytest.mark.spec("B2")
async def test_a_platform_that_tells_doubles_apart_gets_it_again(folder: Path) -> None:
    chat = MemoryChannel(knows_key_s=inf, settings=OPEN_TO_ALL)
    chat.faults.append(DeliveryUncertain("cut off"))

    assert (await delivery_after(folder, chat)).state == "delivered"
    assert chat.tries == 2


async def test_a_chat_gets_its_messages_in_order_and_others_do_not_wait_for_it(
    folder: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(folder, Recording(), channels=[chat]) as gateway:
        await gateway.run_store.wait(await chat.say("ana", "one", group="g1"))
        await chat.wait_sent(1)
        chat.faults.append(DeliveryError("503", retryable=True, retry_after_s=60))
        await gateway.run_store.wait(await chat.say("ana", "two", group="g1"))
        await anyio.sleep(1)
        await gateway.run_store.wait(await chat.say("ana", "three", group="g1"))
        await gateway.run_store.wait(await chat.say("ben", "other", group="g2"))
        await anyio.sleep(600)

    assert [text for to, text in chat.sent if to == "g1"] == ["re: one", "re: two", "re: three"]
    assert chat.sent[1] == ("g2", "re: other")


@pytest.mark.spec("B2")
@pytest.mark.parametrize(
    ("knows_key_s", "state", "tries"),
    [(0, "uncertain", 0), (5, "uncertain", 0), (3600, "delivered", 1), (inf, "delivered", 1)],
)
async def test_a_crash_while_sending_is_settled_by_what_the_platform_can_do(
    folder: Path, knows_key_s: float, state: str, tries: int
) -> None:
    class Stuck(MemoryChannel):
        async def send(self, *args: object) -> str | None:
            self._news.set()
            await anyio.sleep_forever()
            return None

    stuck = Stuck(settings=OPEN_TO_ALL)
    async with open_gateway(folder, Recording(), channels=[stuck]) as gateway:
        run_id = await stuck.say("ana", "hi")
        await anyio.sleep(10)
        left = crashed_copy(folder)
        await anyio.sleep(10)

    chat = MemoryChannel(knows_key_s=knows_key_s, settings=OPEN_TO_ALL)
    async with open_gateway(left, Recording(), channels=[chat]) as gateway:
        await anyio.sleep(60)
        found = await gateway.ledger.find_delivery(f"reply:{run_id}")

    assert found is not None
    assert (found.state, chat.tries) == (state, tries)


@pytest.mark.spec("N9")
async def test_a_reply_for_a_channel_that_is_not_set_up_waits_for_it_but_not_for_ever(
    folder: Path,
) -> None:
    chat = MemoryChannel("telegram", settings=OPEN_TO_ALL)
    async with open_gateway(folder, Recording(1000), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(1)

    async with open_gateway(folder, Recording()) as gateway:
        await gateway.run_store.wait(run_id)
        await anyio.sleep(600)
        waiting = await gateway.ledger.find_delivery(f"reply:{run_id}")
        left = crashed_copy(folder)
    next_week = VirtualClock(NOON_MS + 8 * 86_400_000)
    async with open_gateway(folder, Recording(), clock=next_week) as gateway:
        await anyio.sleep(10)
        given_up = await gateway.ledger.find_delivery(f"reply:{run_id}")

    later = MemoryChannel("telegram", settings=OPEN_TO_ALL)
    async with open_gateway(left, Recording(), channels=[later]):
        await anyio.sleep(10)
    assert waiting is not None
    assert (waiting.state, waiting.attempt, later.sent) == ("pending", 0, [("ana", "re: hi")])
    assert given_up is not None
    assert (given_up.state, given_up.error) == ("failed", "no channel 'telegram' is set up")


@pytest.mark.spec("Y4")
async def test_the_send_policy_is_asked_at_the_moment_of_delivery(folder: Path) -> None:
    chat = MemoryChannel("telegram", settings=OPEN_TO_ALL)
    async with open_gateway(folder, Recording(10.0), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi")
        await call(gateway, "sessions.patch", key="main", sendPolicy="deny")
        await gateway.run_store.wait(run_id)
        await anyio.sleep(60)
        found = await gateway.ledger.find_delivery(f"reply:{run_id}")

    assert found is not None
    assert (found.state, found.error) == ("failed", "send blocked by session policy")
    assert chat.sent == []


async def test_a_run_that_somebody_stopped_says_nothing_of_that_in_the_chat(folder: Path) -> None:
    chat = MemoryChannel("telegram", settings=OPEN_TO_ALL)
    async with open_gateway(folder, Recording(60.0), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(1)
        await call(gateway, "chat.abort", sessionKey="main")
        run = await gateway.run_store.wait(run_id)
        await anyio.sleep(60)

    assert run is not None
    assert run.status == "aborted"
    assert chat.sent == []
