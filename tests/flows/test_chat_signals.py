"""While a run works for a chat, people see that: typing, a reaction, the reply as it is written. None of it is in the way
of the reply, and the reply is one message whatever happens."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Piece
from crossclaw.channels.http import CONNECT_S
from crossclaw.channels.manifest import Traits
from crossclaw.config import Config
from crossclaw.config.channels import ChannelSettings
from crossclaw.config.doors import Messages
from crossclaw.delivery import signals
from crossclaw.delivery.outbox import Outbox
from crossclaw.delivery.prefixes import PrefixFacts, with_prefix
from crossclaw.delivery.previews import LOST
from crossclaw.delivery.sender import LAST_S
from crossclaw.delivery.signals import ChatSignals
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.ledger.attention import Resend
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import TakenDelivery
from crossclaw.policy.decision import Decision
from crossclaw.policy.signals import decide_ack
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece
from crossclaw.testing import MemoryChannel, VirtualClock, VirtualLoop, open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

CHATTY = Traits(
    typing_every_s=4.0, reactions=True, replies=True, edits=True, edit_every_s=1.0, files=True
)
OPEN = ChannelSettings(
    dm_policy="open", allow_from=("*",), group_policy="open", require_mention=True
)
PARTS = ("The first part of it. ", "The second one. ", "The third. ", "And the end.")
WHOLE = "".join(PARTS)
LONG_S = 30.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """One of them: the contract of channels asks for typing, reactions and edits on both."""
    return "asyncio", {"loop_factory": VirtualLoop}


class Writing(Recording):
    """A model that writes its reply piece by piece."""

    def __init__(self, parts: Sequence[str] = PARTS, pause_s: float = 3.0) -> None:
        super().__init__()
        self.parts, self.pause_s = parts, pause_s

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        for part in self.parts:
            tell(TextPiece(part))
            await anyio.sleep(self.pause_s)
        return AssistantMessage([Text("".join(self.parts))], stop_reason="end_turn")


def chat(**settings: Any) -> MemoryChannel:
    return MemoryChannel(traits=CHATTY, settings=msgspec.structs.replace(OPEN, **settings))


def streaming(**more: Any) -> MemoryChannel:
    return MemoryChannel(
        traits=CHATTY, settings=msgspec.structs.replace(OPEN, streaming="partial"), **more
    )


def in_group(text: str, *, mentioned: bool, message_id: str = "g1") -> Inbound:
    return Inbound(
        address=Address("memory", "team"),
        sender="ann",
        text=text,
        message_id=message_id,
        chat_type="group",
        chat_id="team",
        mentioned=mentioned,
    )


def with_agents(**defaults: Any) -> Config:
    return msgspec.convert({"agents": {"defaults": defaults}}, Config)


async def state_of(gateway: Gateway, run_id: str) -> str:
    delivery = await gateway.ledger.find_delivery(f"reply:{run_id}")
    assert delivery is not None
    return delivery.state


# ── typing ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N8")
async def test_a_chat_sees_typing_until_the_reply_is_there(tmp_path: Path) -> None:
    channel = chat()
    async with open_gateway(tmp_path, Recording(LONG_S), channels=[channel]):
        await channel.say("ann", "hi")
        await channel.wait_sent()
        await anyio.sleep(60)

    assert channel.typing == [("ann", True)] * 8 + [("ann", False)]


@pytest.mark.parametrize(("mode", "begins_s"), [("never", None), ("message", 10.0)])
async def test_typing_begins_as_the_config_says(
    tmp_path: Path, mode: str, begins_s: float | None
) -> None:
    began: list[float] = []

    class Timed(MemoryChannel):
        async def show_typing(self, where: Address) -> None:
            began.append(anyio.current_time())

    class Late(Writing):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            await anyio.sleep(10)
            return await super().complete(request, tell)

    channel = Timed(traits=CHATTY, settings=OPEN)
    config = with_agents(typingMode=mode, typingIntervalSeconds=5)
    async with open_gateway(tmp_path, Late(), channels=[channel], config=config):
        at = anyio.current_time()
        await channel.say("ann", "hi")
        await channel.wait_sent()

    since = [round(each - at) for each in began]
    assert since == ([] if begins_s is None else [*range(int(begins_s), 22, 5)])


async def test_a_group_that_did_not_call_sees_typing_with_the_first_word_and_none_for_silence(
    tmp_path: Path,
) -> None:
    channel = chat(require_mention=False)
    async with open_gateway(
        tmp_path, Writing(("NO_", "REPLY"), 9.0), channels=[channel]
    ) as gateway:
        received = await channel.bring(in_group("just talking", mentioned=False))
        assert received.run_id is not None
        await gateway.run_store.wait(received.run_id)
        assert channel.typing == []

        called = await channel.bring(in_group("claw?", mentioned=True, message_id="g2"))
        assert called.run_id is not None
        await gateway.run_store.wait(called.run_id)
        await anyio.sleep(1)

    assert channel.typing[0] == ("team", True)
    assert channel.typing[-1] == ("team", False)


async def test_typing_ends_without_a_sign_of_life_and_a_signal_that_fails_hurts_nobody(
    tmp_path: Path,
) -> None:
    class Broken(MemoryChannel):
        async def show_typing(self, where: Address) -> None:
            self.tries += 1
            raise RuntimeError("no typing today")

        async def react(
            self, where: Address, message_id: str, emoji: str, *, on: bool = True
        ) -> None:
            await anyio.sleep(3600)

    channel = Broken(traits=CHATTY, settings=OPEN)
    config = Config(messages=Messages(ack_reaction="👍", ack_reaction_scope="all"))
    async with open_gateway(tmp_path, Recording(400), channels=[channel], config=config):
        await channel.say("ann", "hi")
        await channel.wait_sent()

    assert channel.sent == [("ann", "re: hi")]
    assert channel.tries == 120 / 4 + 1  # and one send


async def test_nobody_listens_for_signals_while_no_account_is_open(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Recording()) as gateway:
        assert gateway.signals._end is None


@asynccontextmanager
async def signals_of(
    folder: Path, accounts: LiveAccounts, subscribe: Any
) -> AsyncGenerator[ChatSignals]:
    async def all_may(_taken: TakenDelivery) -> Decision:
        return Decision(True, "")

    ledger = open_ledger(folder / "l.sqlite", inline=True)
    outbox = Outbox(ledger, accounts, VirtualClock(), all_may)
    yield ChatSignals(Config(), ledger, accounts, outbox, subscribe)
    await ledger.close()


async def test_signals_are_listened_for_once_however_many_accounts_are_open(tmp_path: Path) -> None:
    listening, accounts = list[Any](), LiveAccounts()

    def subscribe(hear: Any, *_kinds: Any, outward: bool) -> Callable[[], None]:
        listening.append(hear)
        return lambda: listening.remove(hear)

    async with signals_of(tmp_path, accounts, subscribe):
        seen = [len(listening)]
        for name in ("first", "second"):
            account = chat()
            accounts.put(LiveAccount("memory", name, account, account.traits))
            seen.append(len(listening))
        for name in ("first", "second"):
            accounts.remove(("memory", name))
            seen.append(len(listening))

    assert seen == [0, 1, 1, 1, 0]


async def test_of_the_messages_that_called_the_newest_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "CALLED_MAX", 2)
    account = chat()
    live = LiveAccount("memory", "default", account, account.traits)
    async with signals_of(tmp_path, LiveAccounts(), None) as heard:
        for run_id in ("r1", "r2", "r3"):
            heard.accepted(live, in_group("claw?", mentioned=True), run_id, "main", called=True)
        assert list(heard._called) == ["r2", "r3"]


# ── reactions ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scope", "direct", "called", "uncalled"),
    [
        ("group-mentions", False, True, False),
        ("group-all", False, True, True),
        ("direct", True, False, False),
        ("all", True, True, True),
        ("off", False, False, False),
    ],
)
def test_which_messages_get_a_reaction(
    scope: str, direct: bool, called: bool, uncalled: bool
) -> None:
    found = [
        decide_ack(scope, direct=is_direct, called=is_called).allowed
        for is_direct, is_called in ((True, False), (False, True), (False, False))
    ]
    assert found == [direct, called, uncalled]


async def test_a_group_that_calls_gets_a_reaction_a_direct_chat_none_unless_the_config_wants_it(
    tmp_path: Path,
) -> None:
    channel = chat()
    async with open_gateway(tmp_path, Recording(), channels=[channel]):
        await channel.say("ann", "hi", message_id="d1")
        await channel.bring(in_group("claw!", mentioned=True))
        await channel.bring(in_group("nobody", mentioned=False, message_id="g2"))
        await anyio.sleep(5)

    assert channel.reactions == [("g1", "👀", True)]


async def test_the_reaction_is_taken_back_after_the_reply_if_the_config_says_so(
    tmp_path: Path,
) -> None:
    channel = chat()
    messages = Messages(ack_reaction="🦞", ack_reaction_scope="all", remove_ack_after_reply=True)
    async with open_gateway(
        tmp_path, Recording(), channels=[channel], config=Config(messages=messages)
    ):
        await channel.say("ann", "hi", message_id="d1")
        await channel.wait_sent()
        await anyio.sleep(1)

    assert channel.reactions == [("d1", "🦞", True), ("d1", "🦞", False)]


@pytest.mark.spec("Y4", "N8")
async def test_where_nothing_may_be_said_nothing_is_shown_before_the_reply_either(
    tmp_path: Path,
) -> None:
    """No typing, no reaction, and no word of a reply that the send policy keeps from the chat."""
    channel = streaming()
    config = msgspec.convert(
        {
            "session": {"sendPolicy": {"default": "deny"}},
            "messages": {"ackReactionScope": "all"},
        },
        Config,
    )
    async with open_gateway(tmp_path, Writing(), config=config, channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(60)
        state = await state_of(gateway, run_id)

    assert state == "failed"
    assert (channel.shown, channel.reactions) == ({}, [])
    assert not any(on for _, on in channel.typing)


@pytest.mark.spec("Y4", "N8")
async def test_a_session_that_may_not_speak_any_more_stops_typing_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    channel = chat()
    async with open_gateway(tmp_path, Writing(pause_s=10), channels=[channel]) as gateway:
        await channel.say("ann", "hi")
        await channel.bring(in_group("hi", mentioned=True))
        await anyio.sleep(2)
        await call(gateway, "sessions.patch", key="main", sendPolicy="deny")
        channel.typing.clear()
        await anyio.sleep(9)

        assert {chat for chat, on in channel.typing if on} == {"team"}


# ── the reply while it is written ──────────────────────────────────────────────────────────────


@pytest.mark.spec("N9", "B2")
async def test_a_reply_is_shown_in_one_message_that_grows(tmp_path: Path) -> None:
    channel, seen = streaming(), list[str]()

    class Watching(Writing):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            for part in self.parts:
                tell(TextPiece(part))
                await anyio.sleep(self.pause_s)
                seen.extend(channel.shown.values())
            return AssistantMessage([Text(WHOLE)], stop_reason="end_turn")

    async with open_gateway(tmp_path, Watching(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(60)
        state = await state_of(gateway, run_id)

    assert list(channel.shown.values()) == [WHOLE]
    assert state == "delivered"
    assert len(seen) >= 3, "it was there before it was whole"
    assert all(WHOLE.startswith(each) and each != WHOLE for each in seen[:-1])


async def test_a_reply_that_is_shown_while_it_is_written_answers_its_question_from_the_start(
    tmp_path: Path,
) -> None:
    channel = MemoryChannel(
        traits=CHATTY,
        settings=msgspec.structs.replace(OPEN, streaming="partial", reply_to_mode="first"),
    )
    async with open_gateway(tmp_path, Writing(), channels=[channel]):
        await channel.say("ann", "hi", message_id="q7")
        await anyio.sleep(60)

    assert [each.reply_to for each in channel.pieces] == ["q7"]
    assert list(channel.shown.values()) == [WHOLE]


async def test_a_message_grows_no_more_often_than_the_platform_bears(tmp_path: Path) -> None:
    channel = streaming()
    async with open_gateway(tmp_path, Writing(["word "] * 100, pause_s=0.1), channels=[channel]):
        await channel.say("ann", "hi")
        await anyio.sleep(60)

    (shown,) = channel.shown.values()
    assert shown == ("word " * 100).strip()
    assert 3 <= channel.edits <= 11  # in ten seconds, and once for the whole


@pytest.mark.spec("N9")
@pytest.mark.parametrize("stopped", [True, False])
async def test_nothing_is_kept_of_a_beginning_without_an_end(tmp_path: Path, stopped: bool) -> None:
    """A reply that was stopped, and one that became silence."""

    class Silent(Writing):
        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            await super().complete(request, tell)
            return AssistantMessage([Text("NO_REPLY")], stop_reason="end_turn")

    channel = streaming()
    async with open_gateway(tmp_path, Silent(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(5)
        held = len(gateway.outbox.previews._shown)
        if stopped:
            await gateway.lanes.abort(run_id, "enough")
        await anyio.sleep(20)

        assert (held, len(gateway.outbox.previews._shown)) == (1, 0)


@pytest.mark.parametrize(
    ("said", "streams"),
    [
        ({}, None),
        ({"streaming": False}, False),
        ({"streaming": "partial"}, True),
        ({"streaming": {"mode": "off"}, "streamMode": "partial"}, False),
        ({"streamMode": "block"}, True),
        ({"blockStreaming": True}, True),
    ],
)
def test_every_spelling_of_streaming_is_understood(
    said: dict[str, Any], streams: bool | None
) -> None:
    assert msgspec.convert(said, ChannelSettings).streams is streams


async def test_a_reply_that_is_there_at_once_has_no_beginning(tmp_path: Path) -> None:
    channel, parts = streaming(), [WHOLE, " And more."]
    async with open_gateway(tmp_path, Writing(parts, pause_s=0.3), channels=[channel]):
        await channel.say("ann", "hi")
        await anyio.sleep(10)

    assert (channel.sent, channel.edits) == ([("ann", "".join(parts))], 0)


async def test_without_the_setting_only_the_whole_reply_is_sent(tmp_path: Path) -> None:
    channel = chat()
    async with open_gateway(tmp_path, Writing(), channels=[channel]):
        await channel.say("ann", "hi")
        await channel.wait_sent()

    assert (channel.sent, channel.edits) == ([("ann", WHOLE)], 0)


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize("knows_key_s", [0.0, inf])
async def test_a_crash_while_a_reply_is_written_leaves_one_message_that_is_whole_in_the_end(
    tmp_path: Path, knows_key_s: float
) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    channel = streaming(knows_key_s=knows_key_s)
    async with open_gateway(folder, Writing(pause_s=3.0), channels=[channel]):
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(7)
        assert len(channel.shown) == 1
        left = crashed_copy(folder)
    async with open_gateway(left, Writing(), channels=[channel]) as gateway:
        await gateway.run_store.wait(run_id)
        await anyio.sleep(30)
        state = await state_of(gateway, run_id)

    assert (list(channel.shown.values()), state) == ([WHOLE], "delivered")


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize(("knows_key_s", "state"), [(0.0, "uncertain"), (inf, "delivered")])
async def test_a_beginning_of_which_nobody_knows_is_never_followed_by_a_second_message(
    tmp_path: Path, knows_key_s: float, state: str
) -> None:
    """The process dies while the first words are on their way: only a platform that knows the key can say which
    message they became."""
    folder = tmp_path / "gateway"
    folder.mkdir()
    left: list[Path] = []

    class Dying(MemoryChannel):
        async def send(self, piece: Piece) -> str | None:
            platform_id = await super().send(piece)
            if not left:
                left.append(crashed_copy(folder))
            return platform_id

    settings = msgspec.structs.replace(OPEN, streaming=True)
    channel = Dying(traits=CHATTY, settings=settings, knows_key_s=knows_key_s)
    async with open_gateway(folder, Writing(), channels=[channel]):
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(60)
    async with open_gateway(left[0], Writing(), channels=[channel]) as gateway:
        await gateway.run_store.wait(run_id)
        await anyio.sleep(60)
        found = await state_of(gateway, run_id)

    assert (list(channel.shown.values()), found) == ([WHOLE], state)


async def test_a_shown_beginning_that_somebody_deleted_is_replaced_by_a_new_message(
    tmp_path: Path,
) -> None:
    channel = streaming()
    async with open_gateway(tmp_path, Writing(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(7)
        channel.shown.clear()
        await anyio.sleep(60)
        state = await state_of(gateway, run_id)

    assert (list(channel.shown.values()), state) == ([WHOLE], "delivered")


@pytest.mark.parametrize("fault", [DeliveryError("no"), DeliveryError("slow", retryable=True, retry_after_s=5.0)])  # fmt: skip
async def test_a_beginning_that_the_platform_refuses_costs_the_reply_nothing(
    tmp_path: Path, fault: DeliveryError
) -> None:
    channel = streaming()
    channel.faults.append(fault)
    async with open_gateway(tmp_path, Writing(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(60)
        state = await state_of(gateway, run_id)

    assert (list(channel.shown.values()), state) == ([WHOLE], "delivered")


@pytest.mark.spec("B2")
async def test_an_uncertain_beginning_makes_the_reply_uncertain_and_a_person_can_resend_it(
    tmp_path: Path,
) -> None:
    channel = streaming()
    channel.faults.append(DeliveryUncertain("the connection broke"))
    async with open_gateway(tmp_path, Writing(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(60)
        delivery = await gateway.ledger.find_delivery(f"reply:{run_id}")
        assert delivery is not None
        before = (delivery.state, dict(channel.shown))
        assert delivery.error == LOST
        await gateway.ledger.do(Resend(delivery_id=delivery.delivery_id, at=1))
        gateway.outbox.look_again()
        await anyio.sleep(30)
        after = await state_of(gateway, run_id)

    assert before == ("uncertain", {})
    assert (list(channel.shown.values()), after) == ([WHOLE], "delivered")


async def test_a_long_reply_grows_in_its_first_message_and_the_rest_follows(tmp_path: Path) -> None:
    parts = ["Word " * 30 + "\n\n" for _ in range(6)]
    traits = msgspec.structs.replace(CHATTY, text_limit=400)
    settings = msgspec.structs.replace(OPEN, streaming=True)
    channel = MemoryChannel(traits=traits, settings=settings)
    async with open_gateway(tmp_path, Writing(parts), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(90)
        state = await state_of(gateway, run_id)

    assert state == "delivered"
    assert " ".join(channel.shown.values()).split() == "".join(parts).split()
    assert channel.edits >= 2


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize("slow", ["first words", "more words"])
async def test_a_reply_waits_for_its_beginning_that_is_on_its_way_so_that_the_last_words_stay(
    tmp_path: Path, slow: str
) -> None:
    class Slow(MemoryChannel):
        async def send(self, piece: Piece) -> str | None:
            await anyio.sleep(8 if slow == "first words" and not self.shown else 0)
            return await super().send(piece)

        async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
            await anyio.sleep(8 if piece.formatted != WHOLE else 0)
            await super().edit(where, platform_id, piece)

    settings = msgspec.structs.replace(OPEN, streaming=True)
    channel = Slow(traits=CHATTY, settings=settings)
    async with open_gateway(tmp_path, Writing(pause_s=1.5), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(60)
        state = await state_of(gateway, run_id)

    assert (list(channel.shown.values()), state) == ([WHOLE], "delivered")
    assert channel.edits >= 1


@pytest.mark.spec("N9", "B2")
async def test_a_platform_that_cannot_be_reached_while_a_reply_begins_gets_it_when_it_is_back(
    tmp_path: Path,
) -> None:
    """A connection that is not made fails after some seconds, and is known to have brought nothing."""

    class Away(MemoryChannel):
        async def send(self, piece: Piece) -> str | None:
            if anyio.current_time() < back_s:
                await anyio.sleep(CONNECT_S)
                raise DeliveryError("no connection", retryable=True)
            return await super().send(piece)

    channel = Away(traits=CHATTY, settings=msgspec.structs.replace(OPEN, streaming=True))
    back_s = anyio.current_time() + 2 * LONG_S
    async with open_gateway(tmp_path, Writing(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "hi")
        await anyio.sleep(10 * LONG_S)
        state = await state_of(gateway, run_id)

    assert (list(channel.shown.values()), state) == ([WHOLE], "delivered")


@pytest.mark.spec("N9")
async def test_a_gateway_that_closes_waits_a_moment_only_for_a_beginning_that_is_on_its_way(
    tmp_path: Path,
) -> None:
    class Silent(MemoryChannel):
        async def send(self, piece: Piece) -> str | None:
            await anyio.sleep_forever()
            raise AssertionError

    channel = Silent(traits=CHATTY, settings=msgspec.structs.replace(OPEN, streaming=True))
    async with open_gateway(tmp_path, Writing(), channels=[channel]):
        await channel.say("ann", "hi")
        await anyio.sleep(5)
        closing_s = anyio.current_time()

    assert anyio.current_time() - closing_s <= 2 * LAST_S


# ── what stands before and above ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mode", "marked"), [("off", [None, None]), ("first", ["q7", None]), ("all", ["q7", "q7"])]
)
async def test_replies_are_marked_as_answers_and_have_a_prefix_as_the_config_says(
    tmp_path: Path, mode: Any, marked: list[str | None]
) -> None:
    settings = msgspec.structs.replace(OPEN, reply_to_mode=mode, response_prefix="{identity.name}:")
    channel = MemoryChannel(
        traits=msgspec.structs.replace(CHATTY, text_limit=60), settings=settings
    )
    agents = {"list": [{"id": "main", "identity": {"name": "Claw"}}]}
    config = msgspec.convert({"messages": {"responsePrefix": "[all]"}, "agents": agents}, Config)
    async with open_gateway(
        tmp_path, Writing(["Some words. " * 8]), channels=[channel], config=config
    ):
        await channel.say("ann", "hi", message_id="q7")
        await channel.wait_sent(2)

    assert [each.reply_to for each in channel.pieces] == marked
    assert [each.text.startswith("Claw: Some") for each in channel.pieces] == [True, False]


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("[bot]", "[bot] hi"),
        ("auto", "[Claw] hi"),
        ("{model} of {provider}:", "opus of anthropic: hi"),
        ("{nonsense}", "{nonsense} hi"),
        ("hi", "hi"),
    ],
)
def test_a_prefix_is_filled_in(prefix: str, said: str) -> None:
    assert with_prefix("hi", prefix, PrefixFacts("Claw", "anthropic/opus")) == said


def test_a_name_that_nobody_knows_is_no_prefix() -> None:
    assert with_prefix("hi", "auto", PrefixFacts()) == "hi"
