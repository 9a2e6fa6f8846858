"""Retries: repeats a call that failed for a temporary reason, a few times, later each time.

Three limits prevent a storm: attempts and time for one call, and a budget for all calls to a
provider together, so that an outage is met with a fifth more calls and not with four times as many.
"""

import logging
import random
from collections.abc import Callable

import anyio
import msgspec

from crossclaw.domain.errors import ProviderError, ProviderOverloaded, RateLimited
from crossclaw.domain.messages import AssistantMessage
from crossclaw.providers.contract import (
    CallRestarted,
    LostSpending,
    ModelPiece,
    ModelRequest,
    Provider,
    TellPiece,
)

log = logging.getLogger(__name__)


class RetryLimits(msgspec.Struct, frozen=True):
    """How long one call is retried."""

    attempts_max: int = 4
    wait_first_s: float = 1.0
    wait_s_max: float = 30.0
    """The longest wait, also if the service asks for more: then the error is reported at once."""
    time_s_max: float = 120.0
    """The longest time from the first attempt to the beginning of the last; a run has ten minutes
    by default."""


PATIENT_S = 300.0
"""The longest pause that a service may ask for, if nobody waits at a screen: a run has ten minutes
by default, and another attempt should still fit."""


class RetryBudget:
    """The budget for retries of all calls to one provider."""

    share = 0.2  # each call pays in so much: in a long outage there are 1.2 attempts a call
    held_max = 64.0  # one retry for every call under way when a line drops
    a_second = 0.5  # somebody alone gets retries again after a while

    def __init__(self) -> None:
        self._held = self.held_max
        self._at: float | None = None

    def pay(self) -> None:
        self._held = min(self.held_max, self._held + self.share)

    def take(self, now_s: float) -> bool:
        passed_s = now_s - self._at if self._at is not None else 0.0
        self._at = now_s
        self._held = min(self.held_max, self._held + passed_s * self.a_second)
        if self._held < 1:
            return False
        self._held -= 1
        return True


class Retrying:
    def __init__(
        self,
        provider: Provider,
        patience: RetryLimits | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._patience = patience or RetryLimits()
        self._jitter = jitter
        self._budget = RetryBudget()

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        began_s = anyio.current_time()
        self._budget.pay()
        attempt = 0
        while True:
            attempt += 1
            watcher = _PieceWatcher(tell)
            try:
                return await self._provider.complete(request, watcher)
            except ProviderError as error:
                patience = _patience(self._patience, request, error)
                wait_s = self._wait_s(patience, error, attempt, began_s, spoke=watcher.spoke)
                log.warning(
                    "%s: attempt %d failed (%s), again in %.1f s",
                    self.name, attempt, error.in_short, wait_s,
                )  # fmt: skip
                tell(CallRestarted(str(error), wait_s))
            await anyio.sleep(wait_s)

    async def close(self) -> None:
        await self._provider.close()

    def _wait_s(
        self,
        patience: RetryLimits,
        error: ProviderError,
        attempt: int,
        began_s: float,
        *,
        spoke: bool,
    ) -> float:
        """How long to wait; raises the error if waiting does not help or would take too long."""
        now_s = anyio.current_time()
        if not _passes(error, spoke=spoke) or attempt >= patience.attempts_max:
            raise error
        wait_s = self._service_wait_s(error) or self._own_s(attempt)
        over_time = now_s + wait_s - began_s > patience.time_s_max
        if wait_s > patience.wait_s_max or over_time or not self._budget.take(now_s):
            raise error
        return wait_s

    def _service_wait_s(self, error: ProviderError) -> float | None:
        """The wait that the service asks for and a little more, so that not all callers return at
        the same moment."""
        asked_s = error.retry_after_s if isinstance(error, ProviderOverloaded) else None
        return asked_s + self._jitter() * min(asked_s / 4, 1.0) if asked_s else None

    def _own_s(self, attempt: int) -> float:
        longest_s: float = min(
            self._patience.wait_first_s * 2 ** (attempt - 1), self._patience.wait_s_max
        )
        return longest_s * (0.5 + self._jitter() / 2)


class _PieceWatcher:
    """Hands on a call's pieces, and knows whether the model has said anything."""

    def __init__(self, tell: TellPiece) -> None:
        self._tell = tell
        self.spoke = False

    def __call__(self, piece: ModelPiece) -> None:
        self.spoke = self.spoke or not isinstance(piece, LostSpending)
        self._tell(piece)


def _patience(usual: RetryLimits, request: ModelRequest, error: ProviderError) -> RetryLimits:
    """The limits for this error. A rate limit that says when it ends is waited out, if nobody waits
    at a screen."""
    if not request.patient or not isinstance(error, RateLimited) or not error.retry_after_s:
        return usual
    longest_s = max(PATIENT_S, usual.wait_s_max)
    time_s = max(usual.time_s_max, longest_s * 1.5)
    return msgspec.structs.replace(usual, wait_s_max=longest_s, time_s_max=time_s)


def _passes(error: ProviderError, *, spoke: bool) -> bool:
    """Whether an error may pass. Overload and lost connections do. A service with another API does
    not, but one that has just answered properly was garbled on the way."""
    return isinstance(error, ProviderOverloaded) or (spoke and type(error) is ProviderError)
