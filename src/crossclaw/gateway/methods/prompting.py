"""agents.prompt: exactly what a model gets before the first message. An addition of ours."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import MAIN, SessionKey
from crossclaw.domain.models import BYTES_A_TOKEN
from crossclaw.domain.runs import Cause, Run, RunPlan
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.tools.contract import Tool

SystemOf = Callable[[Run, Mapping[str, Tool[Any]]], Awaitable[str]]
"""The system prompt of a run with these tools."""
ToolsOf = Callable[[SessionKey, Authority, str], Awaitable[Mapping[str, Tool[Any]]]]
"""The tools of a session's run with this model."""


async def _no_tools_yet(
    _key: SessionKey, _authority: Authority, _model: str
) -> Mapping[str, Tool[Any]]:
    raise AssertionError("asked before the gateway serves")


class PromptParams(Params, frozen=True):
    agent_id: str | None = None
    session_key: str | None = None
    """The session it is made for; by default the agent's main one."""


class PromptTool(Result, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    tokens: int


class PromptResult(Result, frozen=True):
    agent_id: str
    session_key: str
    model: str
    system: str
    tools: list[PromptTool]
    system_tokens: int
    tool_tokens: int
    total_tokens: int


class Prompting:
    def __init__(
        self,
        config: Config,
        system_of: SystemOf,
        model_of: Callable[[str], str],
    ) -> None:
        self._config = config
        self._system_of = system_of
        self._tools_of: ToolsOf = _no_tools_yet
        self._model_of = model_of

    def begin(self, tools_of: ToolsOf) -> None:
        """Takes who knows the tools, once there are any: those of sessions are made of the door, which has this method too."""
        self._tools_of = tools_of

    @method(
        "agents.prompt",
        "operator.admin",
        "read",
        "The system prompt and the tools of an agent, as its model gets them, with their size in tokens (estimated). Ours, not OpenClaw's.",
    )
    async def prompt(self, caller: Caller, params: PromptParams) -> PromptResult:
        key = self._key(params)
        authority = Authority(owner=True)
        model = self._model_of(key.agent_id)
        found = await self._tools_of(key, authority, model)
        allowed = found if self._config.takes_tools(model) else {}
        system = await self._system_of(_run_in(key, authority), allowed)
        return _counted(key, model, system, [_shown(tool) for tool in allowed.values()])

    def _key(self, params: PromptParams) -> SessionKey:
        agents = self._config.agents
        named = params.agent_id or agents.default_id
        written = params.session_key or MAIN
        key = SessionKey.parse(written, agent_id=agents.get(named).id)
        if params.agent_id is not None and agents.get(named).id != key.agent_id:
            raise Invalid(f"session {key} belongs to the agent {key.agent_id}, not to {named}")
        meant = self._config.meant_key(key)
        # The default agent answers in the session that all share; another one is only asked in its own.
        return meant if meant.agent_id == agents.get(key.agent_id).id else key


def _shown(tool: Tool[Any]) -> PromptTool:
    return PromptTool(
        name=tool.name,
        description=tool.spec.description,
        schema=tool.spec.schema,
        tokens=len(msgspec.json.encode(tool.spec)) // BYTES_A_TOKEN,
    )


def _counted(key: SessionKey, model: str, system: str, tools: list[PromptTool]) -> PromptResult:
    """The result, with the size of the prompt and of the tools."""
    counted = len(system.encode()) // BYTES_A_TOKEN
    of_tools = sum(tool.tokens for tool in tools)
    return PromptResult(
        agent_id=key.agent_id,
        session_key=key.shown,
        model=model,
        system=system,
        tools=tools,
        system_tokens=counted,
        tool_tokens=of_tools,
        total_tokens=counted + of_tools,
    )


def _run_in(key: SessionKey, authority: Authority) -> Run:
    """A run that is never carried out: the prompt depends on nothing else of it."""
    return Run(
        run_id="",
        key=key,
        session_id="",
        kind="chat",
        status="queued",
        attempt=0,
        epoch=0,
        plan=RunPlan(),
        authority=authority,
        cause=Cause(),
        created_at=0,
    )
