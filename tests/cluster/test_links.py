"""Two gateways with their ports: a client of one follows a run on the other, word by word."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest

from crossclaw import app
from crossclaw.client import connect_async
from crossclaw.client.asynchronous import AsyncGatewayClient
from crossclaw.client.peer import Event
from crossclaw.config import Config, Loaded, Paths
from crossclaw.domain.events import FeedEvent, ReplyPiece, ToolEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.gateway.linking import LinkReader, LinkWriter
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.postgres.migrate import SCHEMA
from crossclaw.ledger.postgres.wire import PgWire
from tests.databases import databases
from tests.ending import SOON_S
from tests.wire.served_gateway import TOKEN

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
MAIN = SessionKey.main("main")


@asynccontextmanager
async def served(folder: Path, url: str, name: str) -> AsyncGenerator[str]:
    """A gateway on a free port; where it is."""
    ledger = {"shared": True, "gateway": name}
    config = msgspec.convert({"ledger": ledger, "gateway": {"reload": {"mode": "off"}}}, Config)
    place = folder / name
    place.mkdir()
    paths = Paths(home=place, state_dir=place / "state", config_path=place / "openclaw.json")
    loaded = Loaded(config, paths.config_path, False, {}, (), ())
    environ = {"OPENCLAW_GATEWAY_TOKEN": TOKEN, "CROSSCLAW_LEDGER_URL": url}
    ready, found = anyio.Event(), list[str]()

    def on_ready(address: str, _token: str) -> None:
        found.append(address)
        ready.set()

    async def serve() -> None:
        await app.run_gateway(loaded, paths, environ, port=0, on_ready=on_ready)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        yield found[0]
        tasks.cancel_scope.cancel()


async def hear(client: AsyncGatewayClient, done: Callable[[Event], bool]) -> list[Event]:
    heard: list[Event] = []
    with anyio.fail_after(SOON_S), client._peer.listen() as events:
        async for each in events:
            heard.append(each)
            if done(each):
                break
    return heard


def is_final(event: Event) -> bool:
    return event.name == "chat" and event.payload.get("state") == "final"


async def test_a_client_of_one_gateway_follows_a_run_on_the_other_word_by_word(
    tmp_path: Path,
) -> None:
    url = databases().url(tmp_path / "ledger")
    async with (
        served(tmp_path, url, "a") as at_a,
        served(tmp_path, url, "b") as at_b,
        connect_async(at_a, token=TOKEN, environ={}) as a,
        connect_async(at_b, token=TOKEN, environ={}) as b,
    ):
        await b.call("sessions.messages.subscribe", {"key": "agent:main:main"})
        listed: dict[str, Any] = {}
        with anyio.fail_after(SOON_S):
            while len(listed.get("gateways", ())) < 2 or not all(
                each["address"] for each in listed["gateways"]
            ):
                listed = await b.call("gateways.list")
        here: list[str] = []
        with anyio.fail_after(SOON_S):  # the links are made each second
            while here.count("gateway-client") < 2 or "a" not in here:
                here = [each.get("host", "") for each in await b.call("system-presence")]
                await anyio.sleep(0.05)
        heard: list[Event] = []

        async def listen() -> None:
            heard.extend(await hear(b, is_final))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.sleep(0.1)
            await a.submit("tell me something long", "agent:main:main", key="r1")
    chats = [each.payload for each in heard if each.name == "chat"]
    assert chats[-1]["runId"] == "r1"
    assert [each["state"] for each in chats].count("final") == 1, "an end is told once"
    assert "delta" in [each["state"] for each in chats[:-1]], "and the words before it as they came"
    spoken = [each for each in heard if each.name == "session.message"]
    assert [each.payload["message"]["role"] for each in spoken] == ["user", "assistant"]


async def test_an_address_in_the_ledger_gets_no_secret_and_is_not_believed(tmp_path: Path) -> None:
    """Whoever can write to the database must not become the owner of the gateways' machines by it."""
    url = databases().url(tmp_path / "ledger")
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    asked, lies = anyio.Event(), list[bytes]()
    said = {"kind": "piece", "run_id": "r9", "key": "agent:main:main", "agent_id": "main"}
    lie = msgspec.json.encode({**said, "piece": "lies", "text": "lies"})

    async def pretend(stream: anyio.abc.SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):  # hung up, to ask again
            async with stream:
                lies.append(await stream.receive())
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n"
                await stream.send(head + b"\n" + lie + b"\n" + lie + b"\n")
                asked.set()
                await anyio.sleep(1)

    async with anyio.create_task_group() as tasks, served(tmp_path, url, "a"):
        tasks.start_soon(listener.serve, pretend)
        wire = PgWire(url)
        wire.ask(f"UPDATE {SCHEMA}.gateways SET address = 'http://127.0.0.1:{port}'")
        wire.close()
        async with served(tmp_path, url, "b") as at_b, connect_async(at_b, token=TOKEN) as b:
            await b.call("sessions.messages.subscribe", {"key": "agent:main:main"})
            with anyio.fail_after(SOON_S):
                await asked.wait()
            with b._peer.listen() as events, anyio.move_on_after(1):
                async for each in events:
                    assert "lies" not in str(each.payload)
        tasks.cancel_scope.cancel()
    await listener.aclose()
    assert b"/gateways/events" in lies[0]
    assert TOKEN.encode() not in b"".join(lies)


async def test_words_are_put_together_again_and_nobody_shows_a_text_without_its_beginning(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    writer, reader, late = LinkWriter(), LinkReader(ledger), LinkReader(ledger)
    said: list[FeedEvent] = [
        ReplyPiece("r1", MAIN, "Hel", "Hel"),
        ReplyPiece("r1", MAIN, "lo", "Hello"),
        ReplyPiece("r1", MAIN, "Oh", "Oh", restarted=True),
        ToolEnded("r1", MAIN, "c1", "read", False, 5),
    ]
    for each in said:
        writer.on_event(each)
    lines = (await writer.take(0)).splitlines()
    assert [await reader.read(line) for line in lines] == said
    assert await late.read(lines[1]) is None, "its beginning was not heard"
    assert b"Hello" not in lines[1], "a text that grows is not sent again and again"
    await ledger.close()
