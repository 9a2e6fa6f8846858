"""The one builder of runs: every run is put together here."""

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserBlock, UserMessage
from crossclaw.domain.runs import Cause, NewRun, Run, RunKind, RunPlan
from crossclaw.door.registry import Caller
from crossclaw.ledger.operations import Submit
from crossclaw.runs.run_store import RunStore

Content = str | list[UserBlock]

PLAIN = RunPlan()
FIRST = Cause()
"""The cause of a run that nothing led to but whoever asked for it."""
STEP_MS = 10 * 60_000  # a round or an announce that takes longer helps nobody any more


class RunBuilder:
    def __init__(self, config: Config, clock: Clock, ids: Ids) -> None:
        self.config = config
        self.clock = clock
        self.ids = ids

    def new(
        self,
        kind: RunKind,
        key: SessionKey,
        said: UserMessage | None,
        *,
        run_id: str | None = None,
        plan: RunPlan = PLAIN,
        authority: Authority,
        cause: Cause = FIRST,
    ) -> NewRun:
        """Builds a run. Only a compaction has no message (`said`)."""
        return NewRun(
            run_id=run_id or self.ids.new(),
            key=key,
            kind=kind,
            message=said,
            plan=plan,
            authority=authority,
            cause=cause,
        )

    async def begun_by(self, caller: Caller, run_store: RunStore) -> str:
        """The id of a run that a caller begins: the same tool call of the same run gives the same id, however
        often it is executed."""
        if caller.run is not None and caller.call_id is not None:
            return await run_store.follower(caller.run, caller.call_id)
        return self.ids.new()

    def said(self, content: Content, origin: Provenance) -> UserMessage:
        return UserMessage(content, self.clock.now_ms(), origin)

    def following(
        self,
        run: Run,
        kind: RunKind,
        key: SessionKey,
        content: Content,
        origin: Provenance,
        *,
        run_id: str,
        plan: RunPlan,
    ) -> Submit:
        """Builds a run that follows from another's end, to be stored with that end. It belongs to that run:
        no further hop, and no more authority."""
        said = self.said(content, origin)
        new = self.new(
            kind,
            key,
            said,
            run_id=run_id,
            plan=plan,
            authority=run.authority,
            cause=run.cause.followed_by(run.run_id),
        )
        return Submit(new=new, at=said.timestamp)
