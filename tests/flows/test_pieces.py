"""A reply that is longer than one message goes out in pieces: each arrives once, in order, whatever happens."""

from itertools import pairwise
from math import inf
from pathlib import Path

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.channels.contract import Piece
from crossclaw.channels.manifest import Rate, Traits
from crossclaw.config.channels import ChannelSettings
from crossclaw.delivery.sender import RESHAPED, DeliverySender
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain
from crossclaw.ledger.attention import Resend
from crossclaw.ledger.operations import Delivery
from crossclaw.ledger.pieces import MarkDelivered
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    VirtualClock,
    open_gateway,
)
from crossclaw.testing.time import NOON_MS
from tests.flows.crashing import crashed_copy

LONG = "\n\n".join(f"**Part {number}** " + "word " * 12 for number in (1, 2, 3))
SHORT_MESSAGES = Traits(dialect="telegram", text_limit=100)


def platform(**more: object) -> MemoryChannel:
    return MemoryChannel(traits=SHORT_MESSAGES, **{"settings": OPEN_TO_ALL, **more})  # type: ignore[arg-type]


def parts(chat: MemoryChannel) -> list[str]:
    return [piece.text.split(" word")[0] for piece in chat.pieces]


async def reply_of(gateway: Gateway, run_id: str) -> Delivery:
    found = await gateway.ledger.find_delivery(f"reply:{run_id}")
    assert found is not None
    return found


@pytest.mark.spec("N9", "B2")
async def test_a_retry_goes_on_with_the_piece_that_failed(tmp_path: Path) -> None:
    chat = platform()
    away = DeliveryError("away", retryable=True)
    async with open_gateway(tmp_path, ScriptedProvider([LONG]), channels=[chat]) as gateway:
        send = chat.send

        async def second_fails_twice(piece: Piece) -> str | None:
            if piece.number == 2 and chat.tries < 3:
                chat.tries += 1
                raise away
            return await send(piece)

        chat.send = second_fails_twice  # type: ignore[method-assign]
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(60)
        found = await reply_of(gateway, run_id)

    assert parts(chat) == ["Part 1", "Part 2", "Part 3"]
    assert [piece.formatted[:13] for piece in chat.pieces] == [
        f"<b>Part {n}</b>" for n in (1, 2, 3)
    ]
    keys = [(piece.delivery_key, piece.number, piece.of) for piece in chat.pieces]
    assert keys == [(f"reply:{run_id}#{n}", n, 3) for n in (1, 2, 3)]
    assert found.state == "delivered"


class Stuck(MemoryChannel):
    """The second piece is on its way for ever."""

    async def send(self, piece: Piece) -> str | None:
        if piece.number == 2:
            await anyio.sleep_forever()
        return await super().send(piece)


@pytest.mark.spec("B2")
@pytest.mark.parametrize(
    ("knows_key_s", "back_s", "state", "seen"),
    [
        (0.0, 0, "uncertain", []),
        (0.0, 900, "uncertain", []),
        (120.0, 0, "delivered", ["Part 2", "Part 3"]),
        (120.0, 900, "uncertain", []),
        (inf, 900, "delivered", ["Part 2", "Part 3"]),
    ],
)
async def test_a_crash_in_the_middle_repeats_nothing_that_arrived(
    tmp_path: Path, knows_key_s: float, back_s: int, state: str, seen: list[str]
) -> None:
    """Nor when the clock was set back meanwhile: then nobody knows how long ago it was on its way."""
    folder = tmp_path / "gateway"
    folder.mkdir()
    stuck = Stuck(traits=SHORT_MESSAGES, settings=OPEN_TO_ALL)
    async with open_gateway(folder, ScriptedProvider([LONG]), channels=[stuck]):
        run_id = await stuck.say("ana", "hi")
        await anyio.sleep(10)
        left = crashed_copy(folder)
    assert parts(stuck) == ["Part 1"]

    chat = platform(knows_key_s=knows_key_s)
    clock = VirtualClock(NOON_MS - back_s * 1000)
    async with open_gateway(left, ScriptedProvider([]), channels=[chat], clock=clock) as gateway:
        await anyio.sleep(60)
        found = await reply_of(gateway, run_id)
        assert (found.state, parts(chat)) == (state, seen)
        if state == "uncertain":  # somebody looks, and it is there
            assert await gateway.ledger.do(MarkDelivered(delivery_id=found.delivery_id, at=1))
            assert not await gateway.ledger.do(MarkDelivered(delivery_id=found.delivery_id, at=1))
            gateway.outbox.wake()
            await anyio.sleep(10)
            assert parts(chat) == ["Part 3"]
            assert (await reply_of(gateway, run_id)).state == "delivered"


