"""Disk work in threads, so that the event loop never waits for a file."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.lowlevel
import anyio.to_thread

T = TypeVar("T")
Args = TypeVarTuple("Args")


class Disk:
    """Runs work with files in threads. `inline` runs it in the caller's task: for virtual time,
    where a pending thread would look like idleness."""

    def __init__(self, *, inline: bool, threads: int = 1) -> None:
        self._inline = inline
        # A place of its own: threads that tools keep busy must not hold up the transcripts.
        self._place = anyio.CapacityLimiter(threads)
        self._looks: dict[Hashable, _SharedLook] = {}

    async def run(self, work: Callable[[Unpack[Args]], T], *args: *Args) -> T:
        if self._inline:
            await anyio.lowlevel.checkpoint()
            return work(*args)
        return await anyio.to_thread.run_sync(work, *args, limiter=self._place)

    async def look(self, name: Hashable, work: Callable[[], T]) -> T:
        """Runs work and shares its result with everybody who asks before it begins, so what they
        get was read after they asked. Sixty runs that begin together read once."""
        while (waiting := self._looks.get(name)) is not None:
            await waiting.over.wait()
            if waiting.answers:
                return waiting.answers[0]  # type: ignore[no-any-return]
        mine = self._looks[name] = _SharedLook()

        def begin() -> T:
            self._looks.pop(name, None)  # from here on it is too old for others
            return work()

        try:
            answer = await self.run(begin)
            mine.answers.append(answer)
            return answer
        finally:  # whoever looked may have been stopped or failed: then the next one looks
            if self._looks.get(name) is mine:
                del self._looks[name]
            mine.over.set()


class _SharedLook:
    def __init__(self) -> None:
        self.over = anyio.Event()
        self.answers: list[Any] = []
