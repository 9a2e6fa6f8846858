"""A tool called from outside: it acts as the session that is named, and may no more than that one."""

from collections.abc import Mapping
from typing import Any

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, NotFound
from crossclaw.domain.sessions import UNBOUND
from crossclaw.door.principal import Principal, Scope
from crossclaw.door.resolver import Resolver
from crossclaw.policy.sandbox import confined
from crossclaw.policy.subagents import may_use_tool
from crossclaw.tools.contract import Tool, ToolContext


class ToolNotAvailable(NotFound):
    """There is no such tool, or not for this session: the answer is the same."""

    def __init__(self, tool: str) -> None:
        super().__init__(f"Tool not available: {tool}")


class Invoker:
    def __init__(self, tools: Mapping[str, Tool[Any]], resolver: Resolver, config: Config) -> None:
        self._tools = tools
        self._resolver = resolver
        self._config = config

    async def invoke(
        self, principal: Principal, name: str, arguments: dict[str, Any], session_key: str
    ) -> Any:
        tool = self._find(name)
        needed: Scope = "operator.read" if tool.effect == "pure" else "operator.write"
        if not principal.has(needed):
            raise Forbidden(f"missing scope: {needed}")
        handle = await self._resolver.resolve(principal, session_key, "send")
        hops = self._config.session.agent_to_agent.max_hops
        bound = handle.session.authority if handle.session else UNBOUND
        allowed = Authority(hops_left=hops).meet(bound)
        context = ToolContext(handle.key, confined(self._config.agents, handle.key, allowed))
        if not may_use_tool(self._config, handle.key, context.authority, name):
            raise ToolNotAvailable(name)
        return await tool.call(context, tool.read(arguments))

    def _find(self, name: str) -> Tool[Any]:
        denied = self._config.gateway.tools.deny
        tool = None if name in denied else self._tools.get(name)
        if tool is None:
            raise ToolNotAvailable(name)
        return tool
