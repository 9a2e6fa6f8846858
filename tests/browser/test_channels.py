"""Channels on the page: accounts and how they are, who asks to talk, replies whose fate nobody knows, a test message.

Telegram is the strict fake of tests/channels, over TCP."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from crossclaw.domain.clock import SystemClock
from tests.browser.conftest import Visit
from tests.browser.visiting import Place, Visitor, open_place, route
from tests.channels.fake_http import serve_fake
from tests.channels.telegram.fake import FakeBot, FakeTelegram

pytestmark = pytest.mark.spec("N1", "N8")

TOKEN, REVOKED = "700:AAE-the-token", "701:AAE-revoked"
ANN, BEN, CLEO = 2001, 2002, 2003
LOOK = (Path(__file__).parent / "looking.js").read_text("utf-8")
CHANNELS = "section[aria-label=Channels]"


class Chats:
    """A gateway with two Telegram accounts, one of which has a wrong token; and the people who write to it."""

    def __init__(
        self, place: Place, portal: BlockingPortal, telegram: FakeTelegram, bot: FakeBot
    ) -> None:
        self.place, self.telegram = place, telegram
        self._portal, self._bot = portal, bot

    def say(self, who: int, text: str) -> None:
        now = SystemClock().now_ms() // 1000
        self._portal.call(lambda: self.telegram.say(self._bot, who, text, date=now))

    def wait_seen(self, count: int) -> list[str]:
        self._portal.call(self.telegram.wait_seen, count)
        return self.telegram.texts()


@contextmanager
def open_chats(path: Path) -> Generator[Chats]:
    telegram = FakeTelegram()
    bot = telegram.add_bot(TOKEN)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(
        serve_fake(telegram)
    ) as url:  # fmt: skip
        accounts = {"default": {"botToken": TOKEN}, "old": {"botToken": REVOKED}}
        config = {"channels": {"telegram": {"apiUrl": url, "accounts": accounts}}}
        with open_place(path, json.dumps(config)) as place:
            yield Chats(place, portal, telegram, bot)


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Generator[Chats]:
    with open_chats(tmp_path_factory.mktemp("chats")) as chats:
        yield chats


Look = Callable[[], Visitor]


@pytest.fixture
def look(visit: Visit, chats: Chats) -> Look:
    return lambda: visit(route("operations", "channels"), place=chats.place)


def row(visitor: Visitor, text: str) -> Any:
    return visitor.see(f"{CHANNELS} .plainlist > li", has_text=text)


def press(where: Any, text: str) -> None:
    where.get_by_text(text, exact=True).click()


def test_accounts_show_their_state_and_last_error_and_are_connected_at_a_click(
    look: Look, chats: Chats
) -> None:
    visitor = look()

    row(visitor, "claw_bot").locator(".state", has_text="running").wait_for()
    old = row(visitor, "Telegram (old)")
    old.locator(".state", has_text="cannot be used").wait_for()
    assert "BotFather" in old.locator(".problem").inner_text()
    chats.telegram.add_bot(REVOKED, "old_bot")
    press(old, "Connect now")
    row(visitor, "old_bot").locator(".state", has_text="running").wait_for()


def test_a_stranger_is_let_in_or_refused_at_a_click_and_shown_with_the_last_message(
    look: Look, chats: Chats
) -> None:
    visitor = look()
    row(visitor, "claw_bot")
    for who in (ANN, BEN):
        chats.say(who, "say: hello")
    chats.wait_seen(2)

    press(row(visitor, f"Person {ANN}"), "Let in")
    visitor.see(f"{CHANNELS} [aria-label='May talk, by a code']", has_text=str(ANN))
    press(row(visitor, f"Person {BEN}"), "Refuse")
    visitor.find(f"{CHANNELS} [aria-label='Ask to talk']").wait_for(state="detached")
    chats.say(ANN, "say: hello, Ann")
    assert "hello, Ann" in chats.wait_seen(3)
    row(visitor, "claw_bot").locator("small", has_text="last message now").wait_for()
    assert f"Person {BEN}" not in visitor.find(CHANNELS).inner_text()

    press(row(visitor, str(ANN)), "Remove")
    visitor.find(f"{CHANNELS} [aria-label='May talk, by a code']").wait_for(state="detached")
    assert chats.place.client.call("chat.pairing.list", {})["paired"] == []


def test_a_test_message_says_what_became_of_it(look: Look, chats: Chats) -> None:
    chats.telegram.add_chat(CLEO)
    visitor = look()
    account = row(visitor, "claw_bot")
    press(account, "Send test message")
    form = visitor.see(f"{CHANNELS} form")
    form.locator("input").fill("9999")
    visitor.page.evaluate("() => document.querySelector('cc-channels').read()")
    visitor.settle()
    assert form.locator("input").input_value() == "9999"  # it is drawn anew under whoever types

    press(form, "Send")
    form.locator("[role=status]", has_text="chat not found").wait_for()
    form.locator("input").fill(str(CLEO))
    press(form, "Send")
    form.locator("[role=status]", has_text="It has arrived.").wait_for()
    assert chats.telegram.texts(CLEO) == ["This is a test message of your gateway."]


def test_a_reply_whose_fate_nobody_knows_is_sent_again_or_counted_as_arrived(
    look: Look, chats: Chats
) -> None:
    chats.telegram.add_chat(CLEO)
    visitor = look()
    row(visitor, "claw_bot")
    before = len(chats.telegram.seen)
    for text in ("tides", "winds"):
        chats.telegram.cut("/sendMessage", "after")
        sent = {"channel": "telegram", "to": str(CLEO), "message": text, "idempotencyKey": text}
        message = chats.place.client.call("send", sent)["messageId"]
        waited = chats.place.client.call("deliveries.wait", {"messageId": message})
        assert waited["standing"]["name"] == "uncertain"

    left = f"{CHANNELS} .plainlist > li:has(button[aria-label*='may have arrived'])"
    visitor.until(f"() => document.querySelectorAll({json.dumps(left)}).length === 2")
    press(visitor.find(left).last, "It has arrived")
    visitor.until(f"() => document.querySelectorAll({json.dumps(left)}).length === 1")
    press(visitor.find(left), "Send again")
    visitor.find(left).wait_for(state="detached")
    waited = chats.place.client.call("deliveries.wait", {"messageId": message})
    assert waited["standing"]["name"] == "ok"
    chats.wait_seen(before + 3)
    assert len(chats.telegram.seen) == before + 3


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_careful_eye_finds_nothing_wrong_with_it(
    visit: Visit, chats: Chats, width: int, scheme: str
) -> None:
    chats.telegram.add_chat(CLEO)
    chats.telegram.cut("/sendMessage", "after")
    sent = {"channel": "telegram", "to": str(CLEO), "message": "?", "idempotencyKey": f"{width}"}
    chats.place.client.call("send", sent)
    chats.say(BEN, "let me in")
    where = route("operations", "channels")
    visitor = visit(where, place=chats.place, width=width, scheme=scheme)
    press(row(visitor, "claw_bot"), "Send test message")
    for sign in ("form", "button:text-is('It has arrived')", "button:text-is('Let in')"):
        visitor.see(f"{CHANNELS} {sign}")

    assert visitor.page.evaluate(LOOK) == []


def test_where_no_chat_platform_is_set_up_the_page_says_how_to_begin(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("operations", "channels"), locale="es-AR")

    visitor.see(f"{CHANNELS} .empty", has_text="crossclaw onboard")
    visitor.see(f"{CHANNELS} .empty", has_text="Todavía no hay ninguna plataforma")