@pytest.mark.spec("B2")
async def test_a_long_reply_that_was_claimed_and_not_begun_is_not_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway dies between the claim and the first piece: nothing of it has left."""
    folder = tmp_path / "gateway"
    folder.mkdir()

    async def stand_still(*_given: object) -> None:
        await anyio.sleep_forever()

    before = platform(knows_key_s=inf)
    with monkeypatch.context() as slow:
        slow.setattr(DeliverySender, "_errand_of", stand_still)
        async with open_gateway(folder, ScriptedProvider([LONG]), channels=[before]):
            run_id = await before.say("ana", "hi")
            await anyio.sleep(10)
            left = crashed_copy(folder)
    assert parts(before) == []

    chat, clock = platform(knows_key_s=inf), VirtualClock(NOON_MS + 20_000)
    async with open_gateway(left, ScriptedProvider([]), channels=[chat], clock=clock) as gateway:
        await anyio.sleep(60)
        assert (await reply_of(gateway, run_id)).state == "delivered"
    assert parts(chat) == ["Part 1", "Part 2", "Part 3"]


class Unanswered(MemoryChannel):
    """What it is given is shown, and nobody hears of it."""

    async def send(self, piece: Piece) -> str | None:
        await super().send(piece)
        await anyio.sleep_forever()
        return None


@pytest.mark.spec("B2")
@pytest.mark.parametrize("knows_key_s", [120.0, inf])
async def test_what_may_have_arrived_as_one_message_is_not_sent_again_as_several(
    tmp_path: Path, knows_key_s: float
) -> None:
    """The platform knows the key of the one message, and none of those that its pieces would have."""
    folder = tmp_path / "gateway"
    folder.mkdir()
    before = Unanswered(
        traits=Traits(dialect="telegram"), knows_key_s=knows_key_s, settings=OPEN_TO_ALL
    )
    async with open_gateway(folder, ScriptedProvider([LONG]), channels=[before]):
        run_id = await before.say("ana", "hi")
        await anyio.sleep(10)
        left = crashed_copy(folder)
    assert len(before.pieces) == 1

    chat, clock = platform(knows_key_s=knows_key_s), VirtualClock(NOON_MS + 20_000)
    async with open_gateway(left, ScriptedProvider([]), channels=[chat], clock=clock) as gateway:
        await anyio.sleep(60)
        found = await reply_of(gateway, run_id)
        assert (found.state, found.error, parts(chat)) == ("uncertain", RESHAPED, [])
        assert await gateway.ledger.do(Resend(delivery_id=found.delivery_id, at=clock.now_ms()))
        gateway.outbox.look_again()
        await anyio.sleep(60)
        assert parts(chat) == ["Part 1", "Part 2", "Part 3"]


async def test_what_surely_did_not_arrive_as_one_message_goes_out_as_several(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    before = MemoryChannel(traits=Traits(dialect="telegram"), knows_key_s=inf, settings=OPEN_TO_ALL)
    before.faults.extend([DeliveryError("away", retryable=True, retry_after_s=3600)] * 2)
    async with open_gateway(folder, ScriptedProvider([LONG]), channels=[before]):
        await before.say("ana", "hi")
        await anyio.sleep(10)
        left = crashed_copy(folder)

    chat, clock = platform(knows_key_s=inf), VirtualClock(NOON_MS + 7_200_000)
    async with open_gateway(left, ScriptedProvider([]), channels=[chat], clock=clock):
        await anyio.sleep(60)
    assert parts(chat) == ["Part 1", "Part 2", "Part 3"]


async def test_a_resend_sends_what_is_missing_where_all_of_it_would_be_one_message_now(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    before = Stuck(traits=SHORT_MESSAGES, settings=OPEN_TO_ALL)
    async with open_gateway(folder, ScriptedProvider([LONG]), channels=[before]):
        run_id = await before.say("ana", "hi")
        await anyio.sleep(10)
        left = crashed_copy(folder)
    assert parts(before) == ["Part 1"]

    chat, clock = (
        MemoryChannel(traits=Traits(dialect="telegram"), settings=OPEN_TO_ALL),
        VirtualClock(NOON_MS + 20_000),
    )
    async with open_gateway(left, ScriptedProvider([]), channels=[chat], clock=clock) as gateway:
        await anyio.sleep(60)
        found = await reply_of(gateway, run_id)
        assert await gateway.ledger.do(Resend(delivery_id=found.delivery_id, at=clock.now_ms()))
        gateway.outbox.look_again()
        await anyio.sleep(60)
    assert parts(chat) == ["Part 2", "Part 3"]


async def test_the_platform_may_tell_later_that_a_piece_has_arrived(tmp_path: Path) -> None:
    chat = platform()
    async with open_gateway(tmp_path, ScriptedProvider([LONG]), channels=[chat]) as gateway:
        chat.faults.append(DeliveryUncertain("cut off"))
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(10)
        before = await reply_of(gateway, run_id)
        assert chat.host is not None
        await chat.host.confirm_delivery(f"reply:{run_id}#1", "m1")
        gateway.outbox.wake()
        await anyio.sleep(10)
        after = await reply_of(gateway, run_id)

    assert (before.state, after.state, parts(chat)) == (
        "uncertain",
        "delivered",
        ["Part 2", "Part 3"],
    )


@pytest.mark.spec("B2")
@pytest.mark.parametrize("which", [2, 3])
@pytest.mark.parametrize("then", ["answer", "cut off"])
@pytest.mark.parametrize("told", ["arrived", "failed"])
async def test_what_is_told_of_a_piece_before_its_answer_is_what_became_of_it(
    tmp_path: Path, told: str, then: str, which: int
) -> None:
    chat = platform()
    async with open_gateway(tmp_path, ScriptedProvider([LONG]), channels=[chat]) as gateway:
        send = chat.send

        async def tell_of_it(piece: Piece) -> str | None:
            platform_id = await send(piece)
            assert chat.host is not None
            if piece.number != which:
                return platform_id
            if told == "arrived":
                await chat.host.confirm_delivery(piece.delivery_key, platform_id)
            else:
                await chat.host.fail_delivery(piece.delivery_key, "the window is closed")
            if then == "cut off":
                raise DeliveryUncertain("cut off")
            return platform_id

        chat.send = tell_of_it  # type: ignore[method-assign]
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(60)
        found = await reply_of(gateway, run_id)
        states = [each.state for each in await gateway.ledger.list_pieces(found.delivery_id)]

    if told == "arrived":
        assert (found.state, states) == ("delivered", ["delivered"] * 3)
        assert parts(chat) == ["Part 1", "Part 2", "Part 3"]
    else:
        assert (found.state, states[which - 1]) == ("failed", "failed")
        assert parts(chat).count(f"Part {which}") == 1


@pytest.mark.spec("B2")
async def test_a_key_is_used_again_as_long_as_the_first_attempt_is_remembered(
    tmp_path: Path,
) -> None:
    chat = MemoryChannel(knows_key_s=20, settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, ScriptedProvider(["hello"]), channels=[chat]) as gateway:
        chat.faults.extend([DeliveryUncertain("cut off")] * 8)
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(600)
        found = await reply_of(gateway, run_id)

    assert (found.state, chat.tries) == (
        "uncertain",
        4,
    )  # at 0, 2, 6 and 14 s; the next would be at 30 s


@pytest.mark.spec("N9")
async def test_an_account_is_silent_as_long_as_its_platform_asks_and_no_other_is(
    tmp_path: Path,
) -> None:
    chat, other = (
        MemoryChannel("memory", settings=OPEN_TO_ALL),
        MemoryChannel("other", settings=OPEN_TO_ALL),
    )
    slow = DeliveryError("slow down", retryable=True, retry_after_s=100, stops_account=True)
    async with open_gateway(
        tmp_path, ScriptedProvider(["one", "two", "three"]), channels=[chat, other]
    ):
        chat.faults.append(slow)
        await chat.say("ana", "hi")
        await anyio.sleep(5)
        await chat.say("ben", "hi", group="g")
        await other.say("cat", "hi", group="g")
        await anyio.sleep(60)
        assert (chat.sent, len(other.sent), chat.tries) == ([], 1, 1)
        await anyio.sleep(60)

    assert len(chat.sent) == 2


@pytest.mark.spec("N9")
async def test_messages_go_no_faster_than_the_platform_takes_them(tmp_path: Path) -> None:
    class Watched(MemoryChannel):
        times: list[tuple[str, float]]

        async def send(self, piece: Piece) -> str | None:
            self.times.append((piece.address.to, anyio.current_time()))
            return await super().send(piece)

    chat = Watched(traits=Traits(rate=Rate(2, 1.0), chat_rate=Rate(1, 3.0)), settings=OPEN_TO_ALL)
    chat.times = []
    async with open_gateway(tmp_path, ScriptedProvider(["x"] * 8), channels=[chat]):
        for number in range(4):
            for group in ("g1", "g2"):
                await chat.say("ana", f"{number}", group=group, message_id=f"{group}{number}")
                await anyio.sleep(2)
        await anyio.sleep(60)

    for group in ("g1", "g2"):
        times = [at for to, at in chat.times if to == group]
        assert all(later - earlier >= 2.99 for earlier, later in pairwise(times))
    assert len(chat.sent) == 8


async def test_what_the_config_says_about_length_holds_within_the_platforms_limit(
    tmp_path: Path,
) -> None:
    settings = ChannelSettings(
        dm_policy="open", allow_from=("*",), text_chunk_limit=5_000, chunk_mode="newline"
    )
    chat = platform(settings=settings)
    short = "First.\n\nSecond."
    async with open_gateway(tmp_path, ScriptedProvider([LONG, short]), channels=[chat]):
        await chat.say("ana", "hi")
        await anyio.sleep(10)
        await chat.say("ana", "hi")
        await anyio.sleep(10)

    assert parts(chat) == ["Part 1", "Part 2", "Part 3", "First.", "Second."]
    assert {piece.address for piece in chat.pieces} == {Address("memory", "ana")}
