"""The clockwork: finds the jobs that are due and takes their ticks.

A tick is one step of the ledger: its row, its run and the job's next time, or nothing of it. Of the ticks that
are due, the latest runs and the others are stored as missed: after an hour of downtime, after a clock that was
set forward, and after a run that took longer than the job's interval alike. The latest is never left out, so
nothing that was due is lost silently.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import tzinfo

import anyio
import anyio.abc
import msgspec

from crossclaw.domain.aliases import Hints
from crossclaw.domain.errors import (
    Busy,
    CrossclawError,
    Fenced,
    Invalid,
    KeyReused,
    NotFound,
    TickTaken,
)
from crossclaw.domain.events import FeedEvent, HeartbeatNews, JobNews, RunEnded
from crossclaw.domain.jobs import Job, Tick, TickId, beyond_heartbeat
from crossclaw.domain.runs import Run
from crossclaw.ledger.jobs import MoveJob, SettleTick, SwitchOffJob, TakeTick
from crossclaw.runs.context import ServiceContext
from crossclaw.schedule.heartbeats import PREFIX, Heartbeats
from crossclaw.schedule.job_runs import JobRuns
from crossclaw.schedule.times import DueTicks, due_since, next_after
from crossclaw.sessions.intake import Intake

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 5.0  # a clock that was set, or a hint that was missed, is noticed within this time
PAUSE_MIN_S = 0.02
SET_BACK_MS = 1_000  # less is what clocks are corrected by all day
JOBS_AT_ONCE = 200  # a page of due jobs; the next follows at once
TAKEN = (TickTaken, KeyReused)  # the latter when its tick is no longer kept, but its run is
CREDENTIAL_GONE = (
    "the credential that made this job was revoked or removed; switch the job on to take it over"
)
BY_HAND_TRIES = 100  # milliseconds that may be taken already when a job is run by hand


CountInThread = Callable[..., Awaitable[DueTicks]]
"""Calls a function that may take a while to count: a gap of years holds many ticks."""


class Clockwork:
    def __init__(
        self,
        context: ServiceContext,
        intake: Intake,
        job_runs: JobRuns,
        heartbeats: Heartbeats,
        local: tzinfo,
        counted: CountInThread,
    ) -> None:
        self._ledger = context.ledger
        self._intake = intake
        self._feed = context.feed
        self._job_runs = job_runs
        self._heartbeats = heartbeats
        self._clock = context.clock
        self._local = local
        self._credentials = context.credentials
        self._config = context.config
        self._counted = counted
        self._hint = anyio.Event()
        self._ahead_ms: float | None = None
        """How far the wall clock was ahead of the time that only goes forward, at the last look."""
        context.feed.subscribe(self.on_event, RunEnded)

    def wake(self) -> None:
        self._hint.set()

    def on_job_hint(self, jobs: Hints | None) -> None:
        """Reacts to another gateway that has made or changed a job, or ended the run of one."""
        if jobs:
            self.wake()

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        await self._heartbeats.settle_in()
        task_status.started()
        while True:
            self._hint = anyio.Event()
            try:
                await self.once()
                pause_s = await self._pause_s()
            except CrossclawError as error:
                log.warning("the job scheduler tries again in %g s: %s", LOOK_AGAIN_S, error)
                pause_s = LOOK_AGAIN_S
            with anyio.move_on_after(pause_s):
                await self._hint.wait()

    async def once(self) -> None:
        if self._was_set_back():
            await self._look_back()
        now = self._clock.now_ms()
        for job in await self._ledger.list_due_jobs(due_before=now, limit=JOBS_AT_ONCE):
            await self._look_at(job, now)

    def _was_set_back(self) -> bool:
        """Whether the clock was set back since the last look; true at the first one, when it is unknown."""
        ahead_ms, before = self._clock.now_ms() - anyio.current_time() * 1000, self._ahead_ms
        self._ahead_ms = ahead_ms
        return before is None or ahead_ms < before - SET_BACK_MS

    async def _look_back(self) -> None:
        """Moves jobs' next times back after a clock was set back: ticks of the time that comes again are due
        once more, but for those that were taken. Without this, a clock that was ahead for a moment would
        silence jobs until that moment."""
        now = self._clock.now_ms()
        for job in await self._ledger.list_jobs():
            if not job.enabled or job.next_at is None or job.next_at <= now:
                continue
            try:
                sooner = next_after(job.spec.schedule, now, job.created_at, self._local)
                if sooner is not None and sooner < job.next_at:
                    await self._ledger.do(MoveJob(job=job, next_at=sooner))
            except (Fenced, Invalid) as error:
                log.info("job %s keeps its time: %s", job.job_id, error)

    async def _pause_s(self) -> float:
        """The time until the next tick. A tick that is due while the job's last run is under way is not counted:
        the end of that run wakes this loop."""
        now = self._clock.now_ms()
        next_at = await self._ledger.next_job_at(after=now)
        if next_at is None:
            return LOOK_AGAIN_S
        return min(LOOK_AGAIN_S, max(PAUSE_MIN_S, (next_at - now) / 1000))

    # ── a tick ─────────────────────────────────────────────────────────────────────────────────

    async def _look_at(self, job: Job, now: int) -> None:
        assert job.next_at is not None
        try:
            if (why := self._why_not(job)) is not None:
                return await self._switch_off(job, why)
            if await self.is_running(job) or not await self._has_place():
                return None
            schedule, made_at = job.spec.schedule, job.created_at
            due = await self._counted(due_since, schedule, job.next_at, now, made_at, self._local)
            next_at = next_after(schedule, max(now, due.latest), made_at, self._local)
            skip = await self._heartbeats.reason_to_skip(job) if job.built_in else None
            await self._take(job, due, next_at, skip)
        except Fenced:
            self.wake()  # changed meanwhile: the next look sees it as it is now
        except (Busy, NotFound) as error:
            log.info("job %s waits: %s", job.job_id, error)
        except Invalid as error:
            await self._switch_off(job, str(error))

    def _why_not(self, job: Job) -> str | None:
        """Why a job can never run again as it is."""
        if not self._credentials.lasts(job.spec.authority.made_by):
            return CREDENTIAL_GONE
        if self._config.agents.find(job.agent_id) is None:
            return f"its agent {job.agent_id} is no longer configured"
        return None

    async def _switch_off(self, job: Job, reason: str) -> None:
        """Switches off a job that cannot run (its agent or its maker is gone, a zone that this machine does
        not know) and reports it once, so that the other jobs go on."""
        log.warning("job %s is switched off: %s", job.job_id, reason)
        now, at = self._clock.now_ms(), job.next_at or 0
        tick = Tick(job_id=job.job_id, at=at, status="error", summary=reason, ended_at=now)
        try:
            await self._ledger.commit(
                SwitchOffJob(job=job, reason=reason, at=now),
                TakeTick(job=job, tick=tick, next_at=None, moves=False),
            )
        except TAKEN:
            await self._ledger.do(SwitchOffJob(job=job, reason=reason, at=now))
        self._feed.publish(JobNews(job_id=job.job_id, action="updated"))

    async def _take(self, job: Job, due: DueTicks, next_at: int | None, skip: str | None) -> None:
        missed = _missed(job, due, self._clock.now_ms())
        try:
            if skip is None:
                await self._begin(job, due.latest, next_at, missed)
            else:
                await self._skip(job, due.latest, next_at, skip)
        except TAKEN:
            await self._ledger.do(MoveJob(job=job, next_at=next_at))

    async def _begin(
        self,
        job: Job,
        at: int,
        next_at: int | None,
        missed: tuple[Tick, ...],
        *,
        moves: bool = True,
    ) -> str:
        tick_id = TickId(job.job_id, at)
        arrival, now = await self._job_runs.begin(job, tick_id), self._clock.now_ms()
        tick = Tick(
            job_id=job.job_id,
            at=at,
            status="ok" if arrival.waits else "running",
            run_id=arrival.run_id,
            ended_at=now if arrival.waits else None,
        )
        # The tick first: of two that begin at one moment, the other one hears that it is taken.
        taken = TakeTick(job=job, tick=tick, next_at=next_at, moves=moves, missed=missed)
        done = [SettleTick(tick=tick_id, status="ok", at=now)] if arrival.waits else []
        received = await self._intake.require(
            msgspec.structs.replace(
                arrival, before=[taken], also=lambda new: [*arrival.also(new), *done]
            )
        )
        if not job.built_in:
            self._feed.publish(JobNews(job_id=job.job_id, action="started", run_at_ms=at))
            if arrival.waits:
                self._feed.publish(
                    JobNews(
                        job_id=job.job_id,
                        action="finished",
                        run_at_ms=at,
                        status="ok",
                        next_run_at_ms=next_at,
                    )
                )
        return received.run_id

    async def _skip(self, job: Job, at: int, next_at: int | None, reason: str) -> None:
        now = self._clock.now_ms()
        tick = Tick(job_id=job.job_id, at=at, status="skipped", summary=reason, ended_at=now)
        await self._ledger.do(TakeTick(job=job, tick=tick, next_at=next_at))
        self._feed.publish(
            HeartbeatNews(ts=now, status="skipped", agent_id=job.agent_id, reason=reason)
        )

    async def run_by_hand(self, job: Job) -> str:
        """Runs a job now, whatever the schedule says, and without changing it. Returns the run."""
        now = self._clock.now_ms()
        for at in range(now, now + BY_HAND_TRIES):
            try:
                return await self._begin(job, at, None, (), moves=False)
            except TAKEN:
                continue
        raise Busy(f"job {job.job_id} was run {BY_HAND_TRIES} times within this moment")

    async def is_running(self, job: Job) -> bool:
        """Whether a run of this job is open. A tick whose run has ended without it is settled."""
        running = False
        for tick in await self._ledger.list_ticks(job.job_id, limit=10, status="running"):
            run = await self._ledger.find_run(tick.run_id or "")
            if run is not None and not run.ended:
                running = True
                continue
            ok = run is not None and run.status == "ok"
            await self._ledger.do(
                SettleTick(
                    tick=TickId(tick.job_id, tick.at),
                    status="ok" if ok else "error",
                    at=self._clock.now_ms(),
                    summary=run.error if run is not None else "its run is gone",
                )
            )
        return running

    async def _has_place(self) -> bool:
        """Whether `cron.maxConcurrentRuns`, if it is set, allows another run."""
        runs_at_once = self._config.cron.max_concurrent_runs
        return runs_at_once is None or await self._ledger.count_ticks_under_way() < runs_at_once

    # ── telling ────────────────────────────────────────────────────────────────────────────────

    def on_event(self, event: FeedEvent) -> None:
        if not isinstance(event, RunEnded) or (tick := event.run.plan.tick) is None:
            return
        self.wake()
        if event.run.started_at is None and event.run.status == "ok":
            return  # words that wait for the next run: whoever has begun the tick tells of its end
        if tick.job_id.startswith(PREFIX):
            self._feed.publish(_beat_news(event.run))
        else:
            self._feed.publish(_finished_news(event.run, tick))


def _missed(job: Job, due: DueTicks, now: int) -> tuple[Tick, ...]:
    text = f"this and all ticks until {due.latest}" if due.uncounted else None
    return tuple(
        Tick(job_id=job.job_id, at=at, status="missed", summary=text, ended_at=now)
        for at in due.missed
    )


def _finished_news(run: Run, tick: TickId) -> JobNews:
    ok = run.status == "ok"
    return JobNews(
        job_id=tick.job_id,
        action="finished",
        run_at_ms=tick.at,
        duration_ms=_duration_ms(run),
        status="ok" if ok else "error",
        error=None if ok else run.error,
        summary=run.reply,
        session_id=run.session_id,
        session_key=run.key.shown,
    )


def _beat_news(run: Run) -> HeartbeatNews:
    words = beyond_heartbeat(run.reply or "", run.plan.ack_chars_max or 0)
    said = "sent" if words else "ok-token" if run.reply else "ok-empty"
    return HeartbeatNews(
        ts=run.ended_at or 0,
        status="failed" if run.status != "ok" else said,  # type: ignore[arg-type]
        agent_id=run.key.agent_id,
        reason=run.error,
        preview=words[:200] or None,
        duration_ms=_duration_ms(run),
    )


def _duration_ms(run: Run) -> int:
    return max(0, (run.ended_at or 0) - (run.started_at or run.created_at))
