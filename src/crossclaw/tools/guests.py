"""A guest's tools: the session tools, as its own session calls them, and the two by which it receives and
answers messages."""

from collections.abc import Callable
from typing import Any

from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller, Method
from crossclaw.policy.hops import begun_by
from crossclaw.policy.sandbox import confined
from crossclaw.policy.tools import Layer, decide_tool
from crossclaw.providers.contract import ToolSpec
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.guest_names import GuestNames, guest_name
from crossclaw.sessions.guests import Guests
from crossclaw.tools.contract import Tool, ToolContext
from crossclaw.tools.door_tool import DoorTool, door_tool, tool_method
from crossclaw.tools.invoke import ToolNotAvailable, refuse_without_scope
from crossclaw.tools.toolset import Toolsets

WAIT, REPLY = "sessions_wait", "sessions_reply"


def guest_methods(guests: Guests) -> list[Method[Any]]:
    return [
        tool_method(
            WAIT,
            "read",
            guests.wait,
            "Wait for the next message that others send to you. timeoutSeconds: how long. "
            "The same message comes again until you have answered it with sessions_reply.",
        ),
        tool_method(
            REPLY,
            "change",
            guests.reply,
            "Answer a message from sessions_wait: runId and reply. The sender gets the reply.",
        ),
    ]


class GuestTools:
    """The tools of guests: those that are methods of the door, without files or programs of this machine."""

    def __init__(
        self,
        context: ServiceContext,
        door: Door,
        toolsets: Toolsets,
        guests: Guests,
        names: GuestNames,
        model_of: Callable[[str], str],
    ) -> None:
        self._door = door
        self._own = {name: door_tool(door, name) for name in (WAIT, REPLY)}
        self._toolsets = toolsets
        self._guests = guests
        self._names = names
        self.bound_name = names.bound_name
        self._config = context.config
        self._model_of = model_of
        self._ids = context.ids

    async def list(self, principal: Principal, name: str) -> list[ToolSpec]:
        """The tools that a guest may call. A guest that asks is present from now on, if it may write."""
        name = guest_name(name)
        if principal.has("operator.write"):
            name = await self._names.hold(principal, name)
            await self._guests.join(self._key(name), name)
        key = self._key(name)
        return [tool.spec for tool in (await self._tools(key, self._authority(principal))).values()]

    async def _tools(self, key: SessionKey, authority: Authority) -> dict[str, Tool[Any]]:
        """The guest's tools, under the same policy as any session of that agent, and as any tool over HTTP."""
        locked = confined(self._config.agents, key, authority)
        chosen = await self._toolsets.of(key, locked, self._model_of(key.agent_id))
        shared = {name: tool for name, tool in chosen.items() if isinstance(tool, DoorTool)}
        closed = [Layer("gateway.tools", deny=self._config.gateway.tools.deny)]
        every = (shared | self._own).items()
        return {name: tool for name, tool in every if decide_tool(tool.declared, closed).allowed}

    async def call(
        self,
        principal: Principal,
        name: str,
        tool_name: str,
        arguments: dict[str, Any],
        client_id: str | None = None,
    ) -> Any:
        """Calls a tool. `name` is what the guest calls itself, `client_id` identifies its client."""
        return await self._door.enter(
            Caller(principal=principal),
            f"tool.{tool_name}",
            lambda: self._call(principal, name, tool_name, arguments, client_id),
        )

    async def _call(
        self,
        principal: Principal,
        name: str,
        tool_name: str,
        arguments: dict[str, Any],
        client_id: str | None,
    ) -> Any:
        name = await self._names.hold(principal, name)
        key, authority = self._key(name), self._authority(principal)
        tool = await self._find(key, authority, tool_name)
        refuse_without_scope(principal, tool)
        params = tool.read(arguments)
        await self._guests.join(key, name)
        if tool_name in (WAIT, REPLY):
            return await self._guests.speak(
                key,
                client_id,
                waits=tool_name == WAIT,
                work=lambda: tool.call(ToolContext(key, authority), params),
            )

        async def work(run: Run | None) -> Any:
            context = self._context(key, run, authority)
            allowed = await self._find(key, context.authority, tool_name)
            return await allowed.call(
                context, await self._toolsets.gate.admit(context, allowed, params)
            )

        return await self._guests.act(key, work, client_id)

    def left(self, client_id: str) -> None:
        """Notes that a client has left: the next one under its name gets what is sent to it."""
        self._guests.clients.left(client_id)

    async def _find(self, key: SessionKey, authority: Authority, name: str) -> Tool[Any]:
        tool = (await self._tools(key, authority)).get(name)
        if tool is None:
            raise ToolNotAvailable(name)
        return tool

    def _key(self, name: str) -> SessionKey:
        return SessionKey.guest(self._config.agents.default_id, name)

    def _context(self, key: SessionKey, run: Run | None, own: Authority) -> ToolContext:
        """The context of a guest's call: in a run, with what both the run and the guest may do."""
        given = own if run is None else run.authority.meet(own)
        authority = confined(self._config.agents, key, given)
        if run is None:
            return ToolContext(key, authority)
        return ToolContext(key, authority, run, self._ids.short())

    def _authority(self, principal: Principal) -> Authority:
        return begun_by(principal.authority, self._config.session.agent_to_agent, owner=False)
