"""The sweep: finds what a hint missed, fires timers, throws away what has served its time."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import PruneDedupe, Timer

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 5.0  # a missed hint delays a run by this much at most
PAUSE_MIN_S = 0.05  # a timer that cannot be fired must not become a busy loop
TIMERS_AT_ONCE = 100  # a page; the next follows soon
DEDUPE_KEPT_MS = 7 * 24 * 3600 * 1000  # clients retry for minutes; a week forgives a long outage
PRUNE_EVERY_MS = 3600 * 1000

Fire = Callable[[Timer], Awaitable[None]]


class Sweep:
    def __init__(self, ledger: Ledger, wake: Callable[[SessionKey], None], clock: Clock) -> None:
        self._ledger = ledger
        self._wake = wake
        self._clock = clock
        self._pruned_at = 0
        self._hint = anyio.Event()

    def wake(self) -> None:
        """A timer may be due sooner than the next look. Cheap, and never wrong to call."""
        self._hint.set()

    async def serve(self, fire: Fire) -> None:
        while True:
            try:
                await self.once(fire)
            except CrossclawError as error:
                log.warning("the sweep will try again: %s", error)
            with anyio.move_on_after(await self._pause_s()):
                await self._hint.wait()
            self._hint = anyio.Event()

    async def once(self, fire: Fire) -> None:
        for key in await self._ledger.lanes_with_work():
            self._wake(key)
        now = self._clock.now_ms()
        for timer in await self._ledger.list_timers(due_before=now, limit=TIMERS_AT_ONCE):
            await fire(timer)
        await self._prune()

    async def _prune(self) -> None:
        now = self._clock.now_ms()
        if now - self._pruned_at >= PRUNE_EVERY_MS:
            self._pruned_at = now
            await self._ledger.do(PruneDedupe(before=now - DEDUPE_KEPT_MS))

    async def _pause_s(self) -> float:
        due_at = await self._ledger.next_timer_at()
        if due_at is None:
            return SWEEP_EVERY_S
        return min(SWEEP_EVERY_S, max(PAUSE_MIN_S, (due_at - self._clock.now_ms()) / 1000))
