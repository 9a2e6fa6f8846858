"""Heartbeats: the built-in jobs, made from the config. An agent checks what needs attention; HEARTBEAT_OK is
silence."""

import logging
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path

from crossclaw.config.heartbeat import EVERY, ActiveHours, HeartbeatConfig
from crossclaw.disk.threads import Disk
from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority
from crossclaw.domain.durations import parse_duration
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.jobs import HEARTBEAT_OK, Every, Heartbeat, Job, JobSpec, TickId
from crossclaw.domain.messages import Provenance
from crossclaw.domain.runs import RunPlan
from crossclaw.door.resolver import SessionHandle
from crossclaw.ledger.jobs import DeleteJob, PutJob
from crossclaw.policy.hops import begun_by
from crossclaw.runs.context import ServiceContext
from crossclaw.sandbox.files import PLACEHOLDER, find_file
from crossclaw.schedule.times import find_zone, next_after
from crossclaw.schedule.zones import user_zone
from crossclaw.sessions.arrivals import Arrival

log = logging.getLogger(__name__)

PREFIX = "heartbeat:"
PROMPT = (
    "This is your heartbeat. Read HEARTBEAT.md in your workspace if it is there, and do what it says. "
    "Look whether anything needs attention now; do not take up old tasks again by yourself. "
    f"If nothing does, answer with exactly {HEARTBEAT_OK}."
)
FILE_BYTES_MAX = 64_000  # a list of things to look after, not a library

Workspace = Callable[[str], Path]


class Heartbeats:
    def __init__(
        self,
        context: ServiceContext,
        workspace: Workspace,
        local: tzinfo,
        disk: Disk,
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._workspace = workspace
        self._clock = context.clock
        self._local = local
        self._disk = disk
        self.enabled = True
        """Whether heartbeats run; `set-heartbeats` turns them off until the gateway is started again."""

    async def settle_in(self) -> None:
        """Makes the jobs as the config says, and removes those that it no longer has."""
        wanted = {f"{PREFIX}{agent_id}": agent_id for agent_id in self._every_ms()}
        for job in await self._ledger.list_jobs():
            if job.built_in and job.job_id not in wanted:
                await self._ledger.do(DeleteJob(job_id=job.job_id))
        for job_id, agent_id in wanted.items():
            await self._put(job_id, agent_id)

    def _every_ms(self) -> dict[str, int]:
        found = {}
        for agent_id, settings in self._config.agents.heartbeats().items():
            every_ms = parse_duration(settings.every or EVERY, default_unit="m")
            if every_ms:
                found[agent_id] = every_ms
        return found

    async def _put(self, job_id: str, agent_id: str) -> None:
        now, known = self._clock.now_ms(), await self._ledger.find_job(job_id)
        schedule = Every(every_ms=self._every_ms()[agent_id])
        if known is not None and known.spec.schedule == schedule:
            return
        spec = JobSpec(
            name=f"heartbeat of {agent_id}",
            schedule=schedule,
            payload=Heartbeat(),
            session_target="main",
            authority=begun_by(Authority(), self._config.session.agent_to_agent, owner=False),
        )
        job = Job(
            job_id=job_id,
            agent_id=agent_id,
            spec=spec,
            enabled=True,
            next_at=next_after(schedule, now, now, self._local),
            created_at=now,
            updated_at=now,
        )
        if known is not None:  # its beats are counted from when it was made
            await self._ledger.do(DeleteJob(job_id=job_id))
        await self._ledger.do(PutJob(job=job))

    async def reason_to_skip(self, job: Job) -> str | None:
        """Why a heartbeat is skipped, in OpenClaw's words."""
        settings = self._settings(job)
        if not self.enabled:
            return "disabled"
        if settings.active_hours and not self._active(settings.active_hours):
            return "quiet-hours"
        if await self._ledger.list_open_runs(self._config.main_key(job.agent_id)):
            return "requests-in-flight"
        if await self._nothing_to_look_after(job.agent_id):
            return "empty-heartbeat-file"
        return None

    def _settings(self, job: Job) -> HeartbeatConfig:
        return self._config.agents.heartbeats().get(job.agent_id) or HeartbeatConfig()

    def _active(self, hours: ActiveHours) -> bool:
        name = hours.timezone
        user = user_zone(self._config.agents.defaults.user_timezone, self._local)
        zone = (
            user if name in (None, "user") else self._local if name == "local" else find_zone(name)
        )
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, zone)
        now, start, end = (
            moment.hour * 60 + moment.minute,
            _minutes(hours.start),
            _minutes(hours.end),
        )
        if start == end:
            return True
        return start <= now < end if start < end else now >= start or now < end

    async def _nothing_to_look_after(self, agent_id: str) -> bool:
        """Whether HEARTBEAT.md has only headings and empty boxes: then there is nothing to do."""
        text = await self._disk.run(_beginning, self._workspace(agent_id))
        return text is not None and not any(map(_says_something, text.splitlines()))

    async def beat(self, job: Job, tick: TickId, run_id: str) -> Arrival:
        settings, key = self._settings(job), self._config.main_key(job.agent_id)
        session = await self._ledger.find_session(key)
        address = _target(settings, session.last_address if session else None)
        return Arrival(
            road="cron",
            to=SessionHandle(key, session, "talk"),
            text=settings.prompt or PROMPT,
            origin=Provenance("system", sender="heartbeat"),
            run_id=run_id,
            plan=RunPlan(
                deliver=address is not None,
                reply_to=address,
                model=settings.model,
                tick=tick,
                ack_chars_max=settings.ack_chars_max,
            ),
            job=job,
        )


def _target(settings: HeartbeatConfig, last: Address | None) -> Address | None:
    match settings.target:
        case None | "last":
            return last
        case "none":
            return None
        case channel if settings.to:
            return Address(channel, settings.to, named=True)
        case channel:
            return last if last and last.channel == channel else None


def _beginning(workspace: Path) -> str | None:
    """The beginning of HEARTBEAT.md, if it is a file and has a text of its own."""
    try:
        with find_file(workspace, "HEARTBEAT.md") as file:
            text = None if file is None else file.read(FILE_BYTES_MAX).decode(errors="replace")
    except (CrossclawError, OSError) as error:
        log.warning("HEARTBEAT.md of workspace %s is not read: %s", workspace, error)
        return None
    return None if text == PLACEHOLDER else text


def _minutes(hour: str) -> int:
    hours, _, minutes = hour.partition(":")
    return int(hours) * 60 + int(minutes)


def _says_something(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#") and text not in ("-", "*", "- [ ]", "* [ ]")
