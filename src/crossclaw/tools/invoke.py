"""A tool called from outside: it acts as the session that is named, and may do no more than that one."""

from collections.abc import Callable
from typing import Any

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import NotFound
from crossclaw.domain.sessions import UNBOUND
from crossclaw.domain.tools import ToolDeclaration, mcp_declaration
from crossclaw.door.dispatch import Door, require_scope
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import Resolver, SessionHandle
from crossclaw.policy.hops import begun_by
from crossclaw.policy.sandbox import confined
from crossclaw.policy.tools import Layer, decide_tool
from crossclaw.tools.contract import Tool, ToolContext
from crossclaw.tools.toolset import Toolsets


class ToolNotAvailable(NotFound):
    """The tool does not exist, or not for this session: the answer is the same."""

    def __init__(self, tool: str) -> None:
        super().__init__(f"Tool not available: {tool}")


class Invoker:
    """Calls tools from outside. `model_of` returns the model of an agent, on which its tools may depend."""

    def __init__(
        self,
        door: Door,
        toolsets: Toolsets,
        resolver: Resolver,
        config: Config,
        model_of: Callable[[str], str],
    ) -> None:
        self._door = door
        self._toolsets = toolsets
        self._resolver = resolver
        self._config = config
        self._model_of = model_of

    async def invoke(
        self, principal: Principal, name: str, arguments: dict[str, Any], session_key: str
    ) -> Any:
        return await self._door.enter(
            Caller(principal=principal),
            f"tool.{name}",
            lambda: self._invoke(principal, name, arguments, session_key),
        )

    async def _invoke(
        self, principal: Principal, name: str, arguments: dict[str, Any], session_key: str
    ) -> Any:
        known = self._toolsets.known.get(name)
        self._refuse_closed(known.declared if known else mcp_declaration(name))
        if known is not None:
            refuse_without_scope(principal, known)
        handle = await self._resolver.resolve(principal, session_key, "send")
        bound = handle.session.authority if handle.session else UNBOUND
        rules = self._config.session.agent_to_agent
        given = begun_by(principal.authority, rules, owner=False).meet(bound)
        authority = confined(self._config.agents, handle.key, given)
        tool = await self._find(handle, authority, name)
        self._refuse_closed(tool.declared)  # by every name that it has
        refuse_without_scope(principal, tool)
        context = ToolContext(handle.key, authority)
        params = await self._toolsets.gate.admit(context, tool, tool.read(arguments))
        return await tool.call(context, params)

    async def _find(self, handle: SessionHandle, authority: Authority, name: str) -> Tool[Any]:
        """The tool, if the rules of the agent's own model and of the one that the session has chosen both
        allow it: rules for a model are not escaped by choosing another."""
        chosen = handle.session.model if handle.session else None
        own = self._model_of(handle.key.agent_id)
        tools = [
            (await self._toolsets.of(handle.key, authority, model)).get(name)
            for model in dict.fromkeys([own, chosen or own])
        ]
        if tools[0] is None or None in tools:
            raise ToolNotAvailable(name)
        return tools[0]

    def _refuse_closed(self, tool: ToolDeclaration) -> None:
        """Refuses tools with effects unless gateway.tools.allow opens them: a leaked token should not be a
        shell at once."""
        settings = self._config.gateway.tools
        layers = (
            Layer("gateway.tools", deny=settings.deny),
            Layer("the gateway", closed=_has_effects, unless=settings.allow),
        )
        if not decide_tool(tool, layers).allowed:
            raise ToolNotAvailable(tool.name)


def _has_effects(tool: ToolDeclaration) -> bool:
    return tool.effect == "effects"


def refuse_without_scope(principal: Principal, tool: Tool[Any]) -> None:
    require_scope(principal, "operator.read" if tool.effect == "pure" else "operator.write")
