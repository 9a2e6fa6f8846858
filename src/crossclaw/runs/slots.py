"""Slots: how many runs may be under way at once. A run that waits gives its slot back."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import anyio

# Every run under way holds a task, its view of the history and an open model call: some 100 kB.
# Four thousand of them fit a small machine; the rest wait in their lanes, which are on disk.
RUNS_AT_ONCE_MAX = 4_000


class _Holder:
    """A holder of a slot, and its state.

    queued   in the queue for a slot, once; whoever needs the slot waits for `turn`
    holding  has a slot
    away     has none and wants none: it waits for others, or was stopped while it did
    """

    __slots__ = ("state", "turn", "waits")

    def __init__(self) -> None:
        self.state: Literal["queued", "holding", "away"] = "away"
        self.waits = 0
        """How many waits for others it has at the same time."""
        self.turn = anyio.Event()


class Slots:
    def __init__(self, total: int | None = None) -> None:
        self._free = min(total or RUNS_AT_ONCE_MAX, RUNS_AT_ONCE_MAX)
        self._taken = 0
        self._holders: dict[object, _Holder] = {}
        self._queue: deque[_Holder] = deque()
        self._closed = False

    def close(self) -> None:
        """Gives no new slots from now on; holders, and those who wait for others, go on."""
        self._closed = True

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def free(self) -> int:
        """How many runs could begin at once."""
        return 0 if self._closed else self._free

    @asynccontextmanager
    async def hold(self, holder: object) -> AsyncGenerator[None]:
        here = self._holders[holder] = _Holder()
        try:
            await self._come(here)
            if self._closed:
                self.give(holder)
                await anyio.sleep_forever()
            yield
        finally:
            self.give(holder)

    def take_free(self, holder: object) -> bool:
        """Takes a slot at once, if one is free and nobody waits for it. Give it back with
        `give`."""
        if (
            self._closed or not self._free
        ):  # a slot that somebody waits for is handed over, so it is never free
            return False
        here = self._holders[holder] = _Holder()
        self._enter(here)
        return True

    def give(self, holder: object) -> None:
        """Removes a holder, whatever its state."""
        if (here := self._holders.pop(holder, None)) is not None:
            self._leave(here)

    @asynccontextmanager
    async def given_back(self, holder: object) -> AsyncGenerator[None]:
        """A context in which `holder` waits for others, who may use its slot; afterwards it queues
        for one, also if the wait has failed. Of several waits at the same time the first gives the
        slot back and the last takes one. A holder that is stopped while it waits leaves without
        one. For who holds no slot it does nothing."""
        here = self._holders.get(holder)
        if here is None:
            yield
            return
        self._begin_wait(here)
        try:
            yield
        except Exception:
            await self._end_wait(holder, here)
            raise
        except BaseException:
            here.waits -= 1
            raise
        await self._end_wait(holder, here)

    # ── how a holder moves ─────────────────────────────────────────────────────────────────────

    def _begin_wait(self, here: _Holder) -> None:
        here.waits += 1
        # One that queues to come back is let go on: this wait is over later and takes the slot then.
        self._leave(here)

    async def _end_wait(self, holder: object, here: _Holder) -> None:
        here.waits -= 1
        if here.waits or self._holders.get(holder) is not here:
            return
        await self._come(here)

    async def _come(self, here: _Holder) -> None:
        """Waits in the queue until the holder has a slot again, or until it waits for another run and needs none."""
        if self._free:
            self._enter(here)
            return
        here.state, here.turn = "queued", anyio.Event()
        self._queue.append(here)
        try:
            await here.turn.wait()
        except BaseException:
            self._leave(here)
            raise

    def _enter(self, here: _Holder) -> None:
        self._free -= 1
        self._taken += 1
        here.state = "holding"
        here.turn.set()

    def _leave(self, here: _Holder) -> None:
        """Takes a holder out of the queue, or out of its slot, which goes to the first in the
        queue."""
        before, here.state = here.state, "away"
        if before == "queued":
            self._queue.remove(here)
            here.turn.set()
        elif before == "holding":
            self._free += 1
            self._taken -= 1
            if self._queue:
                self._enter(self._queue.popleft())
