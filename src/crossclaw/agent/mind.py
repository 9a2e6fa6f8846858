"""A mind: what a run thinks with. Model, system prompt and tools, chosen anew for each run."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, get_args

import msgspec

from crossclaw.agent.prompt import Prompts
from crossclaw.agent.view import Thinker
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Session
from crossclaw.providers.contract import Provider
from crossclaw.tools.contract import Tool

OUTPUT_TOKENS_MAX = 8_192  # where the model's own limit is not known


class Mind(msgspec.Struct, frozen=True):
    provider: Provider
    model: str
    prompt: Callable[[], str]
    """The system prompt, made anew for each request."""
    tools: Mapping[str, Tool[Any]]
    thinking: ThinkingLevel = "off"
    output_tokens_max: int = OUTPUT_TOKENS_MAX
    window: int = 200_000
    """Tokens that the model can read and write at once."""

    @property
    def thinker(self) -> Thinker:
        return Thinker(self.provider.name, self.model)


class FindProvider(Protocol):
    def get(self, ref: str) -> tuple[Provider, str]: ...


class Minds:
    """`model_of` answers the configured model of an agent as `provider/model`; `window_of` how much of
    a model's window an agent may fill."""

    def __init__(
        self,
        providers: FindProvider,
        tools: Mapping[str, Tool[Any]],
        prompts: Prompts,
        model_of: Callable[[str], str],
        output_tokens_of: Callable[[str], int | None],
        window_of: Callable[[str, str], int],
    ) -> None:
        self._providers = providers
        self._tools = tools
        self._prompts = prompts
        self._model_of = model_of
        self._output_tokens_of = output_tokens_of
        self._window_of = window_of

    def choose(self, run: Run, session: Session | None) -> Mind:
        chosen = run.plan.model or (session and session.model) or self._model_of(run.key.agent_id)
        provider, model = self._providers.get(chosen)
        allowed = {
            name: tool for name, tool in self._tools.items() if run.authority.allows_tool(name)
        }
        return Mind(
            provider,
            model,
            partial(self._prompts.system, run, session, allowed),
            allowed,
            _thinking(run.plan.thinking or (session.thinking if session else None)),
            self._output_tokens_of(chosen) or OUTPUT_TOKENS_MAX,
            self._window_of(run.key.agent_id, chosen),
        )


def _thinking(level: str | None) -> ThinkingLevel:
    return level if level in get_args(ThinkingLevel) else "off"  # type: ignore[return-value]
