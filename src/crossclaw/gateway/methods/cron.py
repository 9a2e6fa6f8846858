"""cron.*: jobs, as OpenClaw's clients know them."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from crossclaw.config import Config
from crossclaw.domain.aliases import Filled
from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.errors import Invalid
from crossclaw.domain.jobs import (
    AgentTurn,
    Job,
    JobDelivery,
    JobSchedule,
    JobSpec,
    SessionTarget,
    SystemEvent,
    Tick,
    WakeMode,
)
from crossclaw.domain.states import tick_state
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.policy.hops import begun_by
from crossclaw.schedule.job_patches import JobPatch
from crossclaw.schedule.jobs import Jobs

RUNS_DEFAULT, RUNS_MAX = 200, 5_000  # OpenClaw's
LIST_MAX = 200


class CronListParams(Params, frozen=True):
    include_disabled: bool | None = None
    enabled: Literal["all", "enabled", "disabled"] | None = None
    agent_id: str | None = None
    query: str | None = None
    schedule_kind: Literal["all", "at", "every", "cron"] | None = None
    sort_by: Literal["nextRunAtMs", "updatedAtMs", "name"] = "nextRunAtMs"
    sort_dir: Literal["asc", "desc"] = "asc"
    limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    compact: bool | None = None
    include_delivery_previews: bool | None = None
    include_makers: bool | None = None
    """Ours: whether to add who made each job, and the state of its last tick in our words. OpenClaw's clients
    know a job by its published fields alone, so only whoever asks gets more."""


class CronListResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    jobs: list[dict[str, Any]]
    total: int
    offset: int
    limit: int
    has_more: bool
    next_offset: int | None
    snapshot_revision: str
    """A hash of all that was found, in its order: pages with the same one belong together."""


class CronStatusResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    enabled: bool
    store_path: str
    jobs: int
    next_wake_at_ms: int | None


class AddParams(Params, frozen=True):
    name: Filled
    schedule: JobSchedule
    payload: SystemEvent | AgentTurn
    session_target: SessionTarget | None = None
    wake_mode: WakeMode = "now"
    agent_id: str | None = None
    description: str | None = None
    enabled: bool = True
    delete_after_run: bool | None = None
    delivery: JobDelivery | None = None


class JobParams(Params, frozen=True):
    """Parameters that name a job: by `id`, or as in older clients, by `jobId`."""

    id: Filled | None = None
    job_id: Filled | None = None

    @property
    def which(self) -> str:
        if (self.id is None) == (self.job_id is None):
            raise Invalid("say which job: either id or jobId")
        return self.id or self.job_id or ""


class UpdateParams(JobParams, frozen=True):
    patch: JobPatch = JobPatch()


class CronRunParams(JobParams, frozen=True):
    mode: Literal["due", "force"] = "force"


class RunsParams(JobParams, frozen=True):
    scope: Literal["job", "all"] = "job"
    limit: Annotated[int, msgspec.Meta(ge=1, le=RUNS_MAX)] = RUNS_DEFAULT
    sort_dir: Literal["asc", "desc"] = "desc"
    include_standing: bool | None = None
    """Ours: whether to add the state of each tick, in our words."""


class RemoveResult(Result, frozen=True):
    ok: bool
    removed: bool


class RunResult(Result, frozen=True):
    ok: bool
    ran: bool
    reason: str | None = None
    run_id: str | None = None


class RunsResult(Result, frozen=True):
    entries: list[dict[str, Any]]


NameCredential = Callable[[CredentialRef], tuple[str, bool]]
"""A credential's name for people, and whether it counts as it was then."""


def sorted_credentials(authority: Authority) -> list[CredentialRef]:
    return sorted(authority.made_by, key=lambda maker: maker.credential_id)


