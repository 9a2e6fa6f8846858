"""A guest's tools: the session tools, as its own session calls them, and the two by which it hears and
answers."""

from collections.abc import Mapping
from typing import Any

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, Invalid
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import Principal, Scope
from crossclaw.door.registry import Method
from crossclaw.providers.contract import ToolSpec
from crossclaw.sessions.guests import Guests, ReplyParams, ReplyResult, WaitParams, WaitResult
from crossclaw.tools.contract import Tool, ToolContext
from crossclaw.tools.door_tool import PREFIX, DoorTool
from crossclaw.tools.invoke import ToolNotAvailable

NAME_CHARS_MAX = 64  # a label's length: the name is one
WAIT, REPLY = "sessions_wait", "sessions_reply"


def guest_methods(guests: Guests) -> list[Method[Any]]:
    return [
        Method(
            name=f"{PREFIX}{WAIT}",
            params=WaitParams,
            result=WaitResult,
            scope="operator.read",
            effect="read",
            handle=guests.wait,
            hidden=True,
            summary="Wait for the next message that others send to you. timeoutSeconds: how long. "
            "The same message comes again until you have answered it with sessions_reply.",
        ),
        Method(
            name=f"{PREFIX}{REPLY}",
            params=ReplyParams,
            result=ReplyResult,
            scope="operator.write",
            effect="change",
            handle=guests.reply,
            hidden=True,
            summary="Answer a message from sessions_wait: runId and reply. The sender gets the reply.",
        ),
    ]


class GuestTools:
    """What guests may call: `tools` as far as they are methods of the door, without files or programs
    of this machine."""

    def __init__(
        self,
        door: Door,
        tools: Mapping[str, Tool[Any]],
        guests: Guests,
        config: Config,
        ids: Ids,
    ) -> None:
        denied = config.gateway.tools.deny
        shared = {name: tool for name, tool in tools.items() if isinstance(tool, DoorTool)}
        own = {name: _own_tool(door, name) for name in (WAIT, REPLY)}
        self._tools = {n: tool for n, tool in (shared | own).items() if n not in denied}
        self._guests = guests
        self._config = config
        self._ids = ids

    async def list(self, name: str) -> list[ToolSpec]:
        """What there is to call. Whoever asks is here from now on."""
        await self._join(name)
        return [tool.spec for tool in self._tools.values()]

    async def call(
        self, principal: Principal, name: str, tool_name: str, arguments: dict[str, Any]
    ) -> Any:
        """`name` is what the guest calls itself."""
        tool = self._tools.get(tool_name)
        if tool is None:
            raise ToolNotAvailable(tool_name)
        needed: Scope = "operator.read" if tool.effect == "pure" else "operator.write"
        if not principal.has(needed):
            raise Forbidden(f"missing scope: {needed}")
        params = tool.read(arguments)
        key = await self._join(name)
        if tool_name in (WAIT, REPLY):
            return await tool.call(ToolContext(key, self._authority()), params)
        return await self._guests.act(key, lambda run: tool.call(self._context(key, run), params))

    async def _join(self, name: str) -> SessionKey:
        shown = guest_name(name)
        key = SessionKey.guest(self._config.agents.default_id, shown)
        await self._guests.join(key, shown)
        return key

    def _context(self, key: SessionKey, run: Run | None) -> ToolContext:
        if run is None:
            return ToolContext(key, self._authority())
        return ToolContext(key, run.authority, run, self._ids.short())

    def _authority(self) -> Authority:
        return Authority(hops_left=self._config.session.agent_to_agent.max_hops)


def guest_name(text: str) -> str:
    """A client's name for itself, as part of a key and as a label."""
    name = "-".join(text.replace(":", " ").split())[:NAME_CHARS_MAX]
    if not name or not name.isprintable():
        raise Invalid("a guest needs a name: letters and digits, at most 64")
    return name


def _own_tool(door: Door, name: str) -> Tool[Any]:
    method = door.registry.find(f"{PREFIX}{name}")
    assert method is not None
    return DoorTool(door, method, "pure" if name == WAIT else "once")
