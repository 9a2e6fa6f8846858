"""The token of an account is changed while a reply is on its way."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from math import inf
from pathlib import Path

import anyio
import anyio.abc
import pytest

from crossclaw.app import Gateway
from crossclaw.channels.contract import AccountFacts, ChannelHost, Piece
from crossclaw.channels.http import HttpClients
from crossclaw.config import Config
from crossclaw.config.section import Loose
from crossclaw.delivery.sender import ANOTHER
from crossclaw.domain.errors import DeliveryUncertain
from crossclaw.domain.keys import SessionKey
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.channels.fake_http import FakeTransport
from tests.channels.telegram.fake import FakeTelegram
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

LONG = "\n\n".join(letter * 3_000 for letter in "abc")
FIRST, SECOND = "700:home", "800:other"

Opened = Callable[[str], AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def telegram() -> FakeTelegram:
    fake = FakeTelegram()
    fake.add_bot(FIRST)
    fake.add_bot(SECOND, "other_bot")
    return fake


@pytest.fixture
def opened(tmp_path: Path, telegram: FakeTelegram) -> Opened:
    def open_with(token: str) -> AbstractAsyncContextManager[Gateway]:
        section = {"botToken": token, "dmPolicy": "open", "allowFrom": ["*"]}
        config = Config(channels=Loose.of({"telegram": section}))
        transport = FakeTransport({"api.telegram.org": telegram})
        model = ScriptedProvider(lambda _: LONG)
        return open_gateway(tmp_path, model, config=config, http=lambda: HttpClients(transport))

    return open_with


def pieces(telegram: FakeTelegram) -> list[tuple[int, str]]:
    return [(seen.bot, seen.text[0]) for seen in telegram.seen]


def go_away(telegram: FakeTelegram) -> None:
    """After its next message nobody hears the platform."""
    telegram.effects.append(("sendMessage", lambda: setattr(telegram, "away", True)))


@pytest.mark.spec("B2", "N9")
async def test_another_bot_does_not_say_the_rest_of_a_reply_unless_a_person_wants_it(
    telegram: FakeTelegram, opened: Opened
) -> None:
    """Nothing twice, nothing by another silently: what was left has failed, and says why."""
    home, *_ = telegram.bots.values()
    async with opened(FIRST):
        await anyio.sleep(5)
        go_away(telegram)
        telegram.say(home, 42, "tell me")
        await anyio.sleep(60)
    assert pieces(telegram) == [(700, "a")]

    async with opened(SECOND) as gateway:
        await anyio.sleep(60)
        telegram.away = False  # before that nobody knows who the account is, and it says nothing
        await anyio.sleep(300)
        (left,) = await gateway.ledger.monitoring.troubled_deliveries(since=0, limit=9)
        assert (left.state, left.error) == ("failed", ANOTHER)
        assert left.attempt == 1, "the other bot has made none"
        assert pieces(telegram) == [(700, "a")]
        await call(gateway, "deliveries.resend", id=left.delivery_id)
        await anyio.sleep(60)
    assert pieces(telegram) == [(700, "a"), (800, "b"), (800, "c")]


@pytest.mark.spec("N9")
async def test_while_nobody_knows_who_an_account_is_its_reply_is_looked_at_ever_more_seldom(
    telegram: FakeTelegram, opened: Opened
) -> None:
    home, *_ = telegram.bots.values()
    async with opened(FIRST):
        await anyio.sleep(5)
        go_away(telegram)
        telegram.say(home, 42, "tell me")
        await anyio.sleep(60)

    looked_at = set[int]()
    async with opened(SECOND) as gateway:
        for _ in range(120):
            await anyio.sleep(1)
            (left,) = await gateway.ledger.list_open_deliveries(limit=9)
            looked_at.add(left.updated_at)
    assert 2 < len(looked_at) < 10, "after two seconds, four, eight and so on"


@pytest.mark.spec("B2", "N9")
async def test_the_same_bot_goes_on_where_it_was(telegram: FakeTelegram, opened: Opened) -> None:
    home, *_ = telegram.bots.values()
    async with opened(FIRST):
        await anyio.sleep(5)
        go_away(telegram)
        telegram.say(home, 42, "tell me")
        await anyio.sleep(60)
    telegram.away = False
    async with opened(FIRST):
        await anyio.sleep(60)
    assert pieces(telegram) == [(700, "a"), (700, "b"), (700, "c")]


class Named(MemoryChannel):
    """Says who it is, forgets no key, and answers no message."""

    def __init__(
        self, login: str, device: str | None = None, *, hangs: bool = False, unsure: bool = False
    ) -> None:
        super().__init__(knows_key_s=inf, settings=OPEN_TO_ALL)
        self._facts = AccountFacts(id=login, device=device)
        self._hangs, self._unsure = hangs, unsure

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await host.connected(self._facts)
        await super().serve(host, task_status=task_status)

    async def send(self, piece: Piece) -> str | None:
        if self._hangs:
            await anyio.sleep_forever()
        if self._unsure:
            raise DeliveryUncertain("the connection was cut")
        return await super().send(piece)


@pytest.mark.spec("B2")
@pytest.mark.parametrize(
    ("before", "then", "state"),
    [
        (("a", None), ("a", None), "delivered"),
        (("a", None), ("b", None), "uncertain"),
        (("a", "phone"), ("a", "phone"), "delivered"),
        (("a", "phone"), ("a", "desk"), "uncertain"),
        (("a", None), ("a", "desk"), "delivered"),  # stored by a release that knew of no devices
    ],
)
async def test_what_was_cut_off_is_tried_again_only_by_the_account_and_device_that_know_its_key(
    tmp_path: Path, before: tuple[str, str], then: tuple[str, str], state: str
) -> None:
    (tmp_path / "gateway").mkdir()
    first = Named(*before, hangs=True)
    async with open_gateway(tmp_path / "gateway", Recording(), channels=[first]):
        await first.say("ana", "hi")
        await anyio.sleep(60)
        copy = crashed_copy(tmp_path / "gateway")
    await anyio.sleep(1)
    second = Named(*then)
    async with open_gateway(copy, Recording(), channels=[second]) as gateway:
        await anyio.sleep(60)
        (left,) = [
            await gateway.ledger.find_delivery(f"reply:{run}") for run in await runs(gateway)
        ]
    assert left is not None
    assert left.state == state
    assert len(second.sent) == (state == "delivered")


@pytest.mark.spec("B2")
@pytest.mark.parametrize(("device", "state"), [("phone", "delivered"), ("desk", "uncertain")])
async def test_another_device_says_what_waits_and_does_not_repeat_what_may_have_arrived(
    tmp_path: Path, device: str, state: str
) -> None:
    first = Named("a", "phone", unsure=True)
    async with open_gateway(tmp_path, Recording(), channels=[first]):
        await first.say("ana", "hi")
        await anyio.sleep(1)
        await first.say("ana", "and this")  # waits behind the first reply
        await anyio.sleep(1)
    second = Named("a", device)
    async with open_gateway(tmp_path, Recording(), channels=[second]) as gateway:
        await anyio.sleep(600)
        left = [await gateway.ledger.find_delivery(f"reply:{run}") for run in await runs(gateway)]
    assert sorted(each.state for each in left if each) == sorted([state, "delivered"])
    assert len(second.sent) == (2 if state == "delivered" else 1)


async def runs(gateway: Gateway) -> list[str]:
    session = await gateway.ledger.find_session(SessionKey.main("main"))
    assert session is not None
    entries = await gateway.ledger.list_entries(session.session_id, limit=9)
    return sorted({each.run_id for each in entries if each.run_id})
