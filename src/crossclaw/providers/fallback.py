"""Fallbacks: when the chosen model cannot answer, the next one in the list is asked.

A run that moved on stays there, so that one model writes its turns. A model that failed is not
asked for a while: later runs do not wait for it again.
"""

import logging
from collections.abc import Callable, Sequence

import anyio
import msgspec

from crossclaw.domain.errors import (
    ContextOverflow,
    ModelDeclined,
    ProviderError,
    ProviderOverloaded,
    ProviderRefused,
)
from crossclaw.domain.messages import AssistantMessage
from crossclaw.providers.adapting import without_thinking
from crossclaw.providers.contract import CallRestarted, ModelRequest, Provider, TellPiece

log = logging.getLogger(__name__)

REST_S = 60.0  # most outages are shorter; the first run after it looks whether it is over

Find = Callable[[str], tuple[Provider, str]]


class Choice(msgspec.Struct, frozen=True):
    address: str
    """The model, as `provider/model`."""
    output_tokens_max: int
    window: int = 0
    """The tokens that it reads and writes at once; 0 if unknown."""
    pictures: bool = True
    """Whether it can see pictures."""
    documents: bool = False
    """Whether it reads PDFs directly."""


Fit = Callable[[ModelRequest, Choice], ModelRequest]
"""Adapts a request to another model than the first, for this one answer."""


class ModelCooldowns:
    """Remembers until when models that failed are not asked, by address: as many as the config
    names."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def begin(self, address: str, error: ProviderError) -> None:
        asked_s = error.retry_after_s if isinstance(error, ProviderOverloaded) else None
        self._until[address] = anyio.current_time() + max(REST_S, asked_s or 0.0)

    def end(self, address: str) -> None:
        self._until.pop(address, None)

    def awake_first(self, choices: Sequence[Choice]) -> list[Choice]:
        """All choices, those that failed lately at the end: better late than not at all."""
        now_s = anyio.current_time()
        return sorted(choices, key=lambda choice: self._until.get(choice.address, 0.0) > now_s)


class Fallbacks:
    """A provider for one run, made of several."""

    def __init__(
        self,
        find: Find,
        choices: Sequence[Choice],
        rests: ModelCooldowns,
        fit: Fit = lambda request, choice: request,
    ) -> None:
        self.name = choices[0].address.partition("/")[0]
        self._find = find
        self._choices = choices
        self._rests = rests
        self._fit = fit
        self._order: list[Choice] = []

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self._order = self._order or self._rests.awake_first(self._choices)
        troubles: list[tuple[str, ProviderError]] = []
        while True:
            choice = self._order[0]
            try:
                return await self._ask(choice, request, tell)
            except ProviderError as error:
                if isinstance(error, ContextOverflow) and choice == self._choices[0]:
                    raise  # compaction can help; what a fallback cannot read is no reason for one
                troubles.append((choice.address, error))
                if not isinstance(error, ModelDeclined):  # it would answer others
                    self._rests.begin(choice.address, error)
                if len(self._order) == 1:
                    raise _all_failed(troubles) from error
                self._order = self._order[1:]
                self._move_on(choice, error, tell)

    async def close(self) -> None:
        """Does nothing: the providers belong to the gateway, not to a run."""

    async def _ask(
        self, choice: Choice, request: ModelRequest, tell: TellPiece
    ) -> AssistantMessage:
        provider, model = self._find(choice.address)
        asked = msgspec.structs.replace(
            request, model=model, output_tokens_max=choice.output_tokens_max
        )
        if choice != self._choices[0]:
            asked = self._fit(without_thinking(asked), choice)
        answer = await provider.complete(asked, tell)
        self._rests.end(choice.address)
        if answer.provider is None or answer.model is None:  # whose rules hold for its calls
            asked_of = choice.address.partition("/")[0]
            return msgspec.structs.replace(answer, provider=asked_of, model=model)
        return answer

    def _move_on(self, failed: Choice, error: ProviderError, tell: TellPiece) -> None:
        address = self._order[0].address
        log.warning("%s failed (%s): asking %s", failed.address, error.in_short, address)
        tell(CallRestarted(str(error), model=address))


def _all_failed(troubles: Sequence[tuple[str, ProviderError]]) -> ProviderError:
    """The error for several failures: of the type of the first that may pass with time, else of the
    first."""
    if len(troubles) == 1:
        return troubles[0][1]
    reasons = "; ".join(f"{address}: {error}" for address, error in troubles)
    text = f"none of {len(troubles)} models could answer: {reasons}"
    later = [error for _, error in troubles if isinstance(error, ProviderOverloaded)]
    if later:
        return ProviderOverloaded(text, later[0].retry_after_s)
    first = troubles[0][1]
    failed = type(first)(text)
    if isinstance(first, ProviderRefused) and isinstance(failed, ProviderRefused):
        failed.place, failed.part = first.place, first.part
    return failed
