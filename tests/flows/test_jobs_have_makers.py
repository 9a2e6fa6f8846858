"""Stored work carries its maker: a job runs as long as who made it may come in."""

from datetime import UTC
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.errors import Invalid
from crossclaw.domain.jobs import CronSchedule, Every, JobSpec, SystemEvent
from crossclaw.door.principal import person_principal
from crossclaw.ledger.jobs import SwitchOffJobs
from crossclaw.schedule import times
from crossclaw.schedule.lengths import (
    CHARS_MAX,
    EXPRESSION_CHARS_MAX,
    WORDS_CHARS_MAX,
    check_lengths,
)
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call

pytestmark = pytest.mark.spec("B3")

DEVICE = "device:operator:thief"
THIEF = person_principal("device:thief", {"operator.admin"}, [CredentialRef(DEVICE, 1)])
OWNER = person_principal("token", {"operator.admin"}, [CredentialRef("gateway", 1)])
HOURLY = {"kind": "every", "everyMs": 3_600_000}
JOB: dict[str, Any] = {
    "name": "news",
    "schedule": HOURLY,
    "payload": {"kind": "agentTurn", "message": "tell"},
}


def model() -> ScriptedProvider:
    return ScriptedProvider(lambda _request: "done")


async def listed(gateway: Gateway) -> dict[str, dict[str, Any]]:
    found = await call(gateway, "cron.list", includeDisabled=True, includeMakers=True)
    return {job["id"]: job for job in found["jobs"]}


async def end_device(gateway: Gateway) -> list[str]:
    """What removing the device does: one step, and then in memory."""
    off = SwitchOffJobs(credential_ids=(DEVICE,), reason="removed", at=1)
    stopped = await gateway.ledger.do(off)
    gateway.credentials.drop(DEVICE)
    return stopped


async def test_a_job_stops_with_the_device_that_made_it_and_is_listed(tmp_path: Path) -> None:
    answers = model()
    async with open_gateway(tmp_path, answers) as gateway:
        gateway.credentials.put(DEVICE, 1)
        gateway.credentials.put("gateway", 1)
        thiefs = (await call(gateway, "cron.add", THIEF, **JOB))["id"]
        owners = (await call(gateway, "cron.add", OWNER, **JOB))["id"]
        await anyio.sleep(3_700)
        assert len(answers.seen) == 2
        assert await end_device(gateway) == [thiefs]
        await anyio.sleep(3_600)
        jobs = await listed(gateway)
        with pytest.raises(
            Invalid, match="the credential that made this job was revoked or removed"
        ):
            await call(gateway, "cron.run", OWNER, id=thiefs)

    assert len(answers.seen) == 3
    assert (jobs[thiefs]["enabled"], jobs[thiefs]["offBecause"]) == (False, "removed")
    assert jobs[owners]["enabled"] is True
    assert (jobs[thiefs]["madeBy"], jobs[owners]["madeBy"]) == (
        ["device thief"],
        ["the gateway's token"],
    )


async def test_a_tick_looks_whether_its_maker_is_still_there(tmp_path: Path) -> None:
    """Also where nobody switched the job off, as after a crash between two steps."""
    answers = model()
    async with open_gateway(tmp_path, answers) as gateway:
        gateway.credentials.put(DEVICE, 1)
        job_id = (await call(gateway, "cron.add", THIEF, **JOB))["id"]
        gateway.credentials.drop(DEVICE)
        await anyio.sleep(3_700)
        job = (await listed(gateway))[job_id]

    assert answers.seen == []
    assert job["enabled"] is False
    assert "revoked or removed" in job["offBecause"]


async def test_who_switches_a_job_on_again_takes_it_over(tmp_path: Path) -> None:
    answers = model()
    async with open_gateway(tmp_path, answers) as gateway:
        gateway.credentials.put(DEVICE, 1)
        gateway.credentials.put("gateway", 1)
        job_id = (await call(gateway, "cron.add", THIEF, **JOB))["id"]
        await end_device(gateway)
        await call(gateway, "cron.update", OWNER, id=job_id, patch={"enabled": True})
        await anyio.sleep(3_700)
        job = (await listed(gateway))[job_id]

    assert len(answers.seen) == 1
    assert (job["madeBy"], job["enabled"]) == (["the gateway's token"], True)
    assert "offBecause" not in job


