"""Cron jobs of an OpenClaw: of both ages, with what they cannot keep said."""

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from crossclaw.cli.import_access import access_in_files, bring_access
from crossclaw.config.openclaw_here import brought, find_unimported, note_brought, note_imported
from crossclaw.config.profiles import find_profiles, keep_profiles
from crossclaw.domain.jobs import At
from crossclaw.ledger.channels import RemovePaired
from crossclaw.ledger.openclaw import ChatAccess
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.schedule.importing import ImportedJobs

NOW = 1_794_800_000_000
TURN = {"kind": "agentTurn", "message": "Good morning"}
MORNING = {
    "id": "j1",
    "name": "morning",
    "enabled": True,
    "createdAtMs": NOW - 5,
    "updatedAtMs": NOW - 4,
    "schedule": {"kind": "cron", "expr": "0 8 * * *", "tz": "Europe/Vienna"},
    "sessionTarget": "isolated",
    "wakeMode": "now",
    "payload": TURN | {"deliver": False, "lightContext": True},
    "isolation": {"postToMainPrefix": "Cron"},
    "state": {"nextRunAtMs": NOW + 5},
}

pytestmark = pytest.mark.anyio


def jobs() -> ImportedJobs:
    return ImportedJobs(["main", "librarian"], "main", UTC, NOW)


async def test_a_job_comes_in_once_with_its_id_and_stays_as_it_is_here(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")
    early = MORNING | {"id": "j2", "name": "early", "schedule": {"kind": "at", "atMs": NOW + 1_000}}

    first = await jobs().bring(ledger, [MORNING, early])
    again = await jobs().bring(ledger, [MORNING | {"name": "renamed there"}, early])

    assert (first.come, first.off, first.left) == (["morning", "early"], [], [])
    assert (again.come, again.before) == ([], 2)
    kept = {job.job_id: job for job in await ledger.list_jobs()}
    assert (kept["j1"].spec.name, kept["j1"].enabled, kept["j1"].agent_id) == (
        "morning",
        True,
        "main",
    )
    assert (kept["j1"].created_at, kept["j1"].updated_at) == (NOW - 5, NOW - 4)
    assert kept["j1"].next_at is not None
    assert kept["j1"].next_at > NOW
    assert isinstance(kept["j2"].spec.schedule, At)
    assert kept["j2"].next_at == NOW + 1_000
    await ledger.close()


async def test_who_was_paired_may_write_here_and_who_was_taken_off_since_does_not_come_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "credentials").mkdir()
    for name, listed in {
        "telegram": '["111", 222]',
        "discord-work": '["333333333333333333"]',
        "fax": '["1"]',
    }.items():
        file = tmp_path / "credentials" / f"{name}-allowFrom.json"
        file.write_text(f'{{"version": 1, "allowFrom": {listed}}}')
    (tmp_path / "credentials" / "slack-allowFrom.json").write_text("nonsense")
    found = [*access_in_files(tmp_path), ChatAccess("telegram", "default", "444", "CODE1234")]
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")

    dry = await bring_access(None, found, (), NOW)
    first = await bring_access(ledger, found, (), NOW)
    again = await bring_access(ledger, found, (), NOW)

    assert dry.come == first.come
    assert set(first.come) == {
        "telegram:default:111",
        "telegram:default:222",
        "discord:work:333333333333333333",
    }
    assert [each.split()[0] for each in first.left] == ["fax:default:1", "telegram:default:444"]
    assert (again.come, again.before) == ([], 3)
    assert await ledger.is_paired("telegram", "default", ["111"])
    assert not await ledger.is_paired("telegram", "default", ["444"])
    assert await ledger.list_pairing_requests(at=NOW, limit=9) == []

    await ledger.do(RemovePaired(channel="telegram", account_id="default", sender="111"))
    note_brought(tmp_path, jobs=["j1"], allowed=first.come)
    late = await bring_access(ledger, found, brought(tmp_path)["allowed"], NOW)
    assert late.come == []
    assert not await ledger.is_paired("telegram", "default", ["111"])
    assert (await jobs().bring(None, [MORNING], brought(tmp_path)["jobs"])).before == 1
    await ledger.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"payload": TURN | {"toolsAllow": ["read"]}}, "limited to some tools"),
        ({"agentId": "gone"}, 'its agent "gone" is not in the config'),
        ({"schedule": {"kind": "at", "at": "2020-01-01T00:00:00Z"}}, "its time has passed"),
        ({"trigger": {"kind": "hook"}}, "had a trigger"),
    ],
)
async def test_what_a_job_cannot_keep_switches_it_off(change: dict[str, Any], why: str) -> None:
    report = await jobs().bring(None, [MORNING | change])

    assert report.come == ["morning"]
    assert why in report.off[0]
    off = await jobs().bring(None, [MORNING | change | {"enabled": False}])
    assert off.off == [], "a person has switched it off there; nothing more is to be said"


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        MORNING | {"id": "\x1b[2J"},
        MORNING | {"schedule": {"kind": "cron", "expr": "sometimes"}},
        MORNING | {"schedule": {"kind": "on-exit"}},
        MORNING | {"payload": {"kind": "heartbeat"}},
        MORNING | {"payload": {"kind": "command", "argv": ["rm"]}},
        MORNING | {"sessionTarget": "session:x"},
        MORNING | {"name": "x" * 10_000},
        MORNING | {"delivery": {"mode": "webhook", "to": "https://x"}},
    ],
)
async def test_what_is_no_job_here_is_left_and_named(raw: Any) -> None:
    report = await jobs().bring(None, [raw, MORNING | {"id": "j9"}])

    assert len(report.left) == 1
    assert report.come == ["morning"]


def test_keys_come_to_the_credentials_once_and_logins_of_a_browser_stay(tmp_path: Path) -> None:
    there = b"""{"version": 1, "profiles": {
      "anthropic:work": {"type": "api_key", "provider": "anthropic", "key": "sk-1"},
      "openai:codex": {"type": "oauth", "provider": "openai", "access": "x"},
      "google:ref": {"type": "api_key", "provider": "google", "keyRef": {"source": "env", "id": "X"}},
      "anthropic:cli": {"type": "token", "provider": "anthropic", "token": "t-1"}}}"""

    assert keep_profiles(tmp_path, [there], dry_run=True).kept == [
        "anthropic:work",
        "anthropic:cli",
    ]
    assert not (tmp_path / "credentials").exists()
    first, again = keep_profiles(tmp_path, [there, b"nonsense"]), keep_profiles(tmp_path, [there])

    assert first.kept == ["anthropic:work", "anthropic:cli"]
    assert (again.kept, again.before) == ([], 2)
    assert len(first.left) == 2
    keys = find_profiles(tmp_path, "main", {})["anthropic"]
    assert [each.key.reveal() for each in keys] == ["sk-1", "t-1"]
    assert (tmp_path / "credentials" / "auth-profiles.json").stat().st_mode & 0o077 == 0


def test_an_openclaw_beside_is_told_of_until_it_was_imported(tmp_path: Path) -> None:
    assert find_unimported(tmp_path) == []
    (tmp_path / "cron").mkdir()
    (tmp_path / "cron" / "jobs.json").write_text("{}")
    assert find_unimported(tmp_path) == ["cron/jobs.json"]

    note_imported(tmp_path, ["cron/jobs.json"])
    assert find_unimported(tmp_path) == []
    store = tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    store.parent.mkdir(parents=True)
    store.touch()
    assert find_unimported(tmp_path) == ["agents/main/agent/openclaw-agent.sqlite"]
    (tmp_path / "imported.json").write_text("not json")
    assert len(find_unimported(tmp_path)) == 2