class CronMethods:
    def __init__(
        self, config: Config, jobs: Jobs, store: Path, name_credential: NameCredential
    ) -> None:
        self._name_credential = name_credential
        self._config = config
        self._jobs = jobs
        self._store = store

    @method("cron.list", "operator.read", "read", "The jobs.")
    async def list_jobs(self, caller: Caller, params: CronListParams) -> CronListResult:
        found = [job for job in await self._jobs.all() if _wanted(job, params)]
        found.sort(key=_SORTS[params.sort_by], reverse=params.sort_dir == "desc")
        limit = params.limit or max(1, len(found))
        page = found[params.offset : params.offset + limit]
        rest = len(found) - params.offset - len(page)
        return CronListResult(
            jobs=[await self._wire(job, makers=bool(params.include_makers)) for job in page],
            total=len(found),
            offset=params.offset,
            limit=limit,
            has_more=rest > 0,
            next_offset=params.offset + limit if rest > 0 else None,
            snapshot_revision=_revision(found),
        )

    @method(
        "cron.status", "operator.read", "read", "Whether jobs run, and when the next one is due."
    )
    async def status(self, caller: Caller, params: NoParams) -> CronStatusResult:
        jobs = await self._jobs.all()
        due = [job.next_at for job in jobs if job.enabled and job.next_at is not None]
        return CronStatusResult(
            enabled=self._config.cron.enabled,
            store_path=str(self._store),
            jobs=len(jobs),
            next_wake_at_ms=min(due, default=None),
        )

    @method("cron.add", "operator.admin", "change", "Make a job.")
    async def add(self, caller: Caller, params: AddParams) -> dict[str, Any]:
        target: SessionTarget = "main" if isinstance(params.payload, SystemEvent) else "isolated"
        spec = JobSpec(
            name=params.name.strip() or "job",
            schedule=params.schedule,
            payload=params.payload,
            session_target=params.session_target or target,
            wake_mode=params.wake_mode,
            agent_id=params.agent_id,
            description=params.description,
            delete_after_run=params.delete_after_run,
            delivery=params.delivery,
            authority=self._authority(caller),
        )
        return await self._wire(await self._jobs.add(spec, enabled=params.enabled))

    @method("cron.update", "operator.admin", "change", "Change a job.")
    async def update(self, caller: Caller, params: UpdateParams) -> dict[str, Any]:
        authority = self._authority(caller)
        return await self._wire(await self._jobs.update(params.which, params.patch, authority))

    def _authority(self, caller: Caller) -> Authority:
        """The authority of a job that this caller makes or changes. It is stored with the job: when a tick
        arrives, nobody calls."""
        rules = self._config.session.agent_to_agent
        return begun_by(caller.principal.authority, rules, owner=True)

    @method("cron.remove", "operator.admin", "change", "Remove a job.")
    async def remove(self, caller: Caller, params: JobParams) -> RemoveResult:
        return RemoveResult(ok=True, removed=await self._jobs.remove(params.which))

    @method("cron.run", "operator.admin", "run", "Run a job now, or only if it is due.")
    async def run(self, caller: Caller, params: CronRunParams) -> RunResult:
        run_id, reason = await self._jobs.run(params.which, force=params.mode == "force")
        return RunResult(ok=True, ran=run_id is not None, reason=reason, run_id=run_id)

    @method("cron.runs", "operator.read", "read", "What became of a job's ticks, the newest first.")
    async def runs(self, caller: Caller, params: RunsParams) -> RunsResult:
        """The ticks that are over, the newest first, as OpenClaw's log of a job has them."""
        job_id = None if params.scope == "all" else params.which
        ticks = await self._jobs.ticks(job_id, params.limit)
        ended = [tick for tick in ticks if tick.status != "running"]
        entries = [_entry(tick, standing=bool(params.include_standing)) for tick in ended]
        return RunsResult(entries=entries if params.sort_dir == "desc" else entries[::-1])

    async def _wire(self, job: Job, *, makers: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = msgspec.to_builtins(job.spec)
        body.pop("authority", None)
        latest = await self._jobs.latest(job)
        return {
            "id": job.job_id,
            **body,
            "wakeMode": job.spec.wake_mode,
            "enabled": job.enabled,
            **(self._maker(job) if makers else {}),
            "createdAtMs": job.created_at,
            "updatedAtMs": job.updated_at,
            "state": _state(job, latest, standing=makers),
        }

    def _maker(self, job: Job) -> dict[str, Any]:
        """The fields about who made a job, whether its token has been changed since, and why the gateway has
        switched the job off."""
        named = [self._name_credential(maker) for maker in sorted_credentials(job.spec.authority)]
        fields: dict[str, Any] = {"madeBy": [name for name, _stands in named]}
        if job.enabled and not all(stands for _name, stands in named):
            fields["earlierToken"] = True
        if job.off_because is not None:
            fields["offBecause"] = job.off_because
        return fields


_SORTS: dict[str, Any] = {
    "nextRunAtMs": lambda job: (job.next_at is None, job.next_at or 0, job.created_at),
    "updatedAtMs": lambda job: job.updated_at,
    "name": lambda job: job.spec.name.casefold(),
}


def _revision(jobs: Sequence[Job]) -> str:
    seen = [(job.job_id, job.updated_at, job.next_at) for job in jobs]
    return sha256(msgspec.json.encode(seen)).hexdigest()[:16]


def _wanted(job: Job, params: CronListParams) -> bool:
    shown = params.enabled or ("all" if params.include_disabled else "enabled")
    kind = job.spec.schedule.__struct_config__.tag
    words = f"{job.job_id} {job.spec.name} {job.spec.description or ''}".casefold()
    return (
        (shown == "all" or job.enabled == (shown == "enabled"))
        and params.agent_id in (None, job.agent_id)
        and params.schedule_kind in (None, "all", kind)
        and (params.query or "").casefold() in words
    )


def _state(job: Job, latest: Any, *, standing: bool) -> dict[str, Any]:
    state: dict[str, Any] = {"nextRunAtMs": job.next_at}
    running = next((tick for tick in latest if tick.status == "running"), None)
    last = next((tick for tick in latest if tick.status in ("ok", "error", "skipped")), None)
    if running is not None:
        state["runningAtMs"] = running.at
    if last is not None:
        state |= {
            "lastRunAtMs": last.at,
            "lastStatus": last.status,
            "lastError": last.summary if last.status == "error" else None,
            "lastDurationMs": _duration_ms(last),
            "standing": _standing(last) if standing else None,
        }
    return {name: value for name, value in state.items() if value is not None}


def _entry(tick: Tick, *, standing: bool) -> dict[str, Any]:
    """A tick in OpenClaw's shape; a missed one has its word for one that did not run."""
    missed = tick.status == "missed"
    entry = {
        "ts": tick.ended_at or tick.at,
        "jobId": tick.job_id,
        "action": "finished",
        "status": "skipped" if missed else tick.status,
        "error": ("missed" + (f": {tick.summary}" if tick.summary else ""))
        if missed
        else (tick.summary if tick.status in ("error", "skipped") else None),
        "summary": tick.summary if tick.status == "ok" else None,
        "sessionId": tick.session_id,
        "sessionKey": tick.key,
        "runAtMs": tick.at,
        "durationMs": _duration_ms(tick),
        "standing": _standing(tick) if standing else None,
    }
    return {name: value for name, value in entry.items() if value is not None}


def _standing(tick: Tick) -> Any:
    return msgspec.to_builtins(tick_state(tick.status, tick.summary, run_id=tick.run_id))


def _duration_ms(tick: Tick) -> int | None:
    if tick.ended_at is None or tick.started_at is None:
        return None
    return max(0, tick.ended_at - tick.started_at)
