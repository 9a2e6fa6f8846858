"""Adapting: repeats a request with another thinking level, if the model refuses the one it was
asked for.

What was learned is remembered for as long as the gateway runs: a level that a model does not know
is tried once. Thinking that the service does not take back is left out, of this request only.
"""

import logging

import msgspec

from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.errors import LevelRefused, ThinkingRefused
from crossclaw.domain.messages import AssistantMessage, without_state
from crossclaw.domain.models import LEVELS
from crossclaw.providers.contract import (
    AssistantTurn,
    CallRestarted,
    ModelRequest,
    Provider,
    TellPiece,
    Turn,
)

log = logging.getLogger(__name__)


class Adapting:
    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self._provider = provider
        self._levels: dict[tuple[str, ThinkingLevel], ThinkingLevel] = {}
        """The level that is used in place of one that a model refused: as many as there are
        models."""

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        first = self._levels.get((request.model, request.thinking), request.thinking)
        *others, last = _steps(first)
        for level in others:
            try:
                return await self._ask_so(request, level, tell)
            except LevelRefused as error:
                log.warning("%s: %s refuses to think %s", self.name, request.model, level)
                tell(CallRestarted(str(error)))
        return await self._ask_so(request, last, tell)

    async def close(self) -> None:
        await self._provider.close()

    async def _ask_so(
        self, request: ModelRequest, level: ThinkingLevel, tell: TellPiece
    ) -> AssistantMessage:
        answer = await self._ask(msgspec.structs.replace(request, thinking=level), tell)
        if level != request.thinking:
            self._levels[request.model, request.thinking] = level
        return answer

    async def _ask(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        try:
            return await self._provider.complete(request, tell)
        except ThinkingRefused as error:
            bare = without_thinking(request)
            if bare == request:
                raise
            log.warning("%s: %s does not take its thinking back", self.name, request.model)
            tell(CallRestarted(str(error)))
        return await self._provider.complete(bare, tell)


def without_thinking(request: ModelRequest) -> ModelRequest:
    """The request without anything that only its model could read."""
    turns: list[Turn] = [
        AssistantTurn(without_state(turn.content)) if isinstance(turn, AssistantTurn) else turn
        for turn in request.turns
    ]
    return msgspec.structs.replace(request, turns=turns)


def _steps(level: ThinkingLevel) -> tuple[ThinkingLevel, ...]:
    """The levels to try: this one, the next lower one, then no thinking at all. If not thinking is
    refused, a little of it."""
    if level == "off":
        return ("off", "low")
    lower = LEVELS[LEVELS.index(level) - 1]
    return (level, "off") if lower == "off" else (level, lower, "off")
