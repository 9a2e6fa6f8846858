"""The watchdog: counts the times at which the event loop was blocked, because everybody waits then.

A turn of the loop is what happens between two polls of the sockets. One that takes longer than a tenth of a
second is a stall: `busy` when the processor was at work for all that time (something large was decoded),
otherwise `waiting` (a file that does not answer, or a machine with too little processor). It is measured at the
selector itself, so nothing wakes up for it while nothing happens. The processor time of the thread costs a system
call, so it is read every hundredth of a second at most: `busy` may be wrong by that much.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio.lowlevel

log = logging.getLogger(__name__)

STALL_S = 0.1
READ_EVERY_S = 0.01  # a tenth of a stall is near enough
LOG_EVERY_S = 10.0  # at most; what comes between is counted


class Watchdog:
    def __init__(self) -> None:
        self.stalls: Counter[str] = Counter({"busy": 0, "waiting": 0})
        self.stalled_s = 0.0
        self.longest_s = 0.0
        self._began_s = 0.0
        self._read_s = float("-inf")
        """When the processor time was read, which was then `_used_s`."""
        self._used_s = 0.0
        self._logged_s = float("-inf")
        self._unlogged = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the current event loop until the block is left."""
        loop: Any = anyio.lowlevel.current_token().native_token
        selector = loop._selector
        timed = selector.select
        if not isinstance(timed, _TimedSelect):
            selector.select = timed = _TimedSelect(timed)
        timed.watchdogs.append(self)
        self.turn_begins()
        try:
            yield
        finally:
            timed.watchdogs.remove(self)
            if not timed.watchdogs and selector.select is timed:
                selector.select = timed.select

    def turn_begins(self) -> None:
        self._began_s = now_s = time.monotonic()
        if now_s - self._read_s >= READ_EVERY_S:
            self._read_s, self._used_s = now_s, time.thread_time()

    def turn_ends(self) -> None:
        took_s = time.monotonic() - self._began_s
        if took_s > STALL_S:
            self._count(took_s, min(time.thread_time() - self._used_s, took_s))

    def _count(self, took_s: float, busy_s: float) -> None:
        self.stalls["busy" if busy_s > STALL_S else "waiting"] += 1
        self.stalled_s += took_s
        self.longest_s = max(self.longest_s, took_s)
        self._unlogged += 1
        if self._began_s - self._logged_s < LOG_EVERY_S:
            return
        log.warning(
            "the event loop was blocked for %.2f s (%.2f s of it work): no client got an answer meanwhile; times since the last such line: %s",
            took_s,
            busy_s,
            self._unlogged,
        )
        self._logged_s, self._unlogged = self._began_s, 0


class _TimedSelect:
    """The `select` of a loop's selector while watchdogs watch it: one for all of them, so that each
    may leave when it likes."""

    def __init__(self, select: Callable[..., Any]) -> None:
        self.select = select
        self.watchdogs: list[Watchdog] = []

    def __call__(self, timeout: float | None = None) -> Any:
        for each in self.watchdogs:
            each.turn_ends()
        try:
            return self.select(timeout)
        finally:
            for each in self.watchdogs:
                each.turn_begins()
