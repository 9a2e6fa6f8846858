"""Telegram over real sockets: against somebody else's fake of the Bot API, and against ours, which cuts connections."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig
from crossclaw.config.section import Loose
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.sight import EVERYTHING
from crossclaw.testing import open_gateway
from tests.channels.fake_http import serve_fake
from tests.channels.telegram.fake import FakeTelegram
from tests.channels.telegram.foreign_mock import ForeignMock, open_foreign_mock
from tests.flows.test_runs_keep_their_order import Recording

pytestmark = [pytest.mark.real, pytest.mark.spec("N2")]
TOKEN = "700:AAE-the-token"
WAIT_S = 30.0


def config(url: str) -> Config:
    section = {"botToken": TOKEN, "apiUrl": url, "dmPolicy": "open", "allowFrom": ["*"]}
    return CurrentConfig.of(Config(channels=Loose.of({"telegram": section})))


def opened(folder: Path, url: str) -> Any:
    return open_gateway(
        folder, Recording(0.0), config=config(url), clock=SystemClock(), inline=False
    )


async def wait_for_calls(mock: ForeignMock, count: int) -> list[str]:
    with anyio.fail_after(WAIT_S):
        while len(calls := await anyio.to_thread.run_sync(mock.outbound, "sendMessage")) < count:  # noqa: ASYNC110  another process
            await anyio.sleep(0.2)
    return [call["text"] for call in calls]


async def test_a_foreign_bot_api_gets_each_answer_once_over_a_restart(tmp_path: Path) -> None:
    with open_foreign_mock(TOKEN) as mock:
        mock.say(42, "one", 1)
        async with opened(tmp_path, mock.url):
            await wait_for_calls(mock, 1)
        mock.say(42, "two", 2)
        async with opened(tmp_path, mock.url):
            await wait_for_calls(mock, 2)
            mock.say(42, "three", 3)
            seen = await wait_for_calls(mock, 3)
            await anyio.sleep(1.5)  # one more question for updates
        sent = await anyio.to_thread.run_sync(mock.outbound, "sendMessage")
        assert [each.pop("reply_parameters")["message_id"] for each in sent] == [1, 2, 3]
        assert sent == [{"chat_id": 42, "text": text, "parse_mode": "HTML"} for text in seen]

    assert seen == ["re: one", "re: two", "re: three"]


@pytest.mark.spec("B2")
async def test_a_connection_that_is_really_cut_leaves_what_may_have_arrived_uncertain(
    tmp_path: Path,
) -> None:
    fake = FakeTelegram()
    bot = fake.add_bot(TOKEN)
    async with serve_fake(fake) as url, opened(tmp_path, url) as gateway:
        fake.cut("/sendMessage", "after")
        fake.say(bot, 42, "one", date=1_900_000_000)
        with anyio.fail_after(WAIT_S):
            await fake.wait_seen(1)
        fake.cut("/getUpdates", "after")
        fake.say(bot, 42, "two", date=1_900_000_000)
        with anyio.fail_after(WAIT_S):
            await fake.wait_seen(2)
        await anyio.sleep(0.5)
        runs = [
            await gateway.ledger.find_delivery(f"reply:{run}") for run in await run_ids(gateway)
        ]

    assert fake.texts() == ["re: one", "re: two"]
    assert [each.state for each in runs if each] == ["uncertain", "delivered"]
    assert fake.complaints == []


async def run_ids(gateway: Any) -> list[str]:
    sessions = await gateway.ledger.list_sessions(sight=EVERYTHING, limit=9)
    entries = [
        e for s in sessions for e in await gateway.ledger.list_entries(s.session_id, limit=9)
    ]
    return list(dict.fromkeys(entry.run_id for entry in entries if entry.run_id))
