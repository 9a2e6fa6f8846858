"""The watchdog: counts the times at which the event loop was blocked, because everybody waits then.

A turn of the loop is what happens between two polls of the sockets. One that takes longer than a tenth of a
second is a stall: `busy` when the processor was at work for all that time (something large was decoded),
otherwise `waiting` (a file that does not answer, or a machine with too little processor). It is measured at the
selector itself, so nothing wakes up for it while nothing happens.
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
TOLD_EVERY_S = 10.0  # at most; what comes between is counted


class Watchdog:
    def __init__(self) -> None:
        self.stalls: Counter[str] = Counter({"busy": 0, "waiting": 0})
        self.stalled_s = 0.0
        self.longest_s = 0.0
        self._began_s = self._busy_s = 0.0
        self._told_s = float("-inf")
        self._untold = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the current event loop until the block is left."""
        loop: Any = anyio.lowlevel.current_token().native_token
        selector = loop._selector
        select = selector.select
        selector.select = timed = self._timed(select)
        self._turn_begins()
        try:
            yield
        finally:
            if selector.select is timed:
                selector.select = select

    def _timed(self, select: Callable[..., Any]) -> Callable[..., Any]:
        def timed(timeout: float | None = None) -> Any:
            self._turn_ends()
            try:
                return select(timeout)
            finally:
                self._turn_begins()

        return timed

    def _turn_begins(self) -> None:
        self._began_s, self._busy_s = time.monotonic(), time.thread_time()

    def _turn_ends(self) -> None:
        took_s = time.monotonic() - self._began_s
        if took_s > STALL_S:
            self._count(took_s, time.thread_time() - self._busy_s)

    def _count(self, took_s: float, busy_s: float) -> None:
        self.stalls["busy" if busy_s > STALL_S else "waiting"] += 1
        self.stalled_s += took_s
        self.longest_s = max(self.longest_s, took_s)
        self._untold += 1
        if self._began_s - self._told_s < TOLD_EVERY_S:
            return
        log.warning(
            "everybody waited %.2f s for one thing to be done (%.2f s of it work); that happened %s times since the last line",
            took_s,
            busy_s,
            self._untold,
        )
        self._told_s, self._untold = self._began_s, 0
