"""Tools of MCP servers: there when a run could use them, and never the end of a run.

In real time, with a real server by the official package.
"""

import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.events import FeedEvent, ToolProgress
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolResultMessage, ToolUse
from crossclaw.domain.runs import Run
from crossclaw.domain.secret import Secret
from crossclaw.testing import ScriptedProvider, open_gateway
from crossclaw.tools import mcp_servers
from crossclaw.tools.mcp_tool import tool_name
from crossclaw.tools.toolset import Toolset
from tests.flows.talking import call, results_of, say

SERVER = Path(__file__).parent / "mcp_server.py"
STDIO = {"command": sys.executable, "args": [str(SERVER)]}
MAIN = SessionKey.main("main")


def in_a_gateway(
    folder: Path,
    servers: dict[str, Any],
    story: Callable[[Gateway], Awaitable[None]],
    script: list[Any] | None = None,
    **more: Any,
) -> None:
    config = msgspec.convert({"mcp": {"servers": servers}, **more}, Config, dec_hook=_hook)

    async def tell() -> None:
        model = ScriptedProvider(script or [])
        async with open_gateway(
            folder, model, config=config, clock=SystemClock(), inline=False
        ) as gateway:
            await story(gateway)

    anyio.run(tell)


def _hook(kind: type, value: Any) -> Any:
    if kind is Secret:
        return Secret(value)
    made = {name: Secret(text) for name, text in value.items()}
    return kind(made)


async def messages_of(gateway: Gateway, run: Run) -> list[ToolResultMessage]:
    entries = await gateway.ledger.list_entries(run.session_id, limit=100)
    return [entry.message for entry in entries if isinstance(entry.message, ToolResultMessage)]


async def toolset(gateway: Gateway, authority: Authority | None = None) -> Toolset:
    return await gateway.toolsets.of(MAIN, authority or Authority(), "scripted/test")


async def mcp_names(gateway: Gateway) -> list[str]:
    return sorted(name for name in await toolset(gateway) if "__" in name)


@pytest.fixture
def port() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(SERVER), str(number)], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    while "running on" not in server.stderr.readline():
        assert server.poll() is None
    yield number
    server.kill()
    server.communicate()


@pytest.mark.spec("M2", "M3")
def test_an_agent_uses_the_tools_of_a_server(tmp_path: Path) -> None:
    script = [
        ToolUse("c1", "little__add", {"a": 2, "b": 3}),
        ToolUse("c2", "little__fail", {}),
        ToolUse("c3", "little__add", {"a": "x"}),
        "five",
    ]

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "2 + 3?", "r1")
        added, failed, wrong = await results_of(gateway, run)
        assert run.reply == "five"
        assert added == "5"
        assert "tool fail" in failed
        assert wrong != added
        assert [message.is_error for message in await messages_of(gateway, run)] == [
            False,
            True,
            True,
        ]
        spec = (await toolset(gateway))["little__add"].spec
        assert spec.description == "Add two numbers."
        assert set(spec.schema["properties"]) == {"a", "b"}

    in_a_gateway(tmp_path, {"little": STDIO}, story, script)


@pytest.mark.spec("M1")
def test_an_image_of_a_server_is_shown_unless_it_is_too_large(tmp_path: Path) -> None:
    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "look", "r1")
        small, large = await results_of(gateway, run)
        (picture,) = small
        assert picture["source"]["media_type"] == "image/png"
        kept = await gateway.ledger.find_media(picture["source"]["sha256"])
        assert kept is not None
        assert kept.data == b"xxx"
        assert "too large" in large

    script = [
        ToolUse("c1", "little__picture", {"size": 3}),
        ToolUse("c2", "little__picture", {"size": 3_000_000}),
        "seen",
    ]
    in_a_gateway(tmp_path, {"little": STDIO}, story, script)


def test_a_server_over_http_gets_its_headers_and_answers(tmp_path: Path, port: int) -> None:
    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "add", "r1")
        assert await results_of(gateway, run) == ["3"]

    settings = {
        "url": f"http://127.0.0.1:{port}/mcp",
        "transport": "streamable-http",
        "headers": {"Authorization": "Bearer x"},
    }
    in_a_gateway(
        tmp_path, {"far": settings}, story, [ToolUse("c1", "far__add", {"a": 1, "b": 2}), "3"]
    )


