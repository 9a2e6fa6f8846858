"""Compacting by hand, and pins: what a person may say about a session's memory.

A compaction is a run of its own kind in the session's lane: it waits for the run under way, a crash
repeats it, and a message that comes meanwhile waits for it. It has no message in the transcript.
"""

import msgspec

from crossclaw.domain.compactions import compaction_of
from crossclaw.domain.errors import NotFound
from crossclaw.domain.events import SessionChanged
from crossclaw.domain.messages import Provenance, UserMessage
from crossclaw.domain.runs import RunPlan
from crossclaw.domain.sessions import Entry, Session
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import SessionHandle
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import PinEntry
from crossclaw.runs.feed import Feed
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.arrivals import Arrival
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.newest import find_newest

WAIT_S = 25.0  # clients give up on an answer after thirty
RUN_MS = 10 * 60_000  # a summary that takes longer helps nobody

NOTHING = "nothing to compact: what there is stays as it is"


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    compacted: bool
    kept: int = 0
    """Messages that the model still sees as they were."""
    reason: str | None = None
    """Why nothing was compacted."""
    tokens_before: int | None = None
    tokens_after: int | None = None
    run_id: str | None = None


class Compacting:
    def __init__(self, ledger: Ledger, run_store: RunStore, feed: Feed, intake: Intake) -> None:
        self._ledger = ledger
        self._run_store = run_store
        self._feed = feed
        self._intake = intake

    async def compact(
        self,
        caller: Caller,
        handle: SessionHandle,
        *,
        instructions: str | None = None,
        keep_messages: int | None = None,
        wait_s: float = WAIT_S,
    ) -> Compacted:
        """Replaces older turns by a summary. `instructions` tell the model what matters."""
        session = handle.session
        if session is None:
            return Compacted(compacted=False, reason="no sessionId")
        if not await self._ledger.last_seq(session.session_id):
            return Compacted(compacted=False, reason="no transcript")
        accepted = await self._intake.require(
            Arrival(
                road="compact",
                to=handle,
                text="",
                origin=Provenance("person"),
                caller=caller,
                plan=RunPlan(context=instructions, keep_messages=keep_messages, timeout_ms=RUN_MS),
            )
        )
        return await self._outcome(accepted.run_id, session, wait_s)

    async def pin(
        self, handle: SessionHandle, entry_id: str | None = None, *, pinned: bool = True
    ) -> Entry:
        """Pins an entry, by default the newest message that a person wrote."""
        session = handle.session
        if session is None:
            raise NotFound("this session has no messages yet")
        found = entry_id or await self._newest_words(session)
        entry = await self._ledger.do(
            PinEntry(session_id=session.session_id, entry_id=found, pinned=pinned)
        )
        self._feed.publish(SessionChanged(session.key, "pin" if pinned else "unpin"))
        return entry

    async def _newest_words(self, session: Session) -> str:
        found = await find_newest(self._ledger, session.session_id, _written)
        if found is None:
            raise NotFound(
                "none of the newest messages was written by a person; say which one to pin"
            )
        return found

    async def _outcome(self, run_id: str, session: Session, wait_s: float) -> Compacted:
        run = await self._run_store.wait(run_id, wait_s)
        if run is None or not run.ended:
            reason = "the session is busy; it will be compacted when its turn comes"
            return Compacted(compacted=False, reason=reason, run_id=run_id)
        if run.status != "ok":
            return Compacted(compacted=False, reason=run.error or run.status, run_id=run_id)
        last = await self._ledger.last_seq(session.session_id)
        found = await self._ledger.find_compaction(session.session_id)
        if found is None or found.run_id != run_id:
            return Compacted(compacted=False, kept=last, reason=NOTHING, run_id=run_id)
        compaction = compaction_of(found)
        return Compacted(
            compacted=True,
            kept=last - compaction.first_kept_seq + 1,
            tokens_before=compaction.tokens_before,
            tokens_after=compaction.tokens_after,
            run_id=run_id,
        )


def _written(entry: Entry) -> str | None:
    """Its id, if a person wrote it."""
    message = entry.message
    by = message.provenance if isinstance(message, UserMessage) else None
    is_written = isinstance(message, UserMessage) and (by is None or by.kind == "person")
    return entry.entry_id if is_written else None
