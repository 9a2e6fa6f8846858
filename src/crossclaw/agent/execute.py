"""A run around the loop: chooses what to think with, and puts the outcome into words."""

from crossclaw.agent.compaction import Compactor
from crossclaw.agent.loop import Loop, settling
from crossclaw.agent.mind import Minds
from crossclaw.domain.ids import Ids
from crossclaw.domain.runs import Outcome, Run
from crossclaw.domain.sessions import NewEntry, Session
from crossclaw.runs.lanes import Ending, Progress


class Agent:
    def __init__(self, minds: Minds, loop: Loop, compactor: Compactor, ids: Ids) -> None:
        self._minds = minds
        self._loop = loop
        self._compactor = compactor
        self._ids = ids

    async def execute(self, run: Run, session: Session | None, progress: Progress) -> Ending:
        mind = await self._minds.choose(run, session)
        if run.kind == "compact":
            await self._compactor.by_hand(run, mind)
            return Ending(Outcome("ok"))
        answer = await self._loop.run(run, mind, progress)
        last_words = settling(mind, NewEntry(entry_id=self._ids.short(), message=answer))
        if answer.stop_reason == "error":
            return Ending(Outcome("error", error=answer.error or "the model refused"), [last_words])
        return Ending(Outcome("ok", reply=answer.text), [last_words])