@pytest.mark.spec("B1")
def test_a_server_that_dies_is_an_error_and_comes_back(tmp_path: Path) -> None:
    script = [
        ToolUse("c1", "little__die", {}),
        ToolUse("c2", "little__add", {"a": 1, "b": 1}),
        "two",
    ]

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "go", "r1")
        died, added = await results_of(gateway, run)
        assert "nobody knows how far" in died
        assert added == "2"
        assert run.reply == "two"

    in_a_gateway(tmp_path, {"little": STDIO}, story, script)


def test_servers_that_cannot_be_started_cost_only_their_own_tools(tmp_path: Path) -> None:
    servers: dict[str, Any] = {
        "absent": {"command": "/nowhere/at-all"},
        "chatty": {"command": "/bin/echo", "args": ["hello"]},
        "closed": {"url": "http://127.0.0.1:1/mcp"},
        "strange": {"url": "http://127.0.0.1:1/mcp", "transport": "pigeon"},
        "empty": {},
    }

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "go", "r1")
        assert run.reply == "fine without"
        assert await mcp_names(gateway) == [f"little__{name}" for name in
                                          ("add", "die", "fail", "hang", "picture", "slow", "variables")]  # fmt: skip

    in_a_gateway(tmp_path, {**servers, "little": STDIO}, story, ["fine without"])


def test_a_server_that_hangs_is_waited_for_once_and_then_tried_beside_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp_servers, "START_S", 0.2)
    monkeypatch.setattr(mcp_servers, "PAUSE_S", 0.0)
    go = tmp_path / "go"
    code = (
        f"import os, time, runpy\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        f"runpy.run_path({str(SERVER)!r}, run_name='__main__')"
    )

    async def story(gateway: Gateway) -> None:
        first = await say(gateway, "main", "go", "r1")
        monkeypatch.setattr(mcp_servers, "START_S", 1000.0)  # who waits now waits too long
        second = await say(gateway, "main", "go", "r2")
        assert (first.reply, second.reply) == ("fine", "fine too")
        assert "slow cannot be started: it did not say within 0.2 s" in caplog.text
        go.touch()
        while not await mcp_names(gateway):  # noqa: ASYNC110  another process starts meanwhile
            await anyio.sleep(0.02)

    servers = {"slow": {"command": sys.executable, "args": ["-c", code]}}
    in_a_gateway(tmp_path, servers, story, ["fine", "fine too"])


def test_a_server_starts_when_its_tools_are_wanted_and_not_before(tmp_path: Path) -> None:
    """Its beginning is seen by a file that it makes."""
    seen = tmp_path / "begun"
    code = f"open({str(seen)!r}, 'w').close(); import runpy; runpy.run_path({str(SERVER)!r}, run_name='__main__')"
    servers = {"little": {"command": sys.executable, "args": ["-c", code]}}

    async def nobody(gateway: Gateway) -> None:
        assert await mcp_names(gateway) == []
        assert not seen.exists()

    async def somebody(gateway: Gateway) -> None:
        assert not seen.exists()
        assert await mcp_names(gateway) == ["little__add"]
        assert seen.exists()

    for number, tools in enumerate(({"deny": ["bundle-mcp"]}, {"allow": ["group:fs", "other__*"]})):
        in_a_gateway(tmp_path / str(number), servers, nobody, tools=tools)
    off = {"little": {**servers["little"], "enabled": False}}
    in_a_gateway(tmp_path / "off", off, nobody)
    in_a_gateway(tmp_path / "on", servers, somebody, tools={"allow": ["little__add"]})


@pytest.mark.spec("B3", "V4")
def test_a_sandboxed_session_gets_servers_only_by_name(tmp_path: Path) -> None:
    async def story(gateway: Gateway) -> None:
        boxed = await toolset(gateway, Authority(sandboxed=True))
        assert [name for name in boxed if "__" in name] == ["little__add"]
        narrow = await toolset(gateway, Authority(tools=frozenset({"little__slow"})))
        assert list(narrow) == ["little__slow"]

    opened = {"sandbox": {"tools": {"alsoAllow": ["little__add"]}}}
    in_a_gateway(tmp_path, {"little": STDIO}, story, tools=opened)


