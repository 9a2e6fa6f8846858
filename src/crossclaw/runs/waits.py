"""Waits: a run that waits for another run gives its slot back meanwhile; a wait that would close a cycle is
refused."""

from collections.abc import Sequence

import anyio
import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import BeginWait, EndWait
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.slots import Slots


class WaitResult(msgspec.Struct, frozen=True):
    """The result of a wait: `run` as it was when the wait ended. If there was a circle, nothing was
    waited for."""

    run: Run | None
    circle: Sequence[SessionKey] = ()


class Waits:
    def __init__(self, ledger: Ledger, run_store: RunStore, slots: Slots, clock: Clock) -> None:
        self._ledger = ledger
        self._run_store = run_store
        self._slots = slots
        self._clock = clock

    async def wait(self, waiter: Run, target_run_id: str, timeout_s: float | None) -> WaitResult:
        """Lets `waiter` wait for another run. The wait is a row in the ledger: pages show it, and
        whoever would close a circle is refused at once."""
        begin = BeginWait(fence=waiter.fence, target_run_id=target_run_id, at=self._clock.now_ms())
        with anyio.CancelScope(shield=True):  # a wait that nobody hears of would never be ended
            circle = await self._ledger.do(begin)
        if circle:
            return WaitResult(await self._ledger.find_run(target_run_id), circle)
        try:
            run = await self._ledger.find_run(target_run_id)
        except BaseException:
            await self._end(waiter, target_run_id)
            raise
        if run is not None and run.ended:  # nothing was noted, and nothing is given back
            return WaitResult(run)
        async with self._slots.given_back(waiter.key):
            try:
                return WaitResult(await self._run_store.wait(target_run_id, timeout_s))
            finally:
                # Before the slot is taken again, which may last: nobody waits for the target now.
                await self._end(waiter, target_run_id)

    async def _end(self, waiter: Run, target_run_id: str) -> None:
        with anyio.CancelScope(shield=True):
            await self._ledger.do(EndWait(fence=waiter.fence, target_run_id=target_run_id))
