"""The sweep: finds what a hint missed, fires timers, deletes what has expired."""

import logging
from collections.abc import Awaitable, Callable, Mapping

import anyio

from crossclaw.domain.aliases import Callback
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.events import FeedEvent, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import FAR_MS, PassTime, PruneDedupe, Timer

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 5.0  # a missed hint delays a run by this much at most
PAUSE_MIN_S = 0.05  # a clock that stands still must not become a busy loop
TIMERS_AT_ONCE = 100  # a page; the next follows soon
REST_FIRST_S, REST_MAX_S = 1.0, 300.0  # for a timer that failed: trying more often helps nobody
DEDUPE_KEPT_MS = 7 * 24 * 3600 * 1000  # clients retry for minutes; a week forgives a long outage
PRUNE_EVERY_MS = 3600 * 1000
LOOK_EVERY_S = 60.0  # how often it is written down that time has passed

Fire = Callable[[Timer], Awaitable[None]]


class Sweep:
    """Runs the sweep. `by_time`: kinds of timers that are due after a time has passed. No time
    passes when the clock is set ahead, nor while the gateway is not running."""

    def __init__(
        self,
        ledger: Ledger,
        wake: Callable[[SessionKey], None],
        clock: Clock,
        by_time: tuple[str, ...] = (),
    ) -> None:
        self._by_time = by_time
        self._looked_at: float | None = None
        """When time was last counted, by the event loop's clock, which nobody can set."""
        self._ledger = ledger
        self._wake = wake
        self._clock = clock
        self._pruned_at = 0
        self._hint = anyio.Event()
        self._resting: dict[str, tuple[float, float]] = {}
        """Timers that were fired: when each may fire again, and how long one that failed waits."""
        self._logged_kinds: set[str] = set()
        """Unknown kinds of timers that were already logged."""

    def wake(self) -> None:
        """Looks at once, since a timer may be due before the next look. Cheap, and never wrong to
        call."""
        self._hint.set()

    def waking(self, wake_outbox: Callback) -> Callable[[FeedEvent], None]:
        """A listener for ends of runs: what they may leave to be sent or to be archived is looked for at once."""

        def on_event(event: FeedEvent) -> None:
            if not isinstance(event, RunEnded):
                return
            plan = event.run.plan
            may_reply = plan.reply_to is not None or event.run.kind == "command"
            if may_reply or plan.exchange_id is not None or plan.spawned:
                wake_outbox()
            if plan.spawned:
                self.wake()  # a child may have to be archived at once

        return on_event

    async def serve(self, fires: Mapping[str, Fire]) -> None:
        """Runs the sweep for ever. `fires`: what is done with the timers of each kind. Those of any
        other kind (a newer release set them, or a part that is gone) are left alone."""
        while True:
            pause_s = SWEEP_EVERY_S
            try:
                await self.once(fires)
                pause_s = await self._pause_s(list(fires))
            except CrossclawError as error:
                log.warning("the sweep will try again: %s", error)
            with anyio.move_on_after(pause_s):
                await self._hint.wait()
            self._hint = anyio.Event()

    async def once(self, fires: Mapping[str, Fire]) -> None:
        if self._ledger.gateways is None:  # among several each looks for itself (`lease.py`)
            for key in await self._ledger.lanes_with_work():
                self._wake(key)
        due = await self._due(list(fires))
        if await self._pass_time(due):
            due = await self._due(list(fires))
        for timer in due:
            await self._fire(timer, fires[timer.kind])
        now = self._clock.now_ms()
        if now - self._pruned_at >= PRUNE_EVERY_MS:
            self._pruned_at = now
            await self._ledger.do(PruneDedupe(before=now - DEDUPE_KEPT_MS))
            await self._tell_of_unknown(fires)

    async def _pass_time(self, due: list[Timer]) -> bool:
        """Counts the time that has passed: at the start, every minute, and before anything happens
        because of it."""
        now_s, before_s = anyio.current_time(), self._looked_at
        is_due = any(timer.kind in self._by_time for timer in due)
        if not self._by_time or not (
            is_due or before_s is None or now_s - before_s >= LOOK_EVERY_S
        ):
            return False
        elapsed_ms = 0 if before_s is None else round((now_s - before_s) * 1000)
        at = self._clock.now_ms()
        moved = await self._ledger.do(PassTime(at=at, elapsed_ms=elapsed_ms, kinds=self._by_time))
        self._looked_at = now_s
        if moved:
            log.warning(
                "the clock says %d s more than have passed here; what waits for a time waits on",
                moved // 1000,
            )
        return bool(moved)

    async def _due(self, kinds: list[str]) -> list[Timer]:
        now, limit = self._clock.now_ms(), TIMERS_AT_ONCE + len(self._resting)
        due = await self._ledger.list_timers(due_before=now, limit=limit, kinds=kinds)
        there = {timer.timer_key for timer in due}
        self._resting = {key: rest for key, rest in self._resting.items() if key in there}
        return [timer for timer in due if not self._rests(timer)]

    def _rests(self, timer: Timer) -> bool:
        until, _ = self._resting.get(timer.timer_key, (0.0, 0.0))
        return until > anyio.current_time()

    async def _fire(self, timer: Timer, fire: Fire) -> None:
        """Fires a timer. If it fails, the others still fire."""
        try:
            await fire(timer)
        except Exception as error:
            _, before_s = self._resting.get(timer.timer_key, (0.0, 0.0))
            rest_s = min(max(REST_FIRST_S, before_s * 2), REST_MAX_S)
            self._resting[timer.timer_key] = (anyio.current_time() + rest_s, rest_s)
            log.warning(
                "timer %s failed and is tried again in %g s: %s",
                timer.timer_key,
                rest_s,
                error,
                exc_info=None if isinstance(error, CrossclawError | OSError) else error,
            )
        else:  # it is taken or set anew by now; should it not be, it must not become a busy loop
            self._resting[timer.timer_key] = (anyio.current_time() + REST_FIRST_S, 0.0)

    async def _tell_of_unknown(self, fires: Mapping[str, Fire]) -> None:
        for kind, count in (await self._ledger.count_timers()).items():
            if kind not in fires and kind not in self._logged_kinds:
                self._logged_kinds.add(kind)
                log.warning(
                    "%d timers of kind %s are put aside: this version does not know what they are for",
                    count,
                    kind,
                )

    async def _pause_s(self, kinds: list[str]) -> float:
        limit = 1 + len(self._resting)
        coming = await self._ledger.list_timers(due_before=FAR_MS, limit=limit, kinds=kinds)
        due_at = [timer.due_at for timer in coming if not self._rests(timer)][:1]
        moments = [(each - self._clock.now_ms()) / 1000 for each in due_at]
        moments += [until - anyio.current_time() for until, _ in self._resting.values()]
        return min(SWEEP_EVERY_S, max(PAUSE_MIN_S, min(moments, default=SWEEP_EVERY_S)))
