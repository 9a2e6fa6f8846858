"""Agents of other programs, with the official MCP client: two of them talk through the gateway."""

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation, TextContent

from tests.wire.served_gateway import TOKEN, ServedGateway, serve_gateway
from tests.wire.serving import SignedDevice
from tests.wire.test_pairing import WRITE, knocking, paired

PROGRAM = Path(sys.executable).with_name("crossclaw")
OPEN: dict[str, Any] = {"gateway": {"guests": {"sessions": {"*": ["*"]}}}}
"""Guests see whom a session of the default agent sees."""
Road = Callable[[ServedGateway, str, str], Any]


@asynccontextmanager
async def over_http(
    served_gateway: ServedGateway, name: str, mode: str, token: str = TOKEN
) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(
            f"{served_gateway.url}/mcp?name={name}", http_client=http
        )
        async with Client(transport, mode=mode) as client:
            yield client


@asynccontextmanager
async def over_stdio(served_gateway: ServedGateway, name: str, mode: str) -> AsyncGenerator[Client]:
    info = Implementation(name=name, version="1")
    server = StdioServerParameters(command=str(PROGRAM), args=["mcp"], env=served_gateway.environ)
    async with Client(stdio_client(server), mode=mode, client_info=info) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    return json.loads(content.text)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert result.is_error
    return content.text


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    ("road", "mode"), [(over_http, "auto"), (over_http, "legacy"), (over_stdio, "auto")]
)
async def test_two_agents_of_other_programs_talk(tmp_path: Path, road: Road, mode: str) -> None:
    async with (
        serve_gateway(tmp_path, **OPEN) as served_gateway,
        road(served_gateway, "ann", mode) as ann,
        road(served_gateway, "bob", mode) as bob,
    ):
        names = {tool.name for tool in (await ann.list_tools()).tools}
        assert await ask(bob, "sessions_wait", timeoutSeconds=0) == {"status": "nothing"}
        listed = await ask(ann, "sessions_list", limit=5)
        async with anyio.create_task_group() as tasks:

            async def answer() -> None:
                asked = await ask(bob, "sessions_wait")
                assert asked["message"] == "two and two?"
                await ask(bob, "sessions_reply", runId=asked["runId"], reply="four")

            tasks.start_soon(answer)
            sent = await ask(ann, "sessions_send", label="bob", message="two and two?")
        history = await ask(ann, "sessions_history", sessionKey="agent:main:mcp:bob")

    assert {"sessions_list", "sessions_history", "sessions_send", "sessions_wait"} <= names
    assert {row["displayName"] for row in listed["sessions"]} == {"ann", "bob"}
    assert (sent["status"], sent["reply"]) == ("ok", "four")
    assert [message["role"] for message in history["messages"]] == ["user", "assistant"]


@pytest.mark.spec("G5")
async def test_a_guest_talks_with_an_agent_of_the_gateway(tmp_path: Path) -> None:
    async with (
        serve_gateway(tmp_path, **OPEN) as served_gateway,
        over_http(served_gateway, "ann", "auto") as ann,
    ):
        sent = await ask(ann, "sessions_send", agentId="main", message="say: good day")
        unknown = await refused(ann, "sessions_send", sessionKey="agent:main:nobody", message="x")
        wrong = await refused(ann, "sessions_list", limits=1)
        missing = await refused(ann, "sessions_fly")

    assert sent["reply"] == "good day"
    assert "unknown session" in unknown
    assert "limits" in wrong
    assert missing == "Tool not available: sessions_fly"


@pytest.mark.spec("G5", "B1")
async def test_a_message_waits_for_its_guest_through_a_restart(tmp_path: Path) -> None:
    async with (
        serve_gateway(tmp_path, **OPEN) as served_gateway,
        over_http(served_gateway, "ann", "auto") as ann,
        over_http(served_gateway, "bob", "auto") as bob,
    ):
        await bob.list_tools()
        sent = await ask(ann, "sessions_send", label="bob", message="hi", timeoutSeconds=0)
        first = await ask(bob, "sessions_wait")
    async with (
        serve_gateway(tmp_path, **OPEN) as served_gateway,
        over_http(served_gateway, "bob", "auto") as bob,
    ):
        asked = await ask(bob, "sessions_wait")
        told = await ask(bob, "sessions_reply", runId=asked["runId"], reply="hello")

    assert first["runId"] == asked["runId"] == sent["runId"]
    assert told["status"] == "ok"


@pytest.mark.spec("G5")
async def test_the_same_client_goes_on_after_a_restart(tmp_path: Path) -> None:
    lives = list[ServedGateway]()
    up, down, gone, again = (anyio.Event() for _ in range(4))

    async def live_twice() -> None:
        async with serve_gateway(tmp_path, **OPEN) as served_gateway:
            lives.append(served_gateway)
            up.set()
            await down.wait()
        gone.set()
        await again.wait()
        async with serve_gateway(tmp_path, port=served_gateway.port, **OPEN):
            up.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live_twice)
        await up.wait()
        async with over_stdio(lives[0], "ann", "auto") as ann:
            await ask(ann, "sessions_list")
            down.set()
            await gone.wait()
            nobody = await refused(ann, "sessions_list")
            up = anyio.Event()
            again.set()
            await up.wait()
            listed = await ask(ann, "sessions_list")
        tasks.cancel_scope.cancel()

    assert "crossclaw gateway run" in nobody
    assert listed["count"] == 1


