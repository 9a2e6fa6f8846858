"""The store of runs: accept, wait, write, end. What it reports as done is on disk."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import msgspec

from crossclaw.domain.aliases import Hints
from crossclaw.domain.budgets import Allowance
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Fenced
from crossclaw.domain.events import (
    EntryAppended,
    FeedEvent,
    Injected,
    RunAccepted,
    RunEnded,
    RunStarted,
    SessionChanged,
)
from crossclaw.domain.ids import call_follower_id
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.queueing import STEERING
from crossclaw.domain.runs import NewRun, Outcome, Run
from crossclaw.domain.sessions import Entry, NewEntry, NewSession, Session
from crossclaw.ledger.channels import EditWaiting, WithdrawWaiting
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.gateways import TakeOver, TellGateways
from crossclaw.ledger.operations import (
    AlreadyAccepted,
    Append,
    Claim,
    Claimed,
    Dedupe,
    EndOpenRun,
    EndRun,
    EnsureSession,
    Inject,
    Join,
    Joined,
    NoteUptime,
    NotYet,
    Op,
    Recover,
    Recovered,
    ReleaseRun,
    ResetSession,
    SetAsideDamaged,
    StartTool,
    Submit,
    Submitted,
    UnarchiveSession,
)
from crossclaw.runs.feed import Feed, Listener

log = logging.getLogger(__name__)

# A waiting caller is woken by a hint; should one be missed (another gateway ended the run), it
# looks again by itself this often.
LOOK_AGAIN_S = 5.0
LOOK_AGAIN_SHARED_S = 1.0  # where there are other gateways

BudgetOf = Callable[[str], Allowance | None]
"""An agent's budget; None for one that has none."""
SayTime = Callable[[int], str | None]
"""A moment in words for a model: weekday, date, time, zone."""


class FollowUps(msgspec.Struct, frozen=True):
    """What follows from a run's end, to be stored with it."""

    ops: Sequence[Op[Any]] = ()
    withheld: bool = False
    """Whether the send policy keeps the reply from the session's chats."""


NOTHING = FollowUps()


class Acceptance(msgspec.Struct, frozen=True):
    """A run that was accepted, and the result of the claim that was made in the same step."""

    submitted: Submitted
    claimed: Claimed | NotYet | None = None


class EndedRun(msgspec.Struct, frozen=True):
    """A run that has ended, and the lanes in which new work follows from it."""

    run: Run
    to_wake: Sequence[SessionKey] = ()


