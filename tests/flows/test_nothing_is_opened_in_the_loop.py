"""While agents work with files, the event loop itself opens none of a workspace: seen at the interpreter's own door.

In real time: threads and programs do not live in a virtual one.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from crossclaw.app import Gateway
from crossclaw.domain.messages import ToolUse
from crossclaw.testing import ScriptedProvider
from tests.flows.talking import say
from tests.flows.test_hands import BOXED, in_a_gateway

_watched: dict[int, list[str]] = {}
"""By thread: what it has opened. A hook of the interpreter stays for good, so it looks here."""


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched and (heard := _watched.get(threading.get_ident())) is not None:
        heard.append(str(arguments[0]))


sys.addaudithook(_hear)

WORKS = [
    ToolUse("c1", "write", {"path": "watched-1.txt", "content": "a"}),
    ToolUse("c2", "edit", {"path": "watched-1.txt", "oldText": "a", "newText": "b"}),
    ToolUse("c3", "read", {"path": "watched-1.txt"}),
    ToolUse("c4", "exec", {"command": "cat watched-1.txt"}),
]


@pytest.mark.spec("V4")
@pytest.mark.parametrize("raw", [{}, BOXED], ids=["host", "sandbox"])
def test_a_turn_with_every_file_tool_opens_nothing_of_the_workspace_in_the_loop(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    workspace = tmp_path / "state" / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "AGENTS.md").write_text("be brief", "utf-8")
    model = ScriptedProvider([*WORKS, "done"])
    heard: list[str] = []

    async def story(gateway: Gateway) -> None:
        _watched[threading.get_ident()] = heard
        try:
            assert (await say(gateway, "main", "please", "r1")).reply == "done"
            assert await gateway.schedule.heartbeats._nothing_to_look_after("main") is False
            Path(__file__).open("rb").close()  # noqa: ASYNC230  the watch sees the loop's own opening
        finally:
            _watched.clear()

    in_a_gateway(tmp_path, model, story, raw)

    assert __file__ in heard
    assert "be brief" in model.seen[0].system
    own = [
        path for path in heard if "workspace" in path or "watched" in path or path.endswith(".md")
    ]
    assert own == []