@pytest.mark.spec("G5")
async def test_a_client_that_goes_away_while_it_waits_loses_nothing(tmp_path: Path) -> None:
    async with (
        serve_gateway(tmp_path, **OPEN) as served_gateway,
        over_http(served_gateway, "ann", "auto") as ann,
    ):
        async with over_http(served_gateway, "bob", "auto") as bob:
            await bob.list_tools()
            with anyio.move_on_after(0.2):
                await ask(bob, "sessions_wait", timeoutSeconds=600)
        await ask(ann, "sessions_send", label="bob", message="hi", timeoutSeconds=0)
        async with over_http(served_gateway, "bob", "auto") as bob:
            asked = await ask(bob, "sessions_wait")

    assert asked["message"] == "hi"


@pytest.mark.spec("G5")
async def test_a_gateway_closes_though_somebody_waits(tmp_path: Path) -> None:
    call = {"name": "sessions_wait", "arguments": {"timeoutSeconds": 600}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {
        "authorization": f"Bearer {TOKEN}",
        "accept": "application/json, text/event-stream",
    }
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        with anyio.fail_after(20):
            async with serve_gateway(tmp_path, **OPEN) as served_gateway:
                request = http.build_request(
                    "POST", f"{served_gateway.url}/mcp?name=bob", json=asked
                )
                answer = await http.send(request, stream=True)
        with pytest.raises(httpx2.TransportError):
            await answer.aread()
        await answer.aclose()


@pytest.mark.spec("G5")
async def test_without_the_token_there_is_no_tool(tmp_path: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with serve_gateway(tmp_path, **OPEN) as served_gateway, httpx2.AsyncClient() as http:
        missing = await http.post(f"{served_gateway.url}/mcp", json=hello)
        wrong = await http.post(
            f"{served_gateway.url}/mcp", json=hello, headers={"authorization": "Bearer no"}
        )

    assert (missing.status_code, wrong.status_code) == (401, 401)


@pytest.mark.spec("G5")
async def test_the_program_says_what_is_missing(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path, **OPEN) as served_gateway:
        environ = served_gateway.environ
        wrong = await _mcp(environ | {"OPENCLAW_GATEWAY_TOKEN": "no"})
    nobody = await _mcp(environ)

    assert wrong[0] == 4
    assert "refused the token" in wrong[1]
    assert nobody[0] == 3
    assert "crossclaw gateway run" in nobody[1]


async def _mcp(environ: dict[str, str]) -> tuple[int, str]:
    done = await anyio.run_process([str(PROGRAM), "mcp"], env=environ, check=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.spec("G5", "B3")
async def test_a_guest_comes_with_a_token_of_its_own_or_a_devices_and_not_with_a_wrong_one(
    tmp_path: Path,
) -> None:
    device = SignedDevice()
    async with serve_gateway(tmp_path, **OPEN) as served_gateway:
        devices = await paired(served_gateway, device, scopes=[WRITE])
        async with knocking(served_gateway) as (owner, _hello):
            own = (await owner.ask("guests.add", {"name": "codex"}))["payload"]["token"]
            async with over_http(served_gateway, "codex", "auto", own) as codex:
                assert await ask(codex, "sessions_wait", timeoutSeconds=0) == {"status": "nothing"}
            async with over_http(served_gateway, "phone", "auto", devices) as phone:
                assert await ask(phone, "sessions_wait", timeoutSeconds=0) == {"status": "nothing"}
            async with over_http(served_gateway, "codex", "auto", devices) as thief:
                why = await refused(thief, "sessions_wait", timeoutSeconds=0)
            for road in ("/tools/invoke", "/v1/chat/completions"):
                async with httpx2.AsyncClient() as http:
                    for token in (own, devices):
                        headers = {"Authorization": f"Bearer {token}"}
                        answer = await http.post(
                            f"{served_gateway.url}{road}", json={}, headers=headers
                        )
                        assert answer.status_code == 401, "these tokens open /mcp alone"
            assert (await owner.ask("guests.remove", {"name": "codex"}))["ok"]
            async with httpx2.AsyncClient() as http:
                headers = {"Authorization": f"Bearer {own}"}
                answer = await http.post(f"{served_gateway.url}/mcp", json={}, headers=headers)

    assert "the guest codex has a token of its own" in why
    assert answer.status_code == 401


@pytest.mark.spec("G5", "B3")
@pytest.mark.parametrize(("road", "mode"), [(over_http, "legacy"), (over_stdio, "auto")])
async def test_a_second_program_under_a_name_takes_no_message_of_the_first(
    tmp_path: Path, road: Road, mode: str
) -> None:
    async with (
        serve_gateway(tmp_path, **OPEN) as served_gateway,
        over_http(served_gateway, "ann", "auto") as ann,
    ):
        async with (
            road(served_gateway, "bob", mode) as bob,
            road(served_gateway, "bob", mode) as second,
        ):
            assert await ask(bob, "sessions_wait", timeoutSeconds=0) == {"status": "nothing"}
            sent = await ask(ann, "sessions_send", label="bob", message="hi", timeoutSeconds=0)
            between = await refused(second, "sessions_wait", timeoutSeconds=0)
            asked = await ask(bob, "sessions_wait")
            at_work = await refused(second, "sessions_wait", timeoutSeconds=0)
            stolen = await refused(second, "sessions_reply", runId=sent["runId"], reply="mine")
        async with road(served_gateway, "bob", mode) as again:
            after = await ask(again, "sessions_wait")
            told = await ask(again, "sessions_reply", runId=after["runId"], reply="hello")

    assert {"connect under another name" in why for why in (between, at_work, stolen)} == {True}
    assert asked["runId"] == after["runId"] == sent["runId"]
    assert told["status"] == "ok"
