"""The book of runs: accept, wait, write, end. What it says has happened is on disk."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import anyio

from crossclaw.domain.clock import Clock
from crossclaw.domain.events import EntryAppended, RunAccepted, RunEnded, RunStarted
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import NewRun, Outcome, Run
from crossclaw.domain.sessions import Entry, NewEntry, NewSession
from crossclaw.ledger.contract import (
    Append,
    Claim,
    Claimed,
    Dedupe,
    EndOpenRun,
    EndRun,
    EnsureSession,
    Ledger,
    Op,
    Recover,
    Recovered,
    ReleaseRun,
    StartTool,
    Submit,
    Submitted,
)
from crossclaw.runs.feed import Feed

log = logging.getLogger(__name__)

# A waiting caller is woken by a hint; should one be missed (another gateway ended the run), it
# looks again by itself this often.
LOOK_AGAIN_S = 5.0

Wake = Callable[[SessionKey], None]
Take = Callable[[Claimed], None]
"""Carry out a run that has been claimed."""
Taking = Callable[[SessionKey], AbstractContextManager[Take | None]]
"""Holds a session's lane while a run is accepted into it. With an idle one comes the way to take the
run at once; any other one hears that there is work."""


class Book:
    def __init__(self, ledger: Ledger, feed: Feed, clock: Clock, owner: str) -> None:
        self._ledger = ledger
        self._feed = feed
        self._clock = clock
        self._owner = owner
        self._ended: dict[str, list[anyio.Event]] = {}
        self._wake: Wake = lambda key: None
        self._taking: Taking = self._take_none

    def on_work(self, wake: Wake, taking: Taking | None = None) -> None:
        """Who is told that a lane has work, and who may take it in the step that accepts it."""
        self._wake = wake
        self._taking = taking or self._take_none

    @contextmanager
    def _take_none(self, key: SessionKey) -> Generator[None]:
        yield
        self._wake(key)

    # ── accepting ──────────────────────────────────────────────────────────────────────────────

    async def submit(
        self,
        new: NewRun,
        session: NewSession,
        *,
        dedupe: Dedupe | None = None,
        also: Sequence[Op[Any]] = (),
    ) -> Submitted:
        """Accept a run, and what belongs to it. On return its message is durable; it will run, in
        its lane's order."""
        with self._taking(new.key) as take:
            submitted, claimed = await self._accept(new, session, dedupe, also, claim=bool(take))
            if not submitted.duplicate:
                self._feed.publish(RunAccepted(submitted.run_id, new.key))
            if take and claimed:
                take(claimed)
        return submitted

    async def _accept(
        self,
        new: NewRun,
        session: NewSession,
        dedupe: Dedupe | None,
        also: Sequence[Op[Any]],
        *,
        claim: bool,
    ) -> tuple[Submitted, Claimed | None]:
        at = self._clock.now_ms()
        claims = [Claim(key=new.key, owner=self._owner, at=at)] if claim else []
        with anyio.CancelScope(shield=claim):  # a claim that nobody hears of is never given back
            _, submitted, *results = await self._ledger.commit(
                EnsureSession(new=session, at=at),
                Submit(new=new, at=at, dedupe=dedupe),
                *also,
                *claims,
            )
        return submitted, results[-1] if claim else None

    # ── waiting ────────────────────────────────────────────────────────────────────────────────

    async def wait(self, run_id: str, timeout_s: float | None = None) -> Run | None:
        """The run when it has ended, or as it stands when the time is over; None if nobody has heard
        of it until then. Read from the ledger, so it is true after a restart as well."""
        with anyio.move_on_after(timeout_s), self._listening(run_id) as ended:
            while (run := await self._ledger.find_run(run_id)) is None or not run.ended:
                with anyio.move_on_after(LOOK_AGAIN_S):
                    await ended.wait()
            return run
        return await self._ledger.find_run(run_id)

    @contextmanager
    def _listening(self, run_id: str) -> Generator[anyio.Event]:
        event = anyio.Event()
        self._ended.setdefault(run_id, []).append(event)
        try:
            yield event
        finally:
            listeners = self._ended[run_id]
            listeners.remove(event)
            if not listeners:
                del self._ended[run_id]

    # ── a run's own writes ─────────────────────────────────────────────────────────────────────

    async def claim(self, key: SessionKey) -> Claimed | None:
        return await self._ledger.do(Claim(key=key, owner=self._owner, at=self._clock.now_ms()))

    def tell_start(self, claimed: Claimed) -> None:
        if claimed.entry is not None:
            self._feed.publish(EntryAppended(claimed.run.key, claimed.entry))
        self._feed.publish(RunStarted(claimed.run))

    async def append(self, run: Run, *entries: NewEntry) -> list[Entry]:
        stored = await self._ledger.do(
            Append(fence=run.fence, entries=list(entries), at=self._clock.now_ms())
        )
        self._tell_entries(run.key, stored)
        return stored

    async def start_tool(self, run: Run, tool_use_id: str, name: str) -> bool:
        """False when this call had begun before and was cut off: then its fate is unknown."""
        return await self._ledger.do(
            StartTool(fence=run.fence, tool_use_id=tool_use_id, name=name, at=self._clock.now_ms())
        )

    async def end(
        self, run: Run, outcome: Outcome, entries: Sequence[NewEntry], follow: Sequence[Op[Any]]
    ) -> Run:
        """The run's last words, its end and all that follows from it: one step."""
        at = self._clock.now_ms()
        stored, ended, *_ = await self._ledger.commit(
            Append(fence=run.fence, entries=list(entries), at=at),
            EndRun(fence=run.fence, outcome=outcome, at=at),
            *follow,
        )
        self._tell_entries(run.key, stored)
        self._tell_end(ended)
        self._wake_targets(follow)
        done: Run = ended
        return done

    async def end_open(
        self,
        run_id: str,
        outcome: Outcome,
        follow: Sequence[Op[Any]] = (),
        entries: Sequence[NewEntry] = (),
    ) -> Run | None:
        """End a run that nobody carries out; None when it had already ended."""
        at = self._clock.now_ms()
        end = EndOpenRun(run_id=run_id, outcome=outcome, at=at, entries=tuple(entries))
        ended, *_ = await self._ledger.commit(end, *follow)
        if ended is not None:
            self._tell_end(ended)
            self._wake(ended.key)
            self._wake_targets(follow)
        done: Run | None = ended
        return done

    async def release(self, run: Run) -> None:
        """Give a run back unharmed: the house is closing."""
        await self._ledger.do(ReleaseRun(fence=run.fence))

    async def find(self, run_id: str) -> Run | None:
        return await self._ledger.find_run(run_id)

    async def has_open(self, key: SessionKey) -> bool:
        return await self._ledger.has_open_run(key)

    async def list_open(self, key: SessionKey) -> list[Run]:
        return await self._ledger.list_open_runs(key)

    async def recover(self) -> Recovered:
        """Take over what a process that died has left."""
        return await self._ledger.do(Recover(owner=self._owner))

    # ── telling ────────────────────────────────────────────────────────────────────────────────

    def _tell_entries(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._feed.publish(EntryAppended(key, entry))

    def _tell_end(self, run: Run) -> None:
        for event in self._ended.get(run.run_id, ()):
            event.set()
        self._feed.publish(RunEnded(run))

    def _wake_targets(self, follow: Sequence[Op[Any]]) -> None:
        for op in follow:
            if isinstance(op, Submit):
                self._feed.publish(RunAccepted(op.new.run_id, op.new.key))
                self._wake(op.new.key)
