"""Executing a run: chooses model, prompt and tools, runs the loop, and reports the outcome."""

from contextlib import suppress

from crossclaw.agent.compaction import Compactor
from crossclaw.agent.loop import Loop, cut_off, settling
from crossclaw.agent.run_setup import RunSetup, RunSetups
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.ids import Ids
from crossclaw.domain.runs import EndStatus, Outcome, Run
from crossclaw.domain.sessions import NewEntry, Session
from crossclaw.runs.handling import Ending, PartialReply


class RunExecutor:
    def __init__(self, setups: RunSetups, loop: Loop, compactor: Compactor, ids: Ids) -> None:
        self._setups = setups
        self._loop = loop
        self._compactor = compactor
        self._ids = ids

    async def execute(self, run: Run, session: Session | None, progress: PartialReply) -> Ending:
        if run.kind != "compact":
            progress.last_words = self._say_why
        setup = await self._setups.choose(run, session)
        try:
            return await self._think(run, setup, progress)
        except BaseException:
            await _settle(setup)
            raise

    async def _think(self, run: Run, setup: RunSetup, progress: PartialReply) -> Ending:
        if run.kind == "compact":
            await self._compactor.by_hand(run, setup)
            return Ending(Outcome("ok"))
        answer = await self._loop.run(run, setup, progress)
        last_words = settling(setup, NewEntry(entry_id=self._ids.short(), message=answer))
        if answer.stop_reason == "error":
            return Ending(Outcome("error", error=answer.error or "the model refused"), [last_words])
        return Ending(Outcome("ok", reply=answer.text), [last_words])

    def _say_why(self, status: EndStatus, error: str) -> list[NewEntry]:
        """The history entry of a run that failed outside a model call, so that no question stays
        without any answer. Not for aborted runs: whoever stopped one knows why."""
        if status == "aborted":
            return []
        return [NewEntry(entry_id=self._ids.short(), message=cut_off("", status, error))]


async def _settle(setup: RunSetup) -> None:
    """Counts what the run has spent and not stored yet: a call that was stopped has cost something
    too."""
    if setup.meter is not None:
        # A run may have been ended by force, and a store may not write.
        with suppress(CrossclawError):
            await setup.meter.settle()