async def test_the_owners_jobs_go_on_with_another_token_and_are_listed_as_made_with_an_earlier_one(
    tmp_path: Path,
) -> None:
    answers = model()
    async with open_gateway(tmp_path, answers) as gateway:
        gateway.credentials.put("gateway", 1)
        job_id = (await call(gateway, "cron.add", OWNER, **JOB))["id"]
        before = (await listed(gateway))[job_id]
        gateway.credentials.put("gateway", 2)
        await anyio.sleep(3_700)
        after = (await listed(gateway))[job_id]
        runs = await call(gateway, "cron.runs", id=job_id)

    assert len(answers.seen) == 1
    assert [entry["status"] for entry in runs["entries"]] == ["ok"]
    assert "earlierToken" not in before
    assert (after["enabled"], after["earlierToken"]) == (True, True)


async def test_a_job_whose_agent_is_gone_is_switched_off_and_says_so(tmp_path: Path) -> None:
    answers = model()
    config = msgspec.convert({"agents": {"list": [{"id": "main"}, {"id": "helper"}]}}, Config)
    async with open_gateway(tmp_path, answers, config=config) as gateway:
        job_id = (await call(gateway, "cron.add", agentId="helper", **JOB))["id"]
    async with open_gateway(tmp_path, answers) as gateway:
        await anyio.sleep(3_700)
        job = (await listed(gateway))[job_id]

    assert answers.seen == []
    assert (job["enabled"], job["offBecause"]) == (
        False,
        "its agent helper is no longer configured",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "x" * 201},
        {"description": "x" * 4_001},
        {"schedule": {"kind": "cron", "expr": "1," * 300 + "1 * * * *"}},
        {"schedule": {"kind": "cron", "expr": "0 7 * * *", "tz": "x" * 101}},
        {"schedule": {"kind": "at", "at": "2" * 101}},
        {"payload": {"kind": "agentTurn", "message": "x" * 100_001}},
        {"payload": {"kind": "agentTurn", "message": "x", "to": "x" * 1_001}},
        {"payload": {"kind": "systemEvent", "text": "x" * 100_001}},
    ],
    ids=lambda changes: ",".join(changes),
)
async def test_every_text_of_a_job_has_a_length(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with open_gateway(tmp_path, model()) as gateway:
        with pytest.raises(Invalid, match=r"has at most [\d]+ characters, not"):
            await call(gateway, "cron.add", **{**JOB, **changes})
        assert await listed(gateway) == {}


def test_a_text_that_nobody_thought_of_has_a_length_too() -> None:
    spec = JobSpec(
        name="n", schedule=Every(every_ms=1), payload=SystemEvent(text="t"), session_target="main",
        agent_id="x" * 1_001,
    )  # fmt: skip
    assert "agent_id" not in CHARS_MAX
    with pytest.raises(Invalid, match="agent_id has at most 1000 characters"):
        check_lengths(spec)


async def test_an_expression_that_is_too_long_in_an_old_store_keeps_nothing_from_starting(
    tmp_path: Path,
) -> None:
    answers = model()
    async with open_gateway(tmp_path, answers) as gateway:
        good = (await call(gateway, "cron.add", **JOB))["id"]
        job = await gateway.ledger.find_job(good)
        assert job is not None
        long = CronSchedule(expr="1," * 250_000 + "1 * * * *")
        bad = msgspec.structs.replace(
            job, job_id="bad", spec=msgspec.structs.replace(job.spec, schedule=long)
        )
        await gateway.schedule.jobs._put(bad, "added")
    async with open_gateway(tmp_path, answers) as gateway:
        await anyio.sleep(3_700)
        jobs = await listed(gateway)

    assert len(answers.seen) == 1, "the other one"
    assert jobs["bad"]["enabled"] is False
    assert str(EXPRESSION_CHARS_MAX) in jobs["bad"]["state"]["lastError"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "more"),
    [("wake", {"mode": "now"}), ("wake", {"mode": "next-heartbeat"}), ("system-event", {})],
)
async def test_words_for_the_main_session_have_a_length(
    tmp_path: Path, method: str, more: dict[str, Any]
) -> None:
    answers = ScriptedProvider(lambda _: "fine")
    async with open_gateway(tmp_path, answers) as gateway:
        with pytest.raises(Invalid, match=f"at most {WORDS_CHARS_MAX} characters"):
            await call(gateway, method, text="x" * (WORDS_CHARS_MAX + 1), **more)
        assert await call(gateway, method, text="x" * WORDS_CHARS_MAX, **more) == {"ok": True}


def test_an_expression_is_parsed_once_for_a_whole_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0
    walked = times._walked

    def counting(*args: Any) -> Any:
        nonlocal parsed
        parsed += 1
        return walked(*args)

    monkeypatch.setattr(times, "_walked", counting)
    minute = 60_000
    due = times.due_since(CronSchedule(expr="* * * * *"), minute, 400 * minute, 0, UTC)

    assert (due.latest, len(due.missed), parsed) == (400 * minute, 399, 1)
