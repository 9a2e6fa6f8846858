"""Toolsets: the tools that one run gets, and the reason why it does not get the others."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from crossclaw.config.current import CurrentConfig
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.tools import ToolDeclaration, mcp_declaration, require_declared
from crossclaw.policy.decision import Decision
from crossclaw.policy.subagents import NO_SPAWN, child_layers
from crossclaw.policy.tools import Layer, decide_tool, delegator_layers, may_allow_any, tool_layers
from crossclaw.providers.contract import ToolSpec
from crossclaw.sessions.channel_rules import chat_tool_layers
from crossclaw.tools.approving import ApprovalGate
from crossclaw.tools.contract import Tool
from crossclaw.tools.mcp_servers import McpServers
from crossclaw.tools.mcp_tool import SEPARATOR

CHOICES_MAX = 1_024  # remembered: agents, models and authorities in use are far fewer

IsSandboxed = Callable[[SessionKey, Authority], Decision]


Against = Callable[[str], str | None]
"""Why a tool that nobody has seen is not allowed, by its name alone."""
Since = Callable[[ToolDeclaration], str | None]
"""Why a tool is no longer allowed since it was offered."""


ForModel = Callable[[str, ToolDeclaration], str | None]
"""Why a tool is not allowed when a certain model, `provider/model`, asks for it."""


def _nothing(*_arguments: object) -> None:
    return None


class Toolset(Mapping[str, Tool[Any]]):
    def __init__(
        self,
        offered: Mapping[str, Tool[Any]],
        refused: Mapping[str, str],
        against: Against = _nothing,
        since: Since = _nothing,
        for_model: ForModel = _nothing,
        specs: Sequence[ToolSpec] | None = None,
    ) -> None:
        self._offered = offered
        self.names = offered.keys()
        self.specs = [tool.spec for tool in offered.values()] if specs is None else specs
        """The tools' specifications for the model."""
        self._refused = refused
        self._against = against
        self._since = since
        self._for_model = for_model

    def __getitem__(self, name: str) -> Tool[Any]:
        return self._offered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offered)

    def __len__(self) -> int:
        return len(self._offered)

    def joined(self, others: "Toolset") -> "Toolset":
        """The tools of both; a name that both have is this one's."""
        return Toolset(
            {**others._offered, **self._offered},
            {**others._refused, **self._refused},
            others._against,
            self._since,
            self._for_model,
        )

    def asking(self, against: Against) -> "Toolset":
        return Toolset(
            self._offered, self._refused, against, self._since, self._for_model, self.specs
        )

    def watching(self, since: Since, for_model: ForModel) -> "Toolset":
        """A toolset with checks for tools that have been denied after they were offered, and for those that
        another model than the chosen one may not call."""
        return Toolset(self._offered, self._refused, self._against, since, for_model, self.specs)

    def for_calls_of(self, model: str) -> "Toolset":
        """A toolset for calls of a model that answers in place of the chosen one: both must be allowed a tool.
        `model` is `provider/model`."""

        def since(tool: ToolDeclaration) -> str | None:
            return self._since(tool) or self._for_model(model, tool)

        return Toolset(
            self._offered, self._refused, self._against, since, self._for_model, self.specs
        )

    def is_taken_away(self, name: str) -> bool:
        """Whether the rules have changed since, and deny this tool now."""
        return self._why_taken_away(name) is not None

    def _why_taken_away(self, name: str) -> str | None:
        offered = self._offered.get(name)
        return None if offered is None else self._since(offered.declared)

    def why_not(self, name: str) -> str:
        there_are = f"there are: {', '.join(self) or 'none'}"
        reason = self._refused.get(name) or self._why_taken_away(name) or self._against(name)
        if reason is not None:
            return f"the tool {name!r} is not available here: {reason}; {there_are}"
        return f"there is no tool {name!r}; {there_are}"


class ToolsetKey(NamedTuple):
    """Everything that the choice of tools depends on."""

    agent_id: str
    model: str
    sandboxed: bool
    child: bool
    given: Authority
    epoch: int
    """The epoch of the rules: a choice holds as long as they do."""


