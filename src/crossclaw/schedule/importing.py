"""Cron jobs of an OpenClaw: `cron/jobs.json` of 2026.2, rows of its database in 2026.9.

A job keeps its id, so that one that came in before is known and stays as it is here. What a job was allowed there and
cannot be kept here does not become more: it comes in switched off, with the reason.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

import msgspec

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.errors import Invalid
from crossclaw.domain.jobs import AgentTurn, At, Job, JobSpec
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.jobs import PutJob
from crossclaw.schedule.jobs import JOBS_MAX, check_spec
from crossclaw.schedule.times import next_after

_SPEC = ("name", "schedule", "payload", "sessionTarget", "wakeMode", "agentId", "description")
_ID_CHARS_MAX = 200


class JobsReport(NamedTuple):
    come: list[str]
    """The names of imported jobs."""
    before: int
    """The number of jobs from an earlier import; they stay as they are."""
    off: list[str]
    """The imported jobs that were switched off though they were on, with the reason."""
    left: list[str]
    """Entries that cannot be a job here, with the reason."""
    ids: list[str]
    """The ids of imported jobs."""


class ImportedJobs:
    def __init__(
        self, agents: Collection[str], default_id: str, local: tzinfo, now_ms: int
    ) -> None:
        self._agents = agents
        self._default_id = default_id
        self._local = local
        self._now_ms = now_ms

    async def bring(
        self, ledger: Ledger | None, raws: Iterable[Any], known: Collection[str] = ()
    ) -> JobsReport:
        """Imports jobs. Without a ledger nothing is stored. One of the `known` came in before and may have
        been removed here since."""
        there = {job.job_id for job in await ledger.list_jobs()} if ledger else set()
        report = JobsReport([], 0, [], [], [])
        for raw in raws:
            try:
                job = self._job(raw)
            except (Invalid, msgspec.ValidationError, ValueError, OverflowError) as error:
                report.left.append(f"the job {_name_of(raw)}: {error}")
                continue
            if job.job_id in there or job.job_id in known:
                report = report._replace(before=report.before + 1)
                continue
            if len(there) >= JOBS_MAX:
                report.left.append(f"the job {job.spec.name}: there are {JOBS_MAX} jobs already")
                continue
            there.add(job.job_id)
            if ledger is not None:
                await ledger.do(PutJob(job=job))
            report.come.append(job.spec.name)
            report.ids.append(job.job_id)
            if job.off_because:
                report.off.append(f"{job.spec.name}: {job.off_because}")
        return report

    def _job(self, raw: Any) -> Job:
        if not isinstance(raw, dict) or not isinstance(raw.get("id"), str):
            raise Invalid("it has no id")
        job_id = raw["id"].strip()
        if not job_id.isprintable() or not 0 < len(job_id) <= _ID_CHARS_MAX:
            raise Invalid(f"its id must have 1 to {_ID_CHARS_MAX} printable characters")
        spec = _spec_of(raw)
        check_spec(spec, self._local)
        agent_id = normalize_agent_id(spec.agent_id or self._default_id)
        made_at = _time_of(raw.get("createdAtMs")) or self._now_ms
        next_at = next_after(spec.schedule, self._now_ms, made_at, self._local)
        why = self._why_off(raw, agent_id, next_at) if raw.get("enabled", True) else None
        enabled = bool(raw.get("enabled", True)) and why is None
        return Job(
            job_id=job_id,
            agent_id=agent_id,
            spec=spec,
            enabled=enabled,
            next_at=next_at if enabled else None,
            created_at=made_at,
            updated_at=_time_of(raw.get("updatedAtMs")) or made_at,
            off_because=why,
        )

    def _why_off(self, raw: dict[str, Any], agent_id: str, next_at: int | None) -> str | None:
        payload = raw.get("payload")
        tools = payload.get("toolsAllow") if isinstance(payload, dict) else None
        if tools not in (None, ["*"]):
            return "it was limited to some tools there (toolsAllow), which cannot be kept here"
        if raw.get("trigger"):
            return "it had a trigger there, which is not known here"
        if agent_id not in self._agents:
            return f'its agent "{agent_id}" is not in the config'
        return "its time has passed" if next_at is None else None


def _spec_of(raw: dict[str, Any]) -> JobSpec:
    found = {name: raw[name] for name in _SPEC if raw.get(name) is not None}
    found["schedule"] = _schedule_of(raw.get("schedule"))
    found["payload"] = _known(raw.get("payload"), AgentTurn if _is_turn(raw) else None)
    if isinstance(raw.get("deleteAfterRun"), bool):
        found["deleteAfterRun"] = raw["deleteAfterRun"]
    if _is_turn(raw) and isinstance(raw.get("delivery"), dict):
        wanted = raw["delivery"]
        names = ("mode", "channel", "to", "accountId", "threadId", "bestEffort")
        found["delivery"] = {name: wanted[name] for name in names if wanted.get(name) is not None}
    return msgspec.convert(found, JobSpec)


def _is_turn(raw: dict[str, Any]) -> bool:
    payload = raw.get("payload")
    return isinstance(payload, dict) and payload.get("kind") == "agentTurn"


def _known(payload: Any, kind: type[AgentTurn] | None) -> Any:
    """The payload without fields that this release does not know: none of them gives it more rights."""
    if kind is None or not isinstance(payload, dict):
        return payload
    names = {"kind", *kind.__struct_encode_fields__}
    return {name: value for name, value in payload.items() if name in names and value is not None}


def _schedule_of(schedule: Any) -> Any:
    """The schedule in today's form: early releases wrote `atMs` in milliseconds; a time is a text since."""
    if not isinstance(schedule, dict):
        return schedule
    known = {"kind", "at", "everyMs", "anchorMs", "expr", "tz"}
    found = {name: value for name, value in schedule.items() if name in known and value is not None}
    if schedule.get("kind") == At.__struct_config__.tag and "at" not in found:
        moment = _time_of(schedule.get("atMs"))
        if moment is not None:
            found["at"] = datetime.fromtimestamp(moment / 1000, UTC).isoformat()
    return found


def _time_of(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 < value < 2**53 else None


def _name_of(raw: Any) -> str:
    name = raw.get("name") if isinstance(raw, dict) else None
    return repr(str(name)[:80]) if name else "without a name"