class RunStore:
    def __init__(
        self,
        ledger: Ledger,
        feed: Feed,
        clock: Clock,
        owner: str,
        budget_of: BudgetOf = lambda agent_id: None,
        say_time: SayTime = lambda at: None,
    ) -> None:
        self._ledger = ledger
        self._feed = feed
        self._clock = clock
        self._owner = owner
        self._budget_of = budget_of
        self._say_time = say_time
        self._ended: dict[str, list[anyio.Event]] = {}
        self._look_again_s = LOOK_AGAIN_S if ledger.gateways is None else LOOK_AGAIN_SHARED_S

    @property
    def is_shared(self) -> bool:
        """Whether other gateways may execute runs of this store."""
        return self._ledger.gateways is not None

    async def send_hint(self, kind: str, value: str) -> None:
        """Sends a hint to the other gateways."""
        await self._ledger.do(TellGateways(kind=kind, value=value))

    def on_end_hint(self, run_ids: Hints | None) -> None:
        """Wakes those who wait for runs that other gateways have ended; without ids, everybody who
        waits."""
        for run_id in self._ended if run_ids is None else run_ids:
            for event in self._ended.get(run_id, ()):
                event.set()

    # ── accepting ──────────────────────────────────────────────────────────────────────────────

    async def accept(
        self,
        new: NewRun,
        session: NewSession,
        *,
        dedupe: Dedupe | None = None,
        before: Sequence[Op[Any]] = (),
        also: Sequence[Op[Any]] = (),
        claim: bool = False,
    ) -> Acceptance:
        """Stores a run, what has to happen before it and what belongs to it; with `claim`, claims
        it in the same step. For `Lanes.submit`, which knows whether its lane is free and starts
        what was claimed."""
        at = new.message.timestamp if new.message is not None else self._clock.now_ms()
        claims = [self._claim(new.key, at)] if claim else []
        try:
            # A claim that nobody hears of is never given back.
            with anyio.CancelScope(shield=claim):
                answers = await self._ledger.commit(
                    EnsureSession(new=session, at=at),
                    *before,
                    Submit(new=new, at=at, dedupe=dedupe),
                    *also,
                    *claims,
                )
        except AlreadyAccepted as known:
            return Acceptance(Submitted(known.run_id, duplicate=True), None)
        submitted: Submitted = answers[1 + len(before)]
        self._tell_what_follows(before, answers[1 : 1 + len(before)])
        self._feed.publish(RunAccepted(submitted.run_id, new.key))
        return Acceptance(submitted, answers[-1] if claim else None)

    async def accept_ended(
        self,
        new: NewRun,
        session: NewSession,
        *,
        reply: str | None = None,
        entries: Sequence[NewEntry] = (),
        dedupe: Dedupe | None = None,
        before: Sequence[Op[Any]] = (),
        also: Sequence[Op[Any]] = (),
    ) -> Submitted:
        """Accepts a run and ends it in one step. It waits in no lane: a command is obeyed already, and
        a notice is read by whichever run comes next."""
        at = self._clock.now_ms()
        end = EndOpenRun(
            run_id=new.run_id, outcome=Outcome("ok", reply=reply), at=at, entries=tuple(entries)
        )
        try:
            _, *answers = await self._ledger.commit(
                EnsureSession(new=session, at=at),
                *before,
                Submit(new=new, at=at, dedupe=dedupe),
                end,
                *also,
            )
        except AlreadyAccepted as known:
            return Submitted(known.run_id, duplicate=True)
        submitted, ended = answers[len(before) : len(before) + 2]
        self._tell_what_follows(before, answers[: len(before)])
        self._tell_entries(new.key, ended.entries)
        self._tell_ends(ended.runs, withheld=False)
        accepted: Submitted = submitted
        return accepted

    # ── waiting ────────────────────────────────────────────────────────────────────────────────

    async def wait(self, run_id: str, timeout_s: float | None = None) -> Run | None:
        """Waits for a run: returns it once it has ended, or as it is when the time is over; None if
        it is still unknown then. Reads the ledger, so it works after a restart too."""
        with anyio.move_on_after(timeout_s), self._listening(run_id) as ended:
            while (run := await self._ledger.find_run(run_id)) is None or not run.ended:
                with anyio.move_on_after(self._look_again_s):
                    await ended[0].wait()
                ended[0] = self._renewed(run_id, ended[0])
            return run
        return await self._ledger.find_run(run_id)

    @contextmanager
    def _listening(self, run_id: str) -> Generator[list[anyio.Event]]:
        held = [anyio.Event()]
        self._ended.setdefault(run_id, []).append(held[0])
        try:
            yield held
        finally:
            listeners = self._ended[run_id]
            listeners.remove(held[0])
            if not listeners:
                del self._ended[run_id]

    def _renewed(self, run_id: str, event: anyio.Event) -> anyio.Event:
        """A fresh event in place of one that was set: the hint may have come for another end, or
        for none."""
        if not event.is_set():
            return event
        listeners, fresh = self._ended[run_id], anyio.Event()
        listeners[listeners.index(event)] = fresh
        return fresh

    # ── a run's own writes ─────────────────────────────────────────────────────────────────────

    async def claim(self, key: SessionKey) -> Claimed | NotYet | None:
        return await self._ledger.do(self._claim(key, self._clock.now_ms()))

    def _claim(self, key: SessionKey, at: int) -> Claim:
        return Claim(
            key=key,
            owner=self._owner,
            at=at,
            allowance=self._budget_of(key.agent_id),
            now=self._say_time(at),
        )

    def publish_start(self, claimed: Claimed) -> None:
        if claimed.entry is not None:
            self._feed.publish(EntryAppended(claimed.run.key, claimed.entry))
        self._feed.publish(RunStarted(claimed.run))
        if claimed.joined is not None:
            self._tell_joined(claimed.run.key, claimed.joined)
        self._tell_ends(claimed.dropped, withheld=False)

    async def take_along(self, run: Run) -> None:
        """Lets messages that steer this run into the transcript, between two turns. Looking is
        cheaper than a step that finds nothing."""
        if run.kind != "chat":
            return
        queues = [other.plan.queue for other in await self._ledger.list_open_runs(run.key)]
        if any(queue is not None and queue.mode in STEERING for queue in queues[1:]):
            at = self._clock.now_ms()
            joined = await self._ledger.do(Join(fence=run.fence, at=at, now=self._say_time(at)))
            self._tell_joined(run.key, joined)

    async def append(
        self, run: Run, *entries: NewEntry, beside: Sequence[Op[Any]] = ()
    ) -> list[Entry]:
        """Appends entries to the run's transcript. `beside` are operations stored in the same
        step."""
        stored: list[Entry]
        stored, *_ = await self._ledger.commit(
            Append(fence=run.fence, entries=list(entries), at=self._clock.now_ms()), *beside
        )
        self._tell_entries(run.key, stored)
        return stored

    async def start_tool(self, run: Run, tool_use_id: str, name: str) -> bool:
        """Records that a tool call begins; False if it had begun before and was cut off: then its
        fate is unknown."""
        return await self._ledger.do(
            StartTool(fence=run.fence, tool_use_id=tool_use_id, name=name, at=self._clock.now_ms())
        )

    async def tool_was_started(self, run: Run, tool_use_id: str) -> bool:
        return await self._ledger.tool_was_started(run.run_id, tool_use_id)

    async def end(
        self, run: Run, outcome: Outcome, entries: Sequence[NewEntry], follow: FollowUps = NOTHING
    ) -> EndedRun:
        """Stores the run's last entries, its end and all that follows from it, in one step."""
        at = self._clock.now_ms()
        stored, ended, *answers = await self._ledger.commit(
            Append(fence=run.fence, entries=list(entries), at=at),
            EndRun(fence=run.fence, outcome=outcome, at=at),
            *follow.ops,
        )
        self._tell_entries(run.key, stored)
        self._tell_ends(ended, withheld=follow.withheld)
        return EndedRun(ended[0], self._tell_what_follows(follow.ops, answers))

    async def end_open(
        self,
        run_id: str,
        outcome: Outcome,
        follow: FollowUps = NOTHING,
        entries: Sequence[NewEntry] = (),
    ) -> EndedRun | None:
        """Ends a run that nobody executes; None if it had already ended."""
        at = self._clock.now_ms()
        end = EndOpenRun(run_id=run_id, outcome=outcome, at=at, entries=tuple(entries), fenced=True)
        try:
            ended, *answers = await self._ledger.commit(end, *follow.ops)
        except Fenced:
            return None
        done: Run = ended.runs[0]
        self._tell_entries(done.key, ended.entries)
        self._tell_ends(ended.runs, withheld=follow.withheld)
        return EndedRun(done, [done.key, *self._tell_what_follows(follow.ops, answers)])

    async def edit(self, op: EditWaiting) -> str | None:
        """Replaces the words of a message that no run has begun to answer; returns its run's id, None
        if there is none such."""
        return await self._ledger.do(op)

    async def withdraw(self, op: WithdrawWaiting) -> list[Run]:
        """Ends the run of a message that its sender has deleted, if it has not begun."""
        ended = await self._ledger.do(op)
        self._tell_ends(ended, withheld=False)
        return ended

    async def set_aside_damaged(self, key: SessionKey) -> list[Run]:
        """Ends the unreadable runs of a lane. Also returns those that the caller must end because
        their message is unreadable."""
        found = await self._ledger.do(SetAsideDamaged(key=key, at=self._clock.now_ms()))
        self._tell_ends([run for run in found if run.ended], withheld=False)
        return found

    async def follow_up(self, ops: Sequence[Op[Any]]) -> None:
        """Stores what follows from an end that is stored already."""
        await self._ledger.commit(*ops)

    async def release(self, run: Run) -> None:
        """Gives a run back unharmed, because the gateway is closing."""
        await self._ledger.do(ReleaseRun(fence=run.fence))

    async def find(self, run_id: str) -> Run | None:
        return await self._ledger.find_run(run_id)

    async def find_accepted(self, once: Dedupe) -> str | None:
        """The id of the run that a request became when it came before."""
        return await self._ledger.find_deduped(once)

    async def session(self, key: SessionKey) -> Session | None:
        return await self._ledger.find_session(key)

    async def last_seq(self, session_id: str) -> int:
        """The number of the newest entry of a transcript; 0 if it has none."""
        return await self._ledger.last_seq(session_id)

    async def follower(self, run: Run, call_id: str) -> str:
        """The id of the run that a tool call begins: the same for the same call, however often it is
        executed, also when an earlier version of the gateway has begun it under the name it had there."""
        if run.epoch > 1:
            before = await self.find(f"{run.run_id}:{call_id}")
            if before is not None and before.cause.chain[-1:] == (run.run_id,):
                return before.run_id
        return call_follower_id(run.run_id, call_id)

    async def has_open(self, key: SessionKey) -> bool:
        return await self._ledger.has_open_run(key)

    async def list_open(self, key: SessionKey) -> list[Run]:
        return await self._ledger.list_open_runs(key)

    async def recover(self) -> Recovered:
        """Takes over the runs of a process that died; with several gateways, of those whose lease
        has expired."""
        at = self._clock.now_ms()
        if self._ledger.gateways is not None:
            return await self._ledger.do(TakeOver(owner=self._owner, at=at))
        return await self._ledger.do(Recover(owner=self._owner, at=at))

    async def note_uptime(self, uptime_ms: int) -> None:
        """Stores how long the process has been up, for the search for runs that end it."""
        await self._ledger.do(NoteUptime(uptime_ms=uptime_ms))

    @contextmanager
    def listening_to(self, on_event: Listener, *kinds: type[FeedEvent]) -> Generator[None]:
        """Calls `on_event` for events of these kinds while this is open."""
        end = self._feed.subscribe(on_event, *kinds)
        try:
            yield
        finally:
            end()

    # ── telling ────────────────────────────────────────────────────────────────────────────────

    def _tell_entries(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._feed.publish(EntryAppended(key, entry))

    def _tell_joined(self, key: SessionKey, joined: Joined) -> None:
        self._tell_entries(key, joined.entries)
        for run in joined.runs:
            self._feed.publish(RunStarted(run))

    def _tell_ends(self, runs: Sequence[Run], *, withheld: bool) -> None:
        for run in runs:
            for event in self._ended.get(run.run_id, ()):
                event.set()
            self._feed.publish(RunEnded(run, withheld))

    def _tell_what_follows(
        self, ops: Sequence[Op[Any]], answers: Sequence[Any]
    ) -> list[SessionKey]:
        """Publishes what has followed; returns the lanes that have new work."""
        to_wake: list[SessionKey] = []
        for op, answer in zip(ops, answers, strict=True):
            if isinstance(op, Submit):
                self._feed.publish(RunAccepted(op.new.run_id, op.new.key))
                to_wake.append(op.new.key)
            elif isinstance(op, Inject):
                tell = Injected if op.shown else EntryAppended
                for entry in answer:
                    self._feed.publish(tell(op.key, entry))
            elif isinstance(op, UnarchiveSession) and answer is not None:
                self._feed.publish(SessionChanged(op.key, "unarchive"))
            elif isinstance(op, ResetSession) and answer.session_id == op.session_id:
                self._feed.publish(SessionChanged(op.key, "reset"))
        return to_wake
