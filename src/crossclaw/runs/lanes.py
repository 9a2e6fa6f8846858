"""Lanes: one run at a time in each session, in order; different sessions side by side.

The order is the ledger's; a lane here is only a task that takes the session's next run until there
is none. A hint starts it; the sweep finds what a hint missed.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import (
    Busy,
    CredentialEnded,
    CrossclawError,
    Fenced,
    NotFound,
    Stopped,
    StoreDamaged,
    StoreError,
)
from crossclaw.domain.events import EntryAppended, RunEnded
from crossclaw.domain.ids import entry_id_of
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.runs import EndStatus, Outcome, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.jobs import SettleTick
from crossclaw.ledger.operations import Claimed, NotYet
from crossclaw.policy.budget import time_is_over
from crossclaw.policy.credentials import ENDED, Credentials
from crossclaw.runs.run_store import NOTHING, Follow, RunStore, Take
from crossclaw.runs.slots import Slots
from crossclaw.runs.suspects import Suspects

log = logging.getLogger(__name__)

# A run that does not heed its abort (a tool that shields itself) is ended over its head after this.
ABORT_PATIENCE_S = 5.0
DAMAGED_MESSAGE = "what it was asked is damaged in the ledger; crossclaw doctor names it"
INTERRUPTED = "interrupted by a newer message"
REST_MIN_S = 0.001  # a clock that stands still must not become a busy loop
END_TRIES = 60  # a minute for a full lane; then the run goes back, and its model is asked again
STORE_PATIENCE_S = 1.0  # between attempts while the ledger cannot write (a full disk)
LIMIT_MS_MAX = 2**53  # of a run; no clock can be set for what a client may write into a number


STORE_TROUBLE = (StoreError, Busy)  # the ledger cannot write now; later it may


class Ending(msgspec.Struct, frozen=True):
    """How a run ended, and its last words, which are stored in the same step."""

    outcome: Outcome
    entries: Sequence[NewEntry] = ()


class WordsSoFar:
    """What a run has said so far in the turn under way: kept when it is cut off."""

    def __init__(self) -> None:
        self.rescue: Callable[[EndStatus, str], Sequence[NewEntry]] = lambda status, error: ()


Execute = Callable[[Run, WordsSoFar], Awaitable[Ending]]
Finished = Callable[[Run, Outcome], Awaitable[Follow]]


class Lanes:
    def __init__(
        self,
        run_store: RunStore,
        slots: Slots,
        clock: Clock,
        credentials: Credentials | None = None,
    ) -> None:
        self._run_store = run_store
        self._credentials = credentials or Credentials()
        self._credentials.listen(self._stop_fallen)
        self._slots = slots
        self._clock = clock
        self._active: dict[SessionKey, bool] = {}
        """Lanes with a task; True: there was a hint since it last looked."""
        self._under_way: dict[str, _UnderWay] = {}
        self._tasks: TaskGroup | None = None
        self._waiting: set[SessionKey] = set()
        self._suspects = Suspects()
        self._interrupted: set[SessionKey] = set()
        """Lanes in which a message came that will not wait for the run under way."""
        run_store.on_work(self.wake, self._taking, self._interrupt)

    def wake(self, key: SessionKey) -> None:
        """There may be work for this session. Cheap, and never wrong to call."""
        if self._tasks is None:
            self._waiting.add(key)
        elif key in self._active:
            self._active[key] = True
        else:
            self._active[key] = False
            self._start(self._tasks, key)

    async def serve(
        self,
        execute: Execute,
        finished: Finished,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take over what was left, then carry out runs with `execute`; `finished` says what follows
        from an end, to be stored with it."""
        self._execute, self._finished = execute, finished
        try:
            async with anyio.create_task_group() as tasks:
                await self._recover()
                self._tasks = tasks
                for key in self._waiting:
                    self.wake(key)
                self._waiting.clear()
                task_status.started()
                await self._let_suspects_begin()
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._active.clear()

    @property
    def at_work(self) -> bool:
        """Whether a run is under way in this process; what a guest does goes on without us."""
        return any(not each.run.key.is_guest for each in self._under_way.values())

    @property
    def under_way(self) -> list[Run]:
        """What this process carries out now."""
        return [each.run for each in self._under_way.values()]

    async def abort(self, run_id: str, reason: str) -> bool:
        """Stop a run, wherever it is; False when it had ended before. Durable on return."""
        under_way = self._under_way.get(run_id)
        if under_way is not None:
            under_way.stop(Outcome("aborted", error=reason))
            with anyio.move_on_after(ABORT_PATIENCE_S):
                await under_way.over.wait()
                return under_way.ended_as == "aborted"
        outcome = Outcome("aborted", error=reason)
        run = await self._run_store.find(run_id)
        if run is not None and run.merged_into is not None and not run.ended:
            return await self.abort(run.merged_into, reason)  # there is one answer to stop
        follow = NOTHING if run is None or run.ended else await self._finished(run, outcome)
        ended = await self._run_store.end_open(run_id, outcome, follow)
        if ended is not None and (begun := self._under_way.get(run_id)) is not None:
            begun.stop(outcome)
        return ended is not None

    async def abort_session(self, key: SessionKey, reason: str) -> list[str]:
        """Stop all of a session's runs, the queued ones first, so that none begins meanwhile."""
        open_runs = await self._run_store.list_open(key)
        stopped = [
            run.run_id
            for run in reversed(open_runs)
            if run.merged_into is None and await self.abort(run.run_id, reason)
        ]
        return stopped + [run.run_id for run in open_runs if run.merged_into in stopped]

    # ── inside ─────────────────────────────────────────────────────────────────────────────────

    async def _recover(self) -> None:
        recovered = await self._run_store.recover()
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
        self._waiting.update(recovered.keys)

    async def _let_suspects_begin(self) -> None:
        if self._suspects:
            with self._run_store.listening_to(self._suspects.hear, EntryAppended, RunEnded):
                await self._suspects.serve()

    async def _give_up(self, run: Run) -> None:
        error = f"given up after {run.attempt} attempts that each ended with the process"
        await self._end_in_error(run, error)

    async def _end_in_error(self, run: Run, error: str) -> None:
        """Said in the transcript and to whoever the end matters to: an exchange, a parent, a job."""
        outcome = Outcome("error", error=error)
        last_words = AssistantMessage([], self._clock.now_ms(), stop_reason="error", error=error)
        entry = NewEntry(entry_id=entry_id_of("end", run.run_id), message=last_words)
        try:
            follow = await self._finished(run, outcome)
            await self._run_store.end_open(run.run_id, outcome, follow, [entry])
        except STORE_TROUBLE:
            raise
        except Exception:
            log.exception("run %s ends, and what should follow from it is lost", run.run_id)
            await self._run_store.end_open(
                run.run_id, outcome, self._tick_over(run, error), [entry]
            )

    def _tick_over(self, run: Run, error: str) -> Follow:
        """A job is never left without the end of its tick: it would not run again."""
        tick = run.plan.tick
        at = self._clock.now_ms()
        return Follow([SettleTick(tick=tick, status="error", at=at, summary=error)] if tick else ())

    @contextmanager
    def _taking(self, key: SessionKey) -> Generator[Take | None]:
        """An idle lane is held for the caller, with a slot for its run."""
        tasks, claims = self._tasks, list[Claimed]()
        if tasks is None or not self._is_free(key):
            yield None
            self.wake(key)
            return
        self._active[key] = False
        try:
            yield claims.append
        finally:
            self._let_go(key, tasks, claims)

    def _is_free(self, key: SessionKey) -> bool:
        idle = key not in self._active and key not in self._suspects
        return idle and self._slots.take_free(key)

    def _let_go(self, key: SessionKey, tasks: TaskGroup, claims: list[Claimed]) -> None:
        hinted = self._active.pop(key, False)
        if claims and self._tasks is tasks:
            self._active[key] = hinted
            self._start(tasks, key, claims[0])
            return
        # A run that was claimed while the lanes closed is found by the next start, as after a crash.
        self._slots.give(key)
        if hinted:
            self.wake(key)

    def _start(self, tasks: TaskGroup, key: SessionKey, claimed: Claimed | None = None) -> None:
        tasks.start_soon(self._drain, key, claimed, name=f"lane {key}")

    async def _drain(self, key: SessionKey, claimed: Claimed | None) -> None:
        if claimed is not None:
            await self._take_over(key, claimed)
        else:
            await self._suspects.wait_for_turn(key)
            await self._take_one(key)
        while self._active[key] or await self._may_have_more(key):
            if not await self._take_one(key) and not self._active[key]:
                break
        del self._active[key]

    async def _may_have_more(self, key: SessionKey) -> bool:
        """To look is cheaper than a claim that finds nothing."""
        try:
            return await self._run_store.has_open(key)
        except STORE_TROUBLE as error:
            log.error("lane %s stands still: %s", key, error)
            await anyio.sleep(STORE_PATIENCE_S)
            return True

    async def _take_over(self, key: SessionKey, claimed: Claimed) -> None:
        try:
            # Whoever submitted it is answered first. Not to be stopped here: nobody would release it.
            await anyio.lowlevel.cancel_shielded_checkpoint()
            self._run_store.tell_start(claimed)
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
        try:
            with anyio.CancelScope(shield=True):  # a claim that nobody hears of is never given back
                claimed = await self._run_store.claim(key)
        except STORE_TROUBLE as error:
            await self._stand_still(key, error)
            return True
        if isinstance(claimed, Claimed):
            self._run_store.tell_start(claimed)
            await self._keep_going(claimed.run)
            return True
        return claimed or False

    async def _stand_still(self, key: SessionKey, error: Exception) -> None:
        if not await self._pass_damage(key, error):
            log.error("lane %s stands still: %s", key, error)
            await anyio.sleep(STORE_PATIENCE_S)

    async def _pass_damage(self, key: SessionKey, error: Exception) -> bool:
        """Whether a lane can go on because what could not be read in it has ended: waiting would not help."""
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
        """Carry out a run; whatever happens, the lane can take the next one afterwards."""
        try:
            await self._carry_out(run)
        except Fenced as lost:
            log.info("a run was ended over its head: %s", lost)
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
        under_way = _UnderWay(run, self._time_left_s(run))
        self._under_way[run.run_id] = under_way
        try:
            if run.epoch > 1 or run.key in self._interrupted:
                await self._heed_interruption(under_way)
            if not self._credentials.stands(run.authority.made_by):
                under_way.stop(Outcome("aborted", error=ENDED))
            ending = await self._run_to_its_end(run, under_way)
            await self._end(run, ending)
            under_way.ended_as = ending.outcome.status
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._run_store.release(run)
            raise
        finally:
            del self._under_way[run.run_id]
            under_way.over.set()

    def _stop_fallen(self) -> None:
        """At once, whatever they do; their end follows."""
        for under_way in self._under_way.values():
            if not self._credentials.stands(under_way.run.authority.made_by):
                under_way.stop(Outcome("aborted", error=ENDED))

    def _interrupt(self, key: SessionKey) -> None:
        """A hint, like any other: a run that begins, or is taken up again, looks by itself."""
        self._interrupted.add(key)
        for under_way in self._under_way.values():
            if under_way.run.key == key and under_way.run.kind == "chat":
                under_way.stop(Outcome("aborted", error=INTERRUPTED))

    async def _heed_interruption(self, under_way: "_UnderWay") -> None:
        """Only what answers a person in the chat gives way to the person's next message."""
        run = under_way.run
        self._interrupted.discard(run.key)
        behind = (await self._run_store.list_open(run.key))[1:] if run.kind == "chat" else []
        if any(_interrupts(other) for other in behind):
            under_way.stop(Outcome("aborted", error=INTERRUPTED))

    async def _end(self, run: Run, ending: Ending) -> None:
        for tries_left in reversed(range(END_TRIES)):
            follow = await self._finished(run, ending.outcome)
            try:
                await self._run_store.end(run, ending.outcome, ending.entries, follow)
                return
            except NotFound:  # a session was deleted since it was asked what follows: ask again
                if not tries_left:
                    raise
            except Busy:  # a lane is full that the next step goes to; its words are said already
                if not tries_left:
                    raise
                await anyio.sleep(STORE_PATIENCE_S)

    async def _run_to_its_end(self, run: Run, under_way: "_UnderWay") -> Ending:
        progress = WordsSoFar()
        if under_way.stopped_as is not None:
            return _cut_off(progress, under_way.stopped_as)
        with under_way.scope:
            try:
                return await self._execute(run, progress)
            except (Fenced, Stopped, *STORE_TROUBLE):
                raise
            except CredentialEnded as ended:
                return _cut_off(progress, Outcome("aborted", error=str(ended)))
            except CrossclawError as error:
                return _cut_off(progress, Outcome("error", error=str(error)))
            except Exception as error:
                log.exception("run %s failed", run.run_id)
                return _cut_off(
                    progress, Outcome("error", error=f"internal error: {type(error).__name__}")
                )
        return _cut_off(progress, under_way.stopped_as or _over_time(run))

    def _time_left_s(self, run: Run) -> float | None:
        ends_at = _ends_at(run, self._clock.now_ms())
        return None if ends_at is None else max(0.0, (ends_at - self._clock.now_ms()) / 1000)


