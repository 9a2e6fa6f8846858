"""A mind: what a run thinks with. Model, system prompt and tools, chosen anew for each run."""

from collections.abc import Callable
from typing import Protocol, get_args

import msgspec

from crossclaw.agent.prompt import system_prompt
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Session
from crossclaw.providers.contract import Provider
from crossclaw.tools.toolset import Toolset, Toolsets

OUTPUT_TOKENS_MAX = 8_192  # where the model's own limit is not known


class Mind(msgspec.Struct, frozen=True):
    provider: Provider
    model: str
    system: str
    tools: Toolset
    thinking: ThinkingLevel = "off"
    output_tokens_max: int = OUTPUT_TOKENS_MAX


class FindProvider(Protocol):
    def get(self, ref: str) -> tuple[Provider, str]: ...


class Minds:
    """`model_of` answers the configured model of an agent as `provider/model`."""

    def __init__(
        self,
        providers: FindProvider,
        toolsets: Toolsets,
        model_of: Callable[[str], str],
        output_tokens_of: Callable[[str], int | None],
    ) -> None:
        self._providers = providers
        self._toolsets = toolsets
        self._model_of = model_of
        self._output_tokens_of = output_tokens_of

    async def choose(self, run: Run, session: Session | None) -> Mind:
        chosen = run.plan.model or (session and session.model) or self._model_of(run.key.agent_id)
        provider, model = self._providers.get(chosen)
        allowed = await self._toolsets.of(run.key, run.authority, chosen)
        return Mind(
            provider,
            model,
            system_prompt(run, allowed),
            allowed,
            _thinking(run.plan.thinking or (session.thinking if session else None)),
            self._output_tokens_of(chosen) or OUTPUT_TOKENS_MAX,
        )


def _thinking(level: str | None) -> ThinkingLevel:
    return level if level in get_args(ThinkingLevel) else "off"  # type: ignore[return-value]
