"""Slots: how many runs may be under way at once. A run that waits gives its slot back."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

# Every run under way holds a task, its view of the history and an open model call: some 100 kB.
# Four thousand of them fit a small machine; the rest wait in their lanes, which are on disk.
RUNS_AT_ONCE_MAX = 4_000


class Slots:
    def __init__(self, total: int | None = None) -> None:
        self._limiter = anyio.CapacityLimiter(min(total or RUNS_AT_ONCE_MAX, RUNS_AT_ONCE_MAX))
        self._held: set[object] = set()
        self._waits: Counter[object] = Counter()
        self._alone: object | None = None
        self._one_alone = anyio.Semaphore(1)
        self._was_alone: set[object] = set()
        """Holders that wait for others and will have to be alone again."""

    @property
    def taken(self) -> int:
        return len(self._held)

    @asynccontextmanager
    async def hold(self, holder: object) -> AsyncGenerator[None]:
        await self._take(holder)
        try:
            yield
        finally:
            self.give(holder)

    def take_free(self, holder: object) -> bool:
        """A slot at once, if one is free and nobody waits for it; to be given with `give`."""
        try:
            self._limiter.acquire_on_behalf_of_nowait(holder)
        except anyio.WouldBlock:
            return False
        self._held.add(holder)
        return True

    @asynccontextmanager
    async def alone(self, holder: object) -> AsyncGenerator[None]:
        """One holder at a time. While it waits for others the next one goes on, as it may be the one
        that is waited for; afterwards the holder is alone again before it does anything."""
        await self._be_alone(holder)
        try:
            yield
        finally:
            self._let_next(holder)

    @asynccontextmanager
    async def given_back(self, holder: object) -> AsyncGenerator[None]:
        """While `holder` waits for others, they may use its slot; it queues for one afterwards. Of
        several waits side by side the first gives it and the last takes it. A holder that is
        stopped while it waits leaves without one."""
        self._begin_wait(holder)
        alone = False
        try:
            yield
        finally:
            if last := self._end_wait(holder):
                alone = holder in self._was_alone
                self._was_alone.discard(holder)
        if alone:  # before the slot: whoever has a slot waits for nobody, so no circle can form
            await self._be_alone(holder)
        if last:
            await self._take(holder)

    def _begin_wait(self, holder: object) -> None:
        self._waits[holder] += 1
        self.give(holder)
        if self._alone == holder:
            self._was_alone.add(holder)
            self._let_next(holder)

    def _end_wait(self, holder: object) -> bool:
        """Whether it was the last of several side by side."""
        self._waits[holder] -= 1
        if self._waits[holder]:
            return False
        del self._waits[holder]
        return True

    async def _be_alone(self, holder: object) -> None:
        await self._one_alone.acquire()
        self._alone = holder

    def _let_next(self, holder: object) -> None:
        if self._alone == holder:
            self._alone = None
            self._one_alone.release()

    async def _take(self, holder: object) -> None:
        await self._limiter.acquire_on_behalf_of(holder)
        self._held.add(holder)

    def give(self, holder: object) -> None:
        if holder in self._held:
            self._held.remove(holder)
            self._limiter.release_on_behalf_of(holder)
