"""Lanes: one run at a time in each session, in order; different sessions side by side.

`submit` is the one way from an accepted message to a run: reserve the lane, commit, start. What ends in the step that accepts
it (a command, a note) enters no lane: `RunStore.accept_ended`. The order is the ledger's; a lane here is only a task that takes the session's next run until there
is none. A hint starts it; the sweep finds what a hint missed.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
from anyio.abc import TaskGroup

from crossclaw.domain.aliases import Hints
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Busy, Fenced, NotFound, StoreDamaged
from crossclaw.domain.events import EntryAppended, RunEnded
from crossclaw.domain.ids import entry_id_of
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.runs import NewRun, Outcome, Run
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.ledger.channels import WithdrawWaiting
from crossclaw.ledger.gateways import INTERRUPT, STOP, decode_stop, encode_stop
from crossclaw.ledger.jobs import SettleTick
from crossclaw.ledger.operations import Claimed, Dedupe, NotYet, Op, Recovered, Submitted
from crossclaw.policy.credentials import Credentials
from crossclaw.runs.handling import Ending, RunHandler
from crossclaw.runs.run_store import NOTHING, EndedRun, FollowUps, RunStore
from crossclaw.runs.slots import Slots
from crossclaw.runs.suspects import Suspects
from crossclaw.runs.under_way import INTERRUPTED, STORE_TROUBLE, RunsUnderWay, UnderWay

log = logging.getLogger(__name__)

# A run that does not heed its abort (a tool that shields itself) is ended by force after this.
ABORT_PATIENCE_S = 5.0
ENDED_ELSEWHERE = "ended by way of another gateway"
DAMAGED_MESSAGE = "what it was asked is damaged in the ledger; crossclaw doctor names it"
REST_MIN_S = 0.001  # a clock that stands still must not become a busy loop
END_TRIES = 60  # a minute for a full lane; then the run goes back, and its model is asked again
STORE_PATIENCE_S = 1.0  # between attempts while the ledger cannot write (a full disk)
BLOCKED = "the lane of session %s is blocked, because the store failed; next attempt in %g s: %s"


class Lanes:
    """Starts runs: one at a time in each session, in order. `may_claim` says, of several gateways, whether this one
    takes runs of a session; None: of all."""

    def __init__(
        self,
        run_store: RunStore,
        slots: Slots,
        clock: Clock,
        credentials: Credentials | None = None,
        may_claim: Callable[[SessionKey], bool] | None = None,
    ) -> None:
        self._run_store = run_store
        self._slots = slots
        self._clock = clock
        self._active: dict[SessionKey, bool] = {}
        """The lanes that have a task; True if there was a hint since it last looked."""
        self._under_way = RunsUnderWay(clock, credentials or Credentials())
        self._tasks: TaskGroup | None = None
        self._waiting: set[SessionKey] = set()
        self._suspects = Suspects()
        self._may_claim = may_claim

    # ── from a message to a run under way ──────────────────────────────────────────────────────

    async def submit(
        self,
        new: NewRun,
        session: NewSession,
        *,
        dedupe: Dedupe | None = None,
        before: Sequence[Op[Any]] = (),
        also: Sequence[Op[Any]] = (),
    ) -> Submitted:
        """Accepts a run, what has to happen before and what belongs to it. On return its message is
        durable; it will run, in its lane's order.

        An idle lane is reserved for it, so that the step which accepts it claims it too, and it
        starts at once: reserve, commit, start.
        """
        key, reserved = new.key, self._reserve(new.key)
        claimed: Claimed | NotYet | None = None
        try:
            accepted = await self._run_store.accept(
                new, session, dedupe=dedupe, before=before, also=also, claim=reserved is not None
            )
            claimed = accepted.claimed
        finally:
            if reserved is not None:
                self._start_or_leave(key, reserved, claimed)
        if reserved is None:
            self.wake(key)
        if claimed is None and not accepted.submitted.duplicate and _will_not_wait(new):
            self._under_way.interrupt(key)
            if self._run_store.is_shared:
                await self._run_store.send_hint(INTERRUPT, key.text)
        return accepted.submitted

    def _reserve(self, key: SessionKey) -> TaskGroup | None:
        """Reserves an idle lane with a slot for its run; returns the task group to start it in, or
        None if it is not idle or no slot is free."""
        idle = key not in self._active and key not in self._suspects and self._is_ours(key)
        if self._tasks is None or not idle or not self._slots.take_free(key):
            return None
        self._active[key] = False
        return self._tasks

    def _is_ours(self, key: SessionKey) -> bool:
        return self._may_claim is None or self._may_claim(key)

    def _start_or_leave(
        self, key: SessionKey, reserved: TaskGroup, claimed: Claimed | NotYet | None
    ) -> None:
        hinted = self._active.pop(key, False)
        if isinstance(claimed, Claimed) and self._tasks is reserved:
            self._active[key] = hinted
            self._start(reserved, key, claimed)
            return
        # A run that was claimed while the lanes closed is found by the next start, as after a crash.
        self._slots.give(key)
        if hinted or isinstance(claimed, NotYet):  # it has to wait a little: the lane does
            self.wake(key)

    def wake(self, key: SessionKey) -> None:
        """Looks for work in this session. Cheap, and never wrong to call."""
        if self._tasks is None:
            self._waiting.add(key)
        elif not self._is_ours(key):
            pass  # it is found by those who may, and here when that changes
        elif key in self._active:
            self._active[key] = True
        else:
            self._active[key] = False
            self._start(self._tasks, key)

    async def serve(
        self,
        handler: RunHandler,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Takes over what was left, then lets `handler` execute runs."""
        self._handler = handler
        try:
            async with anyio.create_task_group() as tasks:
                self._waiting.update((await self._recover()).keys)
                self._tasks = tasks
                for key in self._waiting:
                    self.wake(key)
                self._waiting.clear()
                task_status.started()
                while True:
                    await self._let_suspects_begin()
                    await self._suspects.wait_for_more()
        finally:
            self._tasks = None
            self._active.clear()

    @property
    def at_work(self) -> bool:
        """Whether a run is under way in this process. Guests' runs do not count: they continue
        without us."""
        return any(not run.key.is_guest for run in self._under_way.runs)

    def paused(self, run_id: str) -> AbstractContextManager[None]:
        """A context in which a run waits for a person, and its own time does not pass."""
        return self._under_way.paused(run_id)

    @property
    def under_way(self) -> list[Run]:
        """The runs that this process executes now."""
        return self._under_way.runs

    async def abort(self, run_id: str, reason: str) -> bool:
        """Stops a run, wherever it is; False if it had ended before. Durable on return."""
        under_way = self._under_way.find(run_id)
        if under_way is not None:
            under_way.stop(Outcome("aborted", error=reason))
            with anyio.move_on_after(ABORT_PATIENCE_S):
                await under_way.over.wait()
                return under_way.ended_as == "aborted"
        outcome = Outcome("aborted", error=reason)
        run = await self._run_store.find(run_id)
        if run is not None and under_way is None and await self._stopped_elsewhere(run, reason):
            return True
        if run is not None and run.merged_into is not None and not run.ended:
            return await self.abort(run.merged_into, reason)  # there is one answer to stop
        follow = NOTHING if run is None or run.ended else await self._handler.follow(run, outcome)
        ended = await self._end_open(run_id, outcome, follow)
        if ended and (begun := self._under_way.find(run_id)) is not None:
            begun.stop(outcome)
        return ended

    async def withdraw(self, op: WithdrawWaiting) -> bool:
        """Withdraws a waiting message for its sender; False if it does not wait any more."""
        ended = await self._run_store.withdraw(op)
        for run in ended:
            self.wake(run.key)  # whoever is behind it may have waited for it
        return bool(ended)

    async def _stopped_elsewhere(self, run: Run, reason: str) -> bool:
        """Whether the gateway that executes the run has stopped it. One that does not do so in time
        is ignored."""
        if not self._run_store.is_shared or run.ended or run.status == "queued":
            return False
        await self._run_store.send_hint(STOP, encode_stop(run.run_id, reason))
        ended = await self._run_store.wait(run.run_id, ABORT_PATIENCE_S)
        return ended is not None and ended.status == "aborted"

    def on_stop_hint(self, stops: Hints | None) -> None:
        """Stops the runs that were aborted through other gateways."""
        for run_id, reason in map(decode_stop, stops or ()):
            if (under_way := self._under_way.find(run_id)) is not None:
                under_way.stop(Outcome("aborted", error=reason))

    def on_interrupt_hint(self, keys: Hints | None) -> None:
        """Interrupts runs for which an interrupting message came through another gateway."""
        for key in {run.key for run in self.under_way if run.key.text in (keys or ())}:
            self._under_way.interrupt(key)

    def on_end_hint(self, run_ids: Hints | None) -> None:
        """Stops executing runs that others have ended."""
        for run_id in run_ids or ():
            if (under_way := self._under_way.find(run_id)) is not None:
                under_way.stop(Outcome("aborted", error=ENDED_ELSEWHERE))

    async def abort_session(self, key: SessionKey, reason: str) -> list[str]:
        """Stops all of a session's runs."""
        return await self.abort_runs(await self._run_store.list_open(key), reason)

    async def abort_runs(self, open_runs: Sequence[Run], reason: str) -> list[str]:
        """Stops runs of one session, the newest first, so that none begins meanwhile."""
        stopped = [
            run.run_id
            for run in reversed(open_runs)
            if run.merged_into is None and await self.abort(run.run_id, reason)
        ]
        return stopped + [run.run_id for run in open_runs if run.merged_into in stopped]

    async def take_over(self) -> None:
        """Continues the runs of gateways whose lease has expired: suspects here, all others
        wherever they are found first."""
        recovered = await self._recover()
        for key in (key for group in recovered.groups for key in group):
            self.wake(key)

    # ── inside ─────────────────────────────────────────────────────────────────────────────────

    async def _recover(self) -> Recovered:
        recovered = await self._run_store.recover()
        if recovered.gone:
            log.info(
                "gateway %s is gone; runs of it that are taken over: %d",
                ", ".join(recovered.gone),
                recovered.runs,
            )
        for run in recovered.given_up:
            log.warning("run %s is given up: the gateway ended each time with it", run.run_id)
            await self._give_up(run)
        self._suspects.put(recovered.groups, recovered.window_ms / 1000)
        if self._suspects:
            log.warning(
                "%d sessions had a run under way when the gateway ended, some of them twice in a row; they "
                "go on in %d groups, %g s apart at most, to find out which one ends it",
                len(self._suspects),
                len(recovered.groups),
                recovered.window_ms / 1000,
            )
        return recovered

    async def _let_suspects_begin(self) -> None:
        if self._suspects and self._tasks is not None:
            self._tasks.start_soon(self._suspects.note_uptimes, self._note_uptime)
            with self._run_store.listening_to(self._suspects.on_event, EntryAppended, RunEnded):
                await self._suspects.serve()

    async def _note_uptime(self, uptime_ms: int) -> None:
        try:
            await self._run_store.note_uptime(uptime_ms)
        except STORE_TROUBLE as error:
            log.warning("how long this process has lived was not noted: %s", error)

    async def _give_up(self, run: Run) -> None:
        error = f"given up after {run.attempt} attempts that each ended with the process"
        await self._end_in_error(run, error)

    async def _end_in_error(self, run: Run, error: str) -> None:
        """Ends a run with an error, in its transcript and for whatever depends on the end: an
        exchange, a parent, a job."""
        outcome = Outcome("error", error=error)
        last_words = AssistantMessage([], self._clock.now_ms(), stop_reason="error", error=error)
        entry = NewEntry(entry_id=entry_id_of("end", run.run_id), message=last_words)
        try:
            follow = await self._handler.follow(run, outcome)
            await self._end_open(run.run_id, outcome, follow, [entry])
        except STORE_TROUBLE:
            raise
        except Exception:
            log.exception("run %s ends, and what should follow from it is lost", run.run_id)
            await self._end_open(run.run_id, outcome, self._tick_over(run, error), [entry])

    async def _end_open(
        self, run_id: str, outcome: Outcome, follow: FollowUps, entries: Sequence[NewEntry] = ()
    ) -> bool:
        ended = await self._run_store.end_open(run_id, outcome, follow, entries)
        self._wake_what_follows(ended)
        return ended is not None

    def _wake_what_follows(self, ended: EndedRun | None) -> None:
        for key in ended.to_wake if ended is not None else ():
            self.wake(key)

    def _tick_over(self, run: Run, error: str) -> FollowUps:
        """The end of the run's tick, if it has one: without it the job would not run again."""
        tick = run.plan.tick
        at = self._clock.now_ms()
        return FollowUps(
            [SettleTick(tick=tick, status="error", at=at, summary=error)] if tick else ()
        )

    def _start(self, tasks: TaskGroup, key: SessionKey, claimed: Claimed | None = None) -> None:
        tasks.start_soon(self._drain, key, claimed, name=f"lane {key.text}")

    async def _drain(self, key: SessionKey, claimed: Claimed | None) -> None:
        if claimed is not None:
            await self._take_over(key, claimed)
        else:
            await self._suspects.wait_for_turn(key)
            await self._take_one(key)
        # A hint may come while it is looked: the look is older than the hint.
        while self._active[key] or await self._may_have_more(key) or self._active[key]:
            if not await self._take_one(key) and not self._active[key]:
                break
        del self._active[key]

    async def _may_have_more(self, key: SessionKey) -> bool:
        """Whether the session may have open runs. Looking is cheaper than an empty claim."""
        try:
            return await self._run_store.has_open(key)
        except STORE_TROUBLE as error:
            log.error(BLOCKED, key, STORE_PATIENCE_S, error)
            await anyio.sleep(STORE_PATIENCE_S)
            return True

    async def _take_over(self, key: SessionKey, claimed: Claimed) -> None:
        try:
            # Whoever submitted it is answered first. Not to be stopped here: nobody would release it.
            await anyio.lowlevel.cancel_shielded_checkpoint()
            self._run_store.publish_start(claimed)
            await self._keep_going(claimed.run)
        finally:
            self._slots.give(key)

    async def _take_one(self, key: SessionKey) -> bool:
        self._active[key] = False
        async with self._slots.hold(key):
            taken = await self._take_next(key)
        if isinstance(taken, NotYet):
            left_s = (taken.until - self._clock.now_ms()) / 1000
            await anyio.sleep(max(REST_MIN_S, left_s))
        return bool(taken)

    async def _take_next(self, key: SessionKey) -> bool | NotYet:
        if not self._is_ours(key):
            return False
        try:
            with anyio.CancelScope(shield=True):  # a claim that nobody hears of is never given back
                claimed = await self._run_store.claim(key)
        except STORE_TROUBLE as error:
            await self._wait_for_store(key, error)
            return True
        if isinstance(claimed, Claimed):
            self._run_store.publish_start(claimed)
            await self._keep_going(claimed.run)
            return True
        return claimed or False

    async def _wait_for_store(self, key: SessionKey, error: Exception) -> None:
        if not await self._pass_damage(key, error):
            log.error(BLOCKED, key, STORE_PATIENCE_S, error)
            await anyio.sleep(STORE_PATIENCE_S)

    async def _pass_damage(self, key: SessionKey, error: Exception) -> bool:
        """Whether the lane can go on because the unreadable runs in it were ended: waiting would
        not help."""
        if not isinstance(error, StoreDamaged):
            return False
        try:
            found = await self._run_store.set_aside_damaged(key)
            for run in found:
                log.error("run %s of %s cannot be read and ends; the lane goes on", run.run_id, key)
                if not run.ended:
                    await self._end_in_error(run, DAMAGED_MESSAGE)
                elif over := self._tick_over(run, run.error or "").ops:
                    await self._run_store.follow_up(over)
        except STORE_TROUBLE as trouble:
            log.error("lane %s cannot pass what is damaged in it: %s", key, trouble)
            return False
        return bool(found)

    async def _keep_going(self, run: Run) -> None:
        """Executes a run; whatever happens, the lane can take the next one afterwards."""
        try:
            await self._carry_out(run)
        except Fenced as lost:
            log.info("run %s of %s was ended by force or taken over: %s", run.run_id, run.key, lost)
        except STORE_TROUBLE as error:
            log.error("run %s goes back to its lane: %s", run.run_id, error)
            await self._give_back(run)
            await self._pass_damage(run.key, error)
        except Exception:
            log.exception("the end of run %s could not be followed up", run.run_id)
            await self._end_at_least(run)

    async def _end_at_least(self, run: Run) -> None:
        try:
            await self._end_in_error(run, "internal error at the end of the run")
        except STORE_TROUBLE as error:
            log.error("run %s goes back to its lane: %s", run.run_id, error)
            await self._give_back(run)

    async def _give_back(self, run: Run) -> None:
        while True:
            await anyio.sleep(STORE_PATIENCE_S)
            try:
                return await self._run_store.release(run)
            except STORE_TROUBLE as error:
                log.warning("run %s waits for the ledger: %s", run.run_id, error)

    async def _carry_out(self, run: Run) -> None:
        with self._under_way.carrying(run) as under_way:
            try:
                await self._heed_interruption(under_way)
                self._under_way.stop_fallen(under_way)
                ending = await under_way.to_its_end(self._handler)
                await self._end(run, ending)
                under_way.note_end(ending.outcome.status)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self._release(run)
                raise

    async def _release(self, run: Run) -> None:
        """Gives a run back as the gateway closes. If that fails, the next start finds it, as after
        a crash."""
        try:
            await self._run_store.release(run)
        except STORE_TROUBLE as error:
            log.warning("run %s could not be given back: %s", run.run_id, error)

    async def _heed_interruption(self, under_way: UnderWay) -> None:
        """Stops the run if an interrupting message waits behind it. Only a run that answers a
        person in a chat is stopped for the person's next message."""
        run = under_way.run
        if self._under_way.must_look_behind(run) and run.kind == "chat":
            behind = (await self._run_store.list_open(run.key))[1:]
            if any(_interrupts(other) for other in behind):
                under_way.stop(Outcome("aborted", error=INTERRUPTED))

    async def _end(self, run: Run, ending: Ending) -> None:
        for tries_left in reversed(range(END_TRIES)):
            follow = await self._handler.follow(run, ending.outcome)
            try:
                ended = await self._run_store.end(run, ending.outcome, ending.entries, follow)
                self._wake_what_follows(ended)
                return
            except NotFound:  # a session was deleted since it was asked what follows: ask again
                if not tries_left:
                    raise
            except Busy:  # a lane is full that the next step goes to; its words are said already
                if not tries_left:
                    raise
                await anyio.sleep(STORE_PATIENCE_S)


def _interrupts(run: Run) -> bool:
    queue = run.plan.queue
    return run.status == "queued" and queue is not None and queue.mode == "interrupt"


def _will_not_wait(new: NewRun) -> bool:
    return new.plan.queue is not None and new.plan.queue.mode == "interrupt"
