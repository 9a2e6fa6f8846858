"""Slack's Web API by somebody else: `emulate` 0.12.2 (vercel-labs, Apache-2.0), started by node (`make channels`). It has no Socket
Mode and no rate limits; those are the own fake's."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import httpx2
import pytest
from dev.npm import node

from crossclaw.channels.contract import Piece
from crossclaw.channels.http import HttpClients
from crossclaw.channels.slack.account import SlackAccount
from crossclaw.channels.slack.settings import SlackSettings
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import AccountBroken, DeliveryError
from crossclaw.domain.secret import Secret
from crossclaw.testing import VirtualClock
from tests.channels.fake_http import FakeTransport
from tests.channels.recording import RecordingHost
from tests.ending import bury

pytestmark = [pytest.mark.real, pytest.mark.spec("N9")]

PACKAGE = Path(sys.prefix) / "channels-npm/node_modules/emulate/dist/index.js"
SEED = """tokens:
  xoxb-test:
    login: admin
    scopes: []
  xoxb-other:
    login: nobody
    scopes: []
slack:
  users:
    - {name: ann, real_name: Ann, email: ann@example.com}
"""


@pytest.fixture
def emulate(tmp_path: Path, free_tcp_port: int) -> Generator[str]:
    (tmp_path / "seed.yaml").write_text(SEED, "utf-8")
    words = ["--service", "slack", "--port", str(free_tcp_port), "--seed", "seed.yaml"]
    with subprocess.Popen(
        [str(node()), str(PACKAGE), *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("Ready" in line for line in process.stdout), "emulate did not start"
        try:
            yield f"http://127.0.0.1:{free_tcp_port}/api"
        finally:
            process.terminate()
            bury(process)


def open_slack(url: str, token: str = "xoxb-test") -> tuple[SlackAccount, RecordingHost]:
    host = RecordingHost("slack", FakeTransport({}), VirtualClock())
    host.http = HttpClients()
    settings = SlackSettings(
        mode="http", bot_token=Secret(token), signing_secret=Secret("topsecret"), api_url=url
    )
    return SlackAccount(settings, host), host


def piece(to: str, text: str, key: str, thread: str | None = None) -> Piece:
    where = Address("slack", to, "default", thread)
    return Piece(address=where, text=text, formatted=text, delivery_key=key)


async def find_ann(url: str) -> str:
    async with httpx2.AsyncClient(headers={"authorization": "Bearer xoxb-test"}) as person:
        found = (await person.post(f"{url}/users.list")).json()["members"]
    return str(next(each["id"] for each in found if each["name"] == "ann"))


async def test_the_web_api_of_somebody_else_takes_what_we_send(emulate: str) -> None:
    account, host = open_slack(emulate)
    assert (await account.probe()).id == "U000000001"
    room = "channel:C000000001"
    first = await account.send(piece(room, "hello *there* &lt;x&gt;", "a"))
    assert first
    reply = await account.send(piece(room, "in the thread", "b", first))
    direct = await account.send(piece(f"user:{await find_ann(emulate)}", "to you", "c"))
    assert reply
    assert direct
    await account.edit(Address("slack", room, "default"), first, piece(room, "changed", "a"))
    await account.react(Address("slack", room, "default"), first, "👀")
    with pytest.raises(DeliveryError, match="channel_not_found") as refused:
        await account.send(piece("channel:C0NOWHERE01", "hello", "d"))
    assert refused.value.chat_gone
    async with httpx2.AsyncClient(headers={"authorization": "Bearer xoxb-test"}) as person:
        found = await person.post(f"{emulate}/conversations.replies", data={"channel": "C000000001", "ts": first})  # fmt: skip
        reactions = await person.post(f"{emulate}/reactions.get", data={"channel": "C000000001", "timestamp": first})  # fmt: skip
    assert [each["text"] for each in found.json()["messages"]] == ["changed", "in the thread"]
    assert reactions.json()["message"]["reactions"][0]["name"] == "eyes"
    await host.http.close()


async def test_a_token_that_it_does_not_know_stops_the_account(emulate: str) -> None:
    account, host = open_slack(emulate, "xoxb-other")
    with anyio.fail_after(30), pytest.raises(AccountBroken):
        await account.probe()
    await host.http.close()
