"""Two agents on two channels: one is asked on Matrix, asks the other, and what they agreed on is announced in the other's chat on
Telegram. Once on fakes in virtual time, once on a real Synapse with Telegram's fake behind a real socket."""

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.channels.http import HttpClients
from crossclaw.config import Config
from crossclaw.config.section import Loose
from crossclaw.domain.clock import SystemClock
from crossclaw.testing import open_gateway
from tests.channels.fake_http import FakeTransport, serve_fake
from tests.channels.matrix.fake import TOKEN as MATRIX_TOKEN
from tests.channels.matrix.fake import FakeHomeserver
from tests.channels.synapse import Synapse
from tests.channels.telegram.fake import FakeTelegram
from tests.flows.test_exchanges import talkative

pytestmark = [pytest.mark.anyio, pytest.mark.spec("N2", "N7", "S7")]

TOKEN, READER = "700:AAE-the-token", 1001
SETTLED = "The atlas stands on shelf nine."
EVERYBODY = {"dmPolicy": "open", "allowFrom": ["*"]}


def config(homeserver: str, token: str, api_url: str) -> Config:
    matrix = {"homeserver": homeserver, "accessToken": token, **EVERYBODY}
    telegram = {"botToken": TOKEN, "apiUrl": api_url, **EVERYBODY}
    rest: dict[str, Any] = {
        "agents": {"list": [{"id": "main", "default": True}, {"id": "librarian"}]},
        "bindings": [{"agentId": "librarian", "match": {"channel": "telegram"}}],
        "tools": {"agentToAgent": {"enabled": True}, "sessions": {"visibility": "all"}},
    }
    made: Config = msgspec.structs.replace(
        msgspec.convert(rest, Config), channels=Loose.of({"matrix": matrix, "telegram": telegram})
    )
    return made


async def test_what_two_agents_agreed_on_is_announced_in_the_others_chat(tmp_path: Path) -> None:
    telegram, homeserver = FakeTelegram(), FakeHomeserver()
    bot = telegram.add_bot(TOKEN)
    transport = FakeTransport({"api.telegram.org": telegram, "fake.example": homeserver})
    room = homeserver.room_with("@ann:fake.example")
    settings = config("https://fake.example", MATRIX_TOKEN, "https://api.telegram.org")
    async with open_gateway(
        tmp_path, talkative(SETTLED), config=settings, http=lambda: HttpClients(transport)
    ):
        await homeserver.followed.wait()
        telegram.say(bot, READER, "hello")
        await telegram.wait_seen(1)
        homeserver.say(room, "@ann:fake.example", "ask")
        await homeserver.wait_seen(1)
        await telegram.wait_seen(2)
        await anyio.sleep(60)

    assert homeserver.seen == [(room, "asked")]
    assert telegram.texts(READER) == ["shelf nine", SETTLED]


@pytest.mark.real
async def test_the_same_on_a_real_synapse(tmp_path: Path, synapse: Synapse) -> None:
    ann, us, telegram = synapse.register("ann"), synapse.register("bot"), FakeTelegram()
    bot = telegram.add_bot(TOKEN)
    room = ann.make_room(us.user_id, direct=True)
    us.join(room)
    async with serve_fake(telegram) as url:
        settings = config(synapse.url, us.token, url)
        async with open_gateway(
            tmp_path, talkative(SETTLED), config=settings, clock=SystemClock(), inline=False
        ) as gateway:
            telegram.say(bot, READER, "hello", date=SystemClock().now_ms() // 1000)
            with anyio.fail_after(60):
                await telegram.wait_seen(1)
                await followed(gateway, f"sync {us.user_id} {us.device_id}")
            ann.say(room, "ask")
            heard = await anyio.to_thread.run_sync(ann.wait_for, room, us.user_id)
            with anyio.fail_after(60):
                await telegram.wait_seen(2)

    assert heard == ["asked"]
    assert telegram.texts(READER) == ["shelf nine", SETTLED]


async def followed(gateway: Gateway, name: str) -> None:
    """What was said before the first sync is not answered."""
    for _ in range(1_200):
        if await gateway.ledger.find_cursor("matrix", "default", name):
            return
        await anyio.sleep(0.05)
    raise AssertionError("the account does not follow the homeserver")