class _UnderWay:
    """A run that this process carries out, and the way to stop it."""

    def __init__(self, run: Run, time_left_s: float | None) -> None:
        self.run = run
        self.scope = anyio.CancelScope()
        if time_left_s is not None:
            self.scope.deadline = anyio.current_time() + time_left_s
        self.over = anyio.Event()
        self.stopped_as: Outcome | None = None
        self.ended_as: EndStatus | None = None

    def stop(self, outcome: Outcome) -> None:
        self.stopped_as = outcome
        self.scope.cancel()


def _interrupts(run: Run) -> bool:
    queue = run.plan.queue
    return run.status == "queued" and queue is not None and queue.mode == "interrupt"


def _cut_off(progress: WordsSoFar, outcome: Outcome) -> Ending:
    entries = progress.rescue(outcome.status, outcome.error or outcome.status)
    said = [e.message.text for e in entries if isinstance(e.message, AssistantMessage)]
    return Ending(msgspec.structs.replace(outcome, reply="".join(said) or None), entries)


def _ends_at(run: Run, now_ms: int) -> int | None:
    """When its own time is over, or that of its budget."""
    limit = run.plan.timeout_ms
    # Taken up again after a stop or a crash it has its whole time: nobody worked meanwhile.
    began = run.started_at if run.started_at is not None and run.epoch <= 1 else now_ms
    own = None if limit is None else began + min(limit, LIMIT_MS_MAX)
    budget = run.cause.purse.ends_at_ms if run.cause.purse else None
    return min((at for at in (own, budget) if at is not None), default=None)


def _over_time(run: Run) -> Outcome:
    purse = run.cause.purse
    if purse is not None and purse.ends_at_ms == _ends_at(run, run.created_at):
        return Outcome("error", error=time_is_over(purse))
    seconds = (run.plan.timeout_ms or 0) / 1000
    return Outcome("timeout", error=f"the run was stopped after {seconds:g} s")
