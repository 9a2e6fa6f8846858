"""Runs that use files and programs: what they see, what they store, and what a crash leaves.

In real time: programs do not live in a virtual one.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.events import FeedEvent, ToolProgress
from crossclaw.domain.messages import ToolUse
from crossclaw.sandbox import programs
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call, results_of, say

BOXED = {"agents": {"defaults": {"sandbox": {"mode": "all"}}}}


def in_a_gateway(
    folder: Path,
    model: ScriptedProvider,
    story: Callable[[Gateway], Awaitable[None]],
    raw: dict[str, Any] | None = None,
) -> None:
    async def tell() -> None:
        config = msgspec.convert(raw or {}, Config)
        clock = SystemClock()
        async with open_gateway(folder, model, config=config, clock=clock, inline=False) as gateway:
            await story(gateway)

    anyio.run(tell)


@pytest.mark.spec("M2", "M3", "V4")
@pytest.mark.parametrize("raw", [{}, BOXED], ids=["host", "sandbox"])
def test_an_agent_writes_a_program_runs_it_and_mends_it(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    model = ScriptedProvider(
        [
            ToolUse("c1", "write", {"path": "hi.sh", "content": "echo helo"}),
            ToolUse("c2", "exec", {"command": "sh hi.sh"}),
            ToolUse("c3", "edit", {"path": "hi.sh", "oldText": "helo", "newText": "hello"}),
            [
                ToolUse("c4", "read", {"path": "hi.sh"}),
                ToolUse("c5", "exec", {"command": "sh hi.sh; false"}),
            ],
            "it says hello now",
        ]
    )

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "please", "r1")
        assert run.reply == "it says hello now"
        assert sorted(await results_of(gateway, run)) == sorted([
            "made hi.sh, 9 bytes", "helo\n[exit code 0]", "replaced 1 place in hi.sh",
            "echo hello", "hello\n[exit code 1]",
        ])  # fmt: skip

    in_a_gateway(tmp_path, model, story, raw)
    assert (tmp_path / "state" / "workspace" / "hi.sh").read_text("utf-8") == "echo hello"


@pytest.mark.spec("B3")
def test_a_denied_tool_is_not_shown_and_a_call_to_it_says_why(tmp_path: Path) -> None:
    model = ScriptedProvider(
        [ToolUse("c1", "bash", {}), ToolUse("c2", "exec", {"command": "id"}), "ok"]
    )

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, "main", "please", "r1")
        unknown, denied = await results_of(gateway, run)
        assert "there is no tool 'bash'" in unknown
        assert "'exec' is not available here: tools denies group:runtime; there are: " in denied
        assert "exec" not in [tool.name for tool in model.seen[0].tools]

    in_a_gateway(tmp_path, model, story, {"tools": {"deny": ["group:runtime"]}})


@pytest.mark.spec("M8")
def test_a_slow_tool_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRESS_S", 0.0)
    command = "echo working; until [ -e go ]; do sleep 0.01; done"
    model = ScriptedProvider([ToolUse("c1", "exec", {"command": command}), "done"])
    heard: list[ToolProgress] = []

    def listen(event: FeedEvent) -> None:
        if isinstance(event, ToolProgress):
            heard.append(event)
            (tmp_path / "state" / "workspace" / "go").touch()

    async def story(gateway: Gateway) -> None:
        gateway.feed.subscribe(listen)
        run = await say(gateway, "main", "please", "r1")
        assert run.status == "ok"

    in_a_gateway(tmp_path, model, story)
    assert (heard[0].run_id, heard[0].tool_use_id, heard[0].text) == ("r1", "c1", "working\n")


@pytest.mark.spec("V4")
@pytest.mark.parametrize("raw", [{}, BOXED], ids=["host", "sandbox"])
def test_an_aborted_run_takes_its_programs_with_it(tmp_path: Path, raw: dict[str, Any]) -> None:
    workspace = tmp_path / "state" / "workspace"
    workspace.mkdir(parents=True)
    os.mkfifo(workspace / "life")
    command = "exec 9>life; echo begun >&9; sleep 1000 & wait"
    model = ScriptedProvider([ToolUse("c1", "exec", {"command": command})])

    async def story(gateway: Gateway) -> None:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        with await anyio.to_thread.run_sync(open, workspace / "life", "rb") as life:
            assert await anyio.to_thread.run_sync(life.readline) == b"begun\n"
            await call(gateway, "chat.abort", sessionKey="main", runId="r1")
            assert await anyio.to_thread.run_sync(life.read) == b""
        run = await gateway.run_store.wait("r1")
        assert run is not None
        assert run.status == "aborted"

    in_a_gateway(tmp_path, model, story, raw)


@pytest.mark.spec("B1", "M3")
def test_a_command_that_a_crash_cut_off_is_not_run_again(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    workspace = tmp_path / "shared"
    workspace.mkdir()
    os.mkfifo(workspace / "life")
    raw = {"agents": {"defaults": {"workspace": str(workspace)}}}
    command = "echo once >> log; exec 9>life; sleep 1000 & wait"
    left: list[Path] = []

    async def crash(gateway: Gateway) -> None:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        with await anyio.to_thread.run_sync(open, workspace / "life", "rb"):
            left.append(crashed_copy(folder))

    async def recover(gateway: Gateway) -> None:
        run = await gateway.run_store.wait("r1")
        assert run is not None
        assert run.reply == "I shall look first"
        [result] = await results_of(gateway, run)
        assert "nobody knows" in result

    folder.mkdir()
    in_a_gateway(
        folder, ScriptedProvider([ToolUse("c1", "exec", {"command": command})]), crash, raw
    )
    in_a_gateway(left[0], ScriptedProvider(["I shall look first"]), recover, raw)
    assert (workspace / "log").read_text("utf-8") == "once\n"
