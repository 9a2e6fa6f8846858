"""The disk: slow work with files, done in a thread so that the event loop never waits for it."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.lowlevel
import anyio.to_thread

T = TypeVar("T")
Args = TypeVarTuple("Args")


class Disk:
    """`inline` works right in the caller's task: for virtual time, where a pending thread would
    look like idleness."""

    def __init__(self, *, inline: bool, threads: int = 1) -> None:
        self._inline = inline
        # A place of its own: threads that tools keep busy must not hold up the transcripts.
        self._place = anyio.CapacityLimiter(threads)

    async def run(self, work: Callable[[Unpack[Args]], T], *args: *Args) -> T:
        if self._inline:
            await anyio.lowlevel.checkpoint()
            return work(*args)
        return await anyio.to_thread.run_sync(work, *args, limiter=self._place)