@pytest.mark.spec("B3", "V4")
def test_a_call_that_the_sandbox_refuses_names_the_setting_whether_or_not_there_is_such_a_tool(
    tmp_path: Path,
) -> None:
    async def story(gateway: Gateway) -> None:
        boxed = await toolset(gateway, Authority(sandboxed=True))
        for name in ("little__add", "nobody__knows"):
            told = boxed.why_not(name)
            assert told.startswith(f"the tool '{name}' is not available here: the sandbox")
            assert "tools.sandbox.tools.alsoAllow" in told
        assert boxed.why_not("nothing").startswith("there is no tool 'nothing'")
        free = await toolset(gateway)
        assert free.why_not("nobody__knows").startswith("there is no tool 'nobody__knows'")

    in_a_gateway(tmp_path, {"little": STDIO}, story)


def test_a_server_gets_few_variables_and_those_of_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCLAW_GATEWAY_TOKEN", "t0ken")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k3y")

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "go", "r1")
        [names] = await results_of(gateway, run)
        assert "OWN" in names
        assert "TOKEN" not in names
        assert "API_KEY" not in names

    settings = {**STDIO, "env": {"OWN": "yes"}}
    in_a_gateway(
        tmp_path, {"little": settings}, story, [ToolUse("c1", "little__variables", {}), "ok"]
    )


def test_progress_is_passed_on_and_an_abort_does_not_wait(tmp_path: Path) -> None:
    heard: list[FeedEvent] = []

    async def story(gateway: Gateway) -> None:
        gateway.feed.subscribe(heard.append)
        await say(gateway, "main", "go", "r1")
        progress = [event.text for event in heard if isinstance(event, ToolProgress)]
        assert progress == ["half way"]
        await call(gateway, "chat.send", sessionKey="main", message="x", idempotencyKey="r2")
        while not any(getattr(event, "name", "") == "little__hang" for event in heard):
            await anyio.lowlevel.checkpoint()
        await call(gateway, "chat.abort", sessionKey="main", runId="r2")
        run = await gateway.run_store.wait("r2")
        assert run is not None
        assert run.status == "aborted"

    script = [ToolUse("c1", "little__slow", {}), "ok", ToolUse("c2", "little__hang", {})]
    in_a_gateway(tmp_path, {"little": STDIO}, story, script)


@pytest.mark.spec("M2", "M3")
def test_a_rule_means_a_tool_by_the_name_it_had_before_it_was_cut(tmp_path: Path) -> None:
    async def story(gateway: Gateway) -> None:
        assert await mcp_names(gateway) == ["Little__a_b"]

    async def cut(gateway: Gateway) -> None:
        [name] = await mcp_names(gateway)
        assert name.startswith("Little__xxxx")
        assert "delete" not in name

    servers = {"Little": {**STDIO, "args": [str(SERVER), "--odd"]}}
    few = {"allow": ["Little__a*", "Little__x*"], "deny": ["little__*delete*", "little__add"]}
    in_a_gateway(tmp_path / "denied", servers, story, tools=few)
    in_a_gateway(tmp_path / "allowed", servers, cut, tools={"allow": ["Little__*_Everything"]})


def test_of_two_tools_that_come_to_one_name_the_first_has_it_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(gateway: Gateway) -> None:
        tool = (await toolset(gateway))["little__a_b"]
        assert tool.declared.other_names == ("little__a.b",)
        await toolset(gateway)

    in_a_gateway(tmp_path, {"little": {**STDIO, "args": [str(SERVER), "--odd"]}}, story)
    told = [each for each in caplog.messages if "two MCP tools would be named" in each]
    assert told == ["two MCP tools would be named little__a_b; the second is left out"]


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("docs", "search", "docs__search"),
        ("my docs", "a.b/c", "my_docs__a_b_c"),
        ("s" * 40, "t" * 40, None),
    ],
)
def test_names_are_such_that_every_provider_takes_them(
    server: str, tool: str, name: str | None
) -> None:
    made = tool_name(server, tool)

    assert len(made) <= 64
    assert name is None or made == name
    assert tool_name(server, tool + "x") != made
