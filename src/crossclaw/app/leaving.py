"""Leaving: ends the gateway when a client asks for it, at once or after the runs under way.

While it drains, no further run is claimed: what arrives is accepted and waits in its lane, on disk,
for the next start. Runs under way may finish within a limit; one that takes longer continues at the
next start too.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from crossclaw.runs.slots import Slots

log = logging.getLogger(__name__)

DRAIN_S = 25.0  # of a gateway among several that is told to end: Kubernetes kills after 30
LOOK_S = 0.1  # between two looks whether everything has ended

T = TypeVar("T")


class Leaving:
    def __init__(self) -> None:
        self._requested = anyio.Event()
        self._limit_s = 0.0

    def ask(self, limit_s: float) -> None:
        """Asks the gateway to end; runs under way have so many seconds. The last call counts."""
        self._limit_s = limit_s
        self._requested.set()

    @property
    def is_requested(self) -> bool:
        """Whether the gateway was asked to end: then it does not reopen, as it does when the
        database was lost."""
        return self._requested.is_set()

    def drain_soon(self) -> None:
        """Asks the gateway to end after a drain, as one among several does: what is not finished in
        time continues on another gateway."""
        self.ask(DRAIN_S)

    async def unless_requested(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """The result of the work; None as soon as the gateway is asked to end."""
        found: list[T] = []
        async with anyio.create_task_group() as tasks:

            async def carry_out() -> None:
                found.append(await work())
                tasks.cancel_scope.cancel()

            tasks.start_soon(carry_out)
            await self._requested.wait()
            tasks.cancel_scope.cancel()
        return found[0] if found else None

    async def drain(
        self, slots: Slots, under_way: Callable[[], bool], *, among_others: bool = False
    ) -> None:
        """Waits until no run is under way, or the time is over. `among_others`: other gateways
        share the ledger."""
        if not self._limit_s:
            return
        slots.close()
        log.info("the gateway leaves when the runs under way have ended; no other is begun")
        with anyio.move_on_after(self._limit_s):
            await anyio.sleep(LOOK_S)  # what was just claimed is under way by then
            while under_way():  # noqa: ASYNC110  nobody tells that all has ended
                await anyio.sleep(LOOK_S)
        if under_way():
            where = "on another gateway" if among_others else "at the next start"
            log.info("the gateway leaves; what is under way goes on %s", where)
