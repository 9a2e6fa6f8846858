"""An OpenClaw user's config, as it is: telegram with two bots, whatsapp by variables, bluebubbles. In virtual time."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.channels.contract import WebhookAnswer, WebhookRequest
from crossclaw.channels.http import HttpClients
from crossclaw.config import Config
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.config.current import CurrentConfig
from crossclaw.config.section import Loose
from crossclaw.testing import open_gateway
from tests.channels.fake_http import FakeTransport
from tests.channels.imessage.fake import FakeBlueBubbles
from tests.channels.matrix.fake import TOKEN as MATRIX_TOKEN
from tests.channels.matrix.fake import FakeHomeserver
from tests.channels.telegram.fake import FakeTelegram
from tests.channels.whatsapp.fake import GRAPH, FakeWhatsApp
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

OPEN = {"dmPolicy": "open", "allowFrom": ["*"]}


@pytest.mark.spec("N2", "N5", "N6", "N9")
async def test_each_message_is_answered_where_it_came_from_by_the_account_that_heard_it(
    tmp_path: Path,
) -> None:
    telegram, whatsapp, mac = FakeTelegram(), FakeWhatsApp(), FakeBlueBubbles()
    home, work = telegram.add_bot("700:home"), telegram.add_bot("800:work", "work_bot")
    hosts = {"api.telegram.org": telegram, GRAPH: whatsapp, "mac.local": mac}
    channels = {
        "telegram": {**OPEN, "botToken": "700:home", "accounts": {"default": {}, "work": {"botToken": "800:work"}}},
        "whatsapp": OPEN,
        "bluebubbles": {**OPEN, "serverUrl": "http://mac.local", "password": mac.password, "webhookSecret": "s"},
    }  # fmt: skip
    environ = {
        "WHATSAPP_PHONE_NUMBER_ID": whatsapp.number_id,
        "WHATSAPP_ACCESS_TOKEN": whatsapp.token,
        "WHATSAPP_APP_SECRET": whatsapp.app_secret,
        "WHATSAPP_VERIFY_TOKEN": whatsapp.verify_token,
    }
    config = CurrentConfig.of(Config(channels=Loose.of(channels)))

    def http() -> HttpClients:
        return HttpClients(FakeTransport(hosts))

    async with open_gateway(
        tmp_path, Recording(), config=config, environ=environ, http=http
    ) as gateway:
        await anyio.sleep(5)
        mac.secret, mac.call = "s", calling(gateway, "/bluebubbles-webhook")
        telegram.say(home, 42, "to home")
        telegram.say(work, 42, "to work")
        whatsapp.say("+16505551234", "by whatsapp")
        assert await whatsapp.post_waiting(calling(gateway, "/whatsapp-webhook"))
        await mac.say("+16505551234", "by imessage")
        await anyio.sleep(60)
        status = await call(gateway, "channels.status")

    assert sorted((seen.bot, seen.text) for seen in telegram.seen) == [
        (700, "re: to home"),
        (800, "re: to work"),
    ]
    assert [seen.text for seen in whatsapp.seen] == ["re: by whatsapp"]
    assert [seen.text for seen in mac.seen] == ["re: by imessage"]
    assert set(status["channelAccounts"]) >= {"telegram", "whatsapp", "imessage"}
    assert telegram.complaints + whatsapp.complaints + mac.complaints == []


def calling(gateway: Any, path: str) -> Any:
    """What the gateway's HTTP server does with a webhook; its own tests are of that."""

    async def post(request: WebhookRequest) -> WebhookAnswer:
        call = gateway.channels.find_webhook(path)
        assert call is not None
        answer: WebhookAnswer = await call(request)
        return answer

    return post


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("section", "account", "variables", "expected"),
    [
        ({"tokenFile": "s"}, {"botToken": "1:a"}, {}, (None, "1:a")),
        ({"botToken": "1:s"}, {"tokenFile": "a"}, {"TELEGRAM_BOT_TOKEN": "1:e"}, ("a", None)),
        ({"tokenFile": "s"}, {}, {"TELEGRAM_BOT_TOKEN": "1:e"}, ("s", None)),
        ({"botToken": "1:s"}, {}, {"TELEGRAM_BOT_TOKEN": "1:e"}, (None, "1:s")),
        ({}, {}, {"TELEGRAM_BOT_TOKEN": "1:e"}, (None, "1:e")),
    ],
)
def test_an_accounts_own_token_goes_before_the_sections_and_that_before_the_environments(
    section: dict[str, Any], account: dict[str, Any], variables: dict[str, str], expected: Any
) -> None:
    channels = {"telegram": {**section, "accounts": {"default": account}}}
    (found,) = accounts_in(channels, variables)
    settings: Any = found.settings

    assert (settings.token_file, settings.bot_token and settings.bot_token.reveal()) == expected


@pytest.mark.spec("N2")
def test_variables_are_of_the_default_account_only() -> None:
    channels: dict[str, Any] = {"telegram": {"accounts": {"work": {}}}}
    (found,) = accounts_in(channels, {"TELEGRAM_BOT_TOKEN": "1:e"})
    assert not found.settings.is_set_up


@pytest.mark.spec("N8", "N9", "B2")
async def test_two_accounts_that_are_the_same_bot_do_not_both_answer(tmp_path: Path) -> None:
    """Trap 4: an account without a token of its own has its section's, and so has the next one. On Telegram they would end each
    other's questions, on Matrix everybody would be answered twice."""
    telegram, homeserver = FakeTelegram(), FakeHomeserver()
    bot, room = telegram.add_bot("700:home"), homeserver.room_with("@ann:fake.example")
    hosts = {"api.telegram.org": telegram, "fake.example": homeserver}
    two = {"accounts": {"home": {}, "work": {"name": "At work"}}}
    matrix = {"homeserver": "https://fake.example", "accessToken": MATRIX_TOKEN}
    channels = {
        "telegram": {**OPEN, **two, "botToken": "700:home"},
        "matrix": {**OPEN, **two, **matrix},
    }
    config = CurrentConfig.of(Config(channels=Loose.of(channels)))
    transport = FakeTransport(hosts)
    async with open_gateway(
        tmp_path, Recording(), config=config, http=lambda: HttpClients(transport)
    ) as gateway:
        await homeserver.followed.wait()
        await anyio.sleep(5)
        telegram.say(bot, 42, "one")
        homeserver.say(room, "@ann:fake.example", "two")
        await anyio.sleep(200)
        status = (await call(gateway, "channels.status"))["channelAccounts"]
        (running,) = [each["accountId"] for each in status["matrix"] if each["state"] == "running"]
        rest = {"home", "work"} - {running}
        alone = {"matrix": {**OPEN, **matrix, "accounts": {name: {} for name in rest}}}
        gateway.config.take_rules(CurrentConfig.of(Config(channels=Loose.of(alone))))
        await anyio.sleep(10)
        (after,) = (await call(gateway, "channels.status"))["channelAccounts"]["matrix"]

    assert (after["accountId"], after["state"]) == (*rest, "running")
    assert telegram.texts() == ["re: one"]
    assert homeserver.seen == [(room, "re: two")]
    for name in ("telegram", "matrix"):
        (broken,) = [each for each in status[name] if each["state"] == "broken"]
        (open_,) = [each["accountId"] for each in status[name] if each["state"] == "running"]
        assert f"the same account as {open_}" in broken["lastError"]
