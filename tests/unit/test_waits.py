"""A wait is noted while somebody waits, and not a moment longer, however it ends."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.domain.runs import Run
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import BeginWait
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.runs.feed import Feed
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.slots import Slots
from crossclaw.runs.waits import Waits
from crossclaw.testing import VirtualClock
from tests.ledger.making import ANA, BEN, begun, end, submit


class Two:
    """Ana and Ben are under way, and each could wait for a further run of the other."""

    def __init__(self, ledger: Ledger, ana: Run, ben: Run) -> None:
        self.ledger, self.ana, self.ben, clock = ledger, ana, ben, VirtualClock()
        self.slots = Slots(2)
        self.waits = Waits(ledger, RunStore(ledger, Feed(), clock, ledger.owner), self.slots, clock)

    async def ben_could_wait_for_ana(self) -> bool:
        circle = await self.ledger.do(BeginWait(fence=self.ben.fence, target_run_id="a2", at=9))
        return not circle


class Failing(SqliteLedger):
    """Answers so many reads of runs while it fails, and then none."""

    reads_left: int | None = None

    async def find_run(self, run_id: str) -> Run | None:
        if self.reads_left == 0:
            raise StoreError("the disk does not answer")
        if self.reads_left is not None:
            self.reads_left -= 1
        return await super().find_run(run_id)


@asynccontextmanager
async def two(folder: Path, given: Ledger | None = None) -> AsyncGenerator[Two]:
    ledger = given or open_ledger(folder / "l.sqlite", inline=True)
    ana, ben = await begun(ledger, "a1", ANA), await begun(ledger, "b1", BEN)
    await submit(ledger, "a2", ANA)
    await submit(ledger, "b2", BEN)
    both = Two(ledger, ana, ben)
    async with both.slots.hold(ANA), both.slots.hold(BEN):
        yield both
    await ledger.close()


@pytest.mark.spec("S9")
async def test_while_one_waits_the_other_is_refused(tmp_path: Path) -> None:
    async with two(tmp_path) as both, anyio.create_task_group() as tasks:
        tasks.start_soon(both.waits.wait, both.ana, "b2", 100)
        await anyio.wait_all_tasks_blocked()

        assert not await both.ben_could_wait_for_ana()
        tasks.cancel_scope.cancel()


@pytest.mark.spec("S9")
async def test_a_wait_whose_time_is_over_holds_up_nobody(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        await both.waits.wait(both.ana, "b2", timeout_s=5)

        assert await both.ben_could_wait_for_ana()
        found = await both.ledger.find_run("a1")
        assert found is not None
        assert found.status == "running"


@pytest.mark.spec("S9")
async def test_a_wait_that_its_caller_gave_up_holds_up_nobody(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        with anyio.move_on_after(5):
            await both.waits.wait(both.ana, "b2", timeout_s=None)

        assert await both.ben_could_wait_for_ana()


@pytest.mark.spec("S9")
async def test_a_wait_that_is_given_up_while_it_is_noted_holds_up_nobody(tmp_path: Path) -> None:
    """Cancelled before its first step comes back: the step is stored all the same."""
    async with two(tmp_path) as both:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await both.waits.wait(both.ana, "b2", timeout_s=None)

        assert await both.ben_could_wait_for_ana()


@pytest.mark.spec("S9")
@pytest.mark.parametrize("reads_before", [0, 1])
async def test_a_wait_that_fails_holds_up_nobody(tmp_path: Path, reads_before: int) -> None:
    ledger = Failing(tmp_path / "l.sqlite", inline=True)
    async with two(tmp_path, ledger) as both:
        ledger.reads_left = reads_before
        with pytest.raises(StoreError):
            await both.waits.wait(both.ana, "b2", timeout_s=None)
        ledger.reads_left = None

        assert await both.ben_could_wait_for_ana()
        found = await both.ledger.find_run("a1")
        assert found is not None
        assert found.status == "running"


@pytest.mark.spec("S9")
async def test_who_queues_for_its_slot_again_does_not_wait_any_more(tmp_path: Path) -> None:
    async with two(tmp_path) as both, anyio.create_task_group() as tasks:
        tasks.start_soon(both.waits.wait, both.ana, "b2", 5)
        await anyio.wait_all_tasks_blocked()
        async with both.slots.hold("somebody else"):
            await anyio.sleep(10)

            assert await both.ben_could_wait_for_ana()


async def test_what_has_ended_is_answered_at_once(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        await end(both.ledger, both.ben)

        waited = await both.waits.wait(both.ana, "b1", timeout_s=None)

    assert waited.run is not None
    assert waited.run.ended
