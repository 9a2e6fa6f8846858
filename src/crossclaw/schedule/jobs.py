"""The job store: makes, changes, removes and runs jobs, and publishes what happens to them."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any

import msgspec

from crossclaw.channels.accounts import LiveAccounts
from crossclaw.channels.registry import channel_name
from crossclaw.domain.addresses import Address
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Busy, Invalid, NotFound
from crossclaw.domain.events import JobNews
from crossclaw.domain.jobs import AgentTurn, At, Job, JobDelivery, JobSpec, SystemEvent, Tick
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.jobs import DeleteJob, PutJob
from crossclaw.runs.context import ServiceContext
from crossclaw.schedule.clockwork import CREDENTIAL_GONE, Clockwork
from crossclaw.schedule.job_patches import JobPatch, patched_fields
from crossclaw.schedule.job_runs import no_channel, wanted_delivery
from crossclaw.schedule.lengths import check_lengths
from crossclaw.schedule.times import check, next_after

JOBS_MAX = 10_000  # each is looked at by people and by the clockwork; more is a program's work

JUST_NOW_MS = 60_000  # "at this minute", said a moment later, is still meant


class Jobs:
    def __init__(
        self,
        context: ServiceContext,
        clockwork: Clockwork,
        channels: LiveAccounts,
        check_model: Callable[[str], str],
        local: tzinfo,
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._clockwork = clockwork
        self._channels = channels
        self._credentials = context.credentials
        self._check_model = check_model
        self._feed = context.feed
        self._clock = context.clock
        self._ids = context.ids
        self._local = local

    async def all(self) -> list[Job]:
        return [job for job in await self._ledger.list_jobs() if not job.built_in]

    async def get(self, job_id: str) -> Job:
        job = await self._ledger.find_job(job_id.strip())
        if job is None or job.built_in:
            raise NotFound(f"unknown cron job id: {job_id}")
        return job

    async def add(self, spec: JobSpec, *, enabled: bool) -> Job:
        if len(await self._ledger.list_jobs()) >= JOBS_MAX:
            raise Busy(f"there are {JOBS_MAX} jobs; remove some first")
        now, complete = self._clock.now_ms(), _completed(spec)
        self._check(complete)
        self._check_channel(complete)
        complete = self._with_model(complete)
        grace_ms = JUST_NOW_MS if isinstance(spec.schedule, At) else 0
        job = Job(
            job_id=self._ids.new(),
            agent_id=self._agent(complete),
            spec=complete,
            enabled=enabled,
            next_at=self._next_at(complete, now - grace_ms, now) if enabled else None,
            created_at=now,
            updated_at=now,
        )
        return await self._put(job, "added")

    async def update(self, job_id: str, patch: JobPatch, authority: Authority) -> Job:
        """Changes a job. Whoever does answers for it: its runs may what both its maker and they may."""
        job = await self.get(job_id)
        changes = patched_fields(job, patch)
        enabled = changes.pop("enabled", job.enabled)
        both = job.spec.authority.meet(authority)
        if enabled and not self._credentials.lasts(job.spec.authority.made_by):
            # Who switches it on again takes it over from a maker that is gone, with that one's limits.
            both = msgspec.structs.replace(both, made_by=authority.made_by)
        spec = msgspec.structs.replace(job.spec, **changes, authority=both)
        self._check(spec)
        if wanted_delivery(spec) != wanted_delivery(job.spec):
            self._check_channel(spec)
        if _model_of(spec) != _model_of(job.spec):
            spec = self._with_model(spec)
        agent_id = await self._agent_of_change(job, spec, enabled)
        now = max(self._clock.now_ms(), job.updated_at + 1)  # each state of a job has its own name
        again = spec.schedule != job.spec.schedule or enabled != job.enabled
        next_at = job.next_at if not again else self._next_at(spec, now, job.created_at)
        changed = Job(
            job_id=job.job_id,
            agent_id=agent_id,
            spec=spec,
            enabled=enabled,
            next_at=next_at if enabled else None,
            created_at=job.created_at,
            updated_at=now,
            off_because=None if enabled or job.enabled else job.off_because,
        )
        return await self._put(changed, "updated")

    async def remove(self, job_id: str) -> bool:
        job = await self._ledger.find_job(job_id.strip())
        if job is None or job.built_in:
            return False
        removed = await self._ledger.do(DeleteJob(job_id=job.job_id))
        if removed:
            self._feed.publish(JobNews(job_id=job.job_id, action="removed"))
        return removed

    async def run(self, job_id: str, *, force: bool) -> tuple[str | None, str | None]:
        """Runs a job; returns the run, or why there is none."""
        job = await self.get(job_id)
        if not self._credentials.lasts(job.spec.authority.made_by):
            raise Invalid(f"{CREDENTIAL_GONE}, or remove it")
        if await self._clockwork.is_running(job):
            return None, "already-running"
        if not force:
            due = job.enabled and job.next_at is not None and job.next_at <= self._clock.now_ms()
            if not due:
                return None, "not-due"
        return await self._clockwork.run_by_hand(job), None

    async def ticks(self, job_id: str | None, limit: int) -> list[Tick]:
        return await self._ledger.list_ticks(job_id, limit=limit)

    async def latest(self, job: Job) -> Sequence[Tick]:
        return await self._ledger.list_ticks(job.job_id, limit=20)

    async def _put(self, job: Job, action: Any) -> Job:
        await self._ledger.do(PutJob(job=job))
        self._clockwork.wake()
        self._feed.publish(JobNews(job_id=job.job_id, action=action, next_run_at_ms=job.next_at))
        return job

    def _agent(self, spec: JobSpec) -> str:
        return self._config.agents.get(spec.agent_id or self._config.agents.default_id).id

    async def _agent_of_change(self, job: Job, spec: JobSpec, enabled: bool) -> str:
        """The agent of a changed job. One whose agent is gone can still be changed and switched off, not on."""
        named = normalize_agent_id(spec.agent_id or self._config.agents.default_id)
        if spec.agent_id == job.spec.agent_id:
            named = job.agent_id
        if named != job.agent_id or (enabled and not job.enabled):
            self._config.agents.get(named)
        if named != job.agent_id:
            await self._refuse_another_agent(job)
        return named

    def _check(self, spec: JobSpec) -> None:
        check_spec(spec, self._local)

    def _check_channel(self, spec: JobSpec) -> None:
        """Refuses an unknown channel in a new job; an imported one may name a channel that is not here."""
        wanted = wanted_delivery(spec)
        if not wanted or wanted.channel in (None, "last"):
            return
        if channel_name(wanted.channel) not in self._channels:
            raise Invalid(no_channel(wanted.channel, self._channels))
        where = Address(channel_name(wanted.channel), wanted.to or "", wanted.account_id)
        if wanted.account_id is not None and not self._channels.may_open(where):
            raise Invalid(f"no account {wanted.account_id!r} of {where.channel} is set up")

    def _with_model(self, spec: JobSpec) -> JobSpec:
        """The spec with the reference of the model it names; raises if that may not be chosen."""
        turn, name = spec.payload, _model_of(spec)
        if not isinstance(turn, AgentTurn) or not name:
            return spec
        chosen = msgspec.structs.replace(turn, model=self._check_model(name))
        return msgspec.structs.replace(spec, payload=chosen)

    def _next_at(self, spec: JobSpec, after: int, made_at: int) -> int:
        next_at = next_after(spec.schedule, after, made_at, self._local)
        if next_at is None:
            raise Invalid("this schedule has no time to come; choose a later one")
        return next_at

    async def _refuse_another_agent(self, job: Job) -> None:
        if await self._ledger.find_session(SessionKey.cron(job.agent_id, job.job_id)):
            raise Invalid(
                f"this job has a session of agent {job.agent_id}; to give it to another agent, remove "
                "the job and add it anew"
            )


def check_spec(spec: JobSpec, local: tzinfo) -> None:
    """Raises if a job cannot be carried out, with what would work."""
    check_lengths(spec)
    check(spec.schedule, local)
    if spec.session_target == "main" and not isinstance(spec.payload, SystemEvent):
        raise Invalid('main cron jobs require payload.kind="systemEvent"')
    if spec.session_target == "isolated" and not isinstance(spec.payload, AgentTurn):
        raise Invalid('isolated cron jobs require payload.kind="agentTurn"')
    if spec.delivery is not None and spec.session_target == "main":
        raise Invalid('cron delivery config is only supported for sessionTarget="isolated"')


def _model_of(spec: JobSpec) -> str | None:
    return spec.payload.model if isinstance(spec.payload, AgentTurn) else None


def _completed(spec: JobSpec) -> JobSpec:
    """The spec with OpenClaw's defaults for what a client leaves out."""
    changes: dict[str, Any] = {}
    if isinstance(spec.schedule, At) and spec.delete_after_run is None:
        changes["delete_after_run"] = True
    turn = spec.payload
    if isinstance(turn, AgentTurn) and spec.delivery is None:
        hinted = turn.deliver is not None or turn.best_effort_deliver is not None or turn.to
        if not hinted:
            changes["delivery"] = JobDelivery(mode="announce")
    return msgspec.structs.replace(spec, **changes)
