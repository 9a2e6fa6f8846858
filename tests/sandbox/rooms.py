"""A workspace with something secret beside it, and the tools that work in it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.sandbox.places import Places
from crossclaw.tools.contract import Tool, ToolContext
from crossclaw.tools.edit import Edit
from crossclaw.tools.exec import Exec
from crossclaw.tools.read import ReadTool
from crossclaw.tools.write import Write

SECRET = "sesame-4711"


class Room:
    """Tools of the main session of one agent, as a config sets them up."""

    def __init__(
        self,
        folder: Path,
        sandbox: dict[str, Any] | None = None,
        exec_settings: dict[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        (folder / "secret.txt").write_text(SECRET, "utf-8")
        raw = {
            "agents": {"defaults": {"sandbox": sandbox or {}}},
            "tools": {"exec": exec_settings or {}},
        }
        self.config = msgspec.convert(raw, Config)
        self.places = Places(
            self.config,
            lambda agent_id: self.workspace,
            folder / "state",
            os.environ if environ is None else environ,
        )
        self.tools: dict[str, Tool[Any]] = {
            tool.name: tool
            for tool in (
                ReadTool(self.places),
                Write(self.places),
                Edit(self.places),
                Exec(self.places, lambda agent_id: self.config.tools.exec),
            )
        }

    async def use(
        self,
        tool: str,
        *,
        key: str = "main",
        authority: Authority | None = None,
        tell: Callable[[str], None] = lambda text: None,
        **arguments: Any,
    ) -> Any:
        context = ToolContext(SessionKey.parse(key), authority or Authority(), None, None, tell)
        chosen = self.tools[tool]
        return await chosen.call(context, chosen.read(arguments))

    def __call__(self, tool: str, **arguments: Any) -> Any:
        """In real time: programs do not live in a virtual one."""

        async def call() -> Any:
            return await self.use(tool, **arguments)

        return anyio.run(call)