class Toolsets:
    """All tools, and the policy over them."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        config: CurrentConfig,
        is_sandboxed: IsSandboxed,
        servers: McpServers,
        gate: ApprovalGate,
    ) -> None:
        self.gate = gate
        """The check that every call goes through, whoever makes it."""
        self.known = _loaded(tools)
        self._config = config
        # What is decided by the rules alone holds as long as they do. The agent is asked for beside the key: two
        # keys are equal by their texts, and that of a job, a hook or a node does not name its agent.
        self._is_sandboxed = lru_cache(CHOICES_MAX)(
            lambda key, _agent_id, authority, _epoch: is_sandboxed(key, authority)
        )
        self._servers = servers
        self._chosen = lru_cache(CHOICES_MAX)(self._choose)

    async def of(self, key: SessionKey, authority: Authority, model: str) -> Toolset:
        """The tools of a session's run. `model` is `provider/model`: some settings are for one of them only."""
        case = self._case(key, authority, model)
        given, (layers, chosen) = case.given, self._chosen(case)
        chosen = chosen.watching(
            partial(self._since, case.epoch, key, authority, model),
            partial(self._now, key, authority),
        )
        if not self._servers.are_there:
            return chosen
        borrowed = await self._servers.tools(lambda begins: may_allow_any(begins, layers, given))
        theirs = _decided({tool.name: tool for tool in borrowed}, layers, given)
        return chosen.joined(theirs.asking(partial(_against, layers, given)))

    def _case(self, key: SessionKey, authority: Authority, model: str) -> ToolsetKey:
        given = Authority(
            tools=authority.tools,
            denied_tools=authority.denied_tools,
            may_spawn=authority.may_spawn,
            arms=authority.arms,
            chats=authority.chats,
        )
        agent_id, epoch = key.agent_id, self._config.epoch
        sandboxed = self._is_sandboxed(key, agent_id, authority, epoch).allowed
        return ToolsetKey(agent_id, model, sandboxed, key.is_subagent, given, epoch)

    def _since(
        self, epoch: int, key: SessionKey, authority: Authority, model: str, tool: ToolDeclaration
    ) -> str | None:
        """Why a tool is denied now, if the rules have changed since it was offered."""
        if epoch == self._config.epoch:
            return None
        return self._now(key, authority, model, tool)

    def _now(
        self, key: SessionKey, authority: Authority, model: str, tool: ToolDeclaration
    ) -> str | None:
        case = self._case(key, authority, model)
        decision = decide_tool(tool, self._chosen(case)[0], case.given)
        return None if decision.allowed else decision.reason

    def _choose(self, case: ToolsetKey) -> tuple[tuple[Layer, ...], Toolset]:
        """Chooses the tools. Whoever writes into a child's session does not make it more than a child: that
        is decided by its key, and not only by what the run was given."""
        layers = tool_layers(
            self._config, case.agent_id, model=case.model, sandboxed=case.sandboxed
        )
        for delegator in sorted(case.given.arms, key=lambda each: (each.agent_id, each.model)):
            layers += delegator_layers(self._config, delegator)
        for place in sorted(case.given.chats, key=repr):
            layers += chat_tool_layers(self._config, place)
        if case.child:
            layers += child_layers(self._config.tools.subagents)
        elif not case.given.may_spawn:
            layers += (NO_SPAWN,)
        there = {name: tool for name, tool in self.known.items() if tool.is_there}
        return layers, _decided(there, layers, case.given)


def _against(layers: Sequence[Layer], given: Authority, name: str) -> str | None:
    """Why a tool with this name is not allowed. A server that is not wanted is not started, so its tools'
    names are not known. The answer is by the form of the name: it does not tell whether there is such a tool."""
    decision = decide_tool(mcp_declaration(name), layers, given)
    return decision.reason if SEPARATOR in name and not decision.allowed else None


def _loaded(tools: Iterable[Tool[Any]]) -> dict[str, Tool[Any]]:
    """The tools by name. One without a declaration would be open to everybody: it is not loaded."""
    given = tuple(tools)
    for tool in given:
        require_declared(type(tool).__name__, getattr(tool, "declared", None))
    return {tool.name: tool for tool in given}


def _decided(tools: Mapping[str, Tool[Any]], layers: Sequence[Layer], given: Authority) -> Toolset:
    found = {name: decide_tool(tool.declared, layers, given) for name, tool in tools.items()}
    return Toolset(
        {name: tool for name, tool in tools.items() if found[name].allowed},
        {name: each.reason for name, each in found.items() if not each.allowed},
    )
