"""Whoever follows the gateway hears of its jobs."""

from pathlib import Path

import pytest

from tests.wire.serving import guest
from tests.wire.test_nodes import opened

pytestmark = [pytest.mark.anyio, pytest.mark.spec("G2", "K3")]


async def test_a_job_is_told_of_from_its_making_to_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as served, guest(served) as person:
        await person.ask("sessions.subscribe", {})
        job = {
            "name": "now and then",
            "schedule": {"kind": "every", "everyMs": 60_000},
            "payload": {"kind": "agentTurn", "message": "hello"},
            "sessionTarget": "isolated",
            "wakeMode": "now",
        }
        made = (await person.ask("cron.add", job))["payload"]
        await person.ask("cron.run", {"id": made["id"], "mode": "force"})
        told = [(await person.event("cron"))["payload"] for _ in range(3)]
        assert [each["action"] for each in told] == ["added", "started", "finished"]
        assert told[2]["sessionKey"] == f"cron:{made['id']}"
        assert (told[2]["status"], told[2]["summary"]) == ("ok", "heard")


async def test_who_may_only_read_makes_no_jobs(tmp_path: Path) -> None:
    async with (
        opened(tmp_path) as served,
        guest(served, scopes=["operator.read", "operator.write"]) as reader,
    ):
        assert (await reader.ask("cron.list", {"includeDisabled": True, "limit": 50, "offset": 0}))[
            "ok"
        ]
        assert (await reader.ask("cron.status", {}))["ok"]
        refused = await reader.ask("cron.remove", {"id": "x"})
        assert refused["error"]["message"] == "missing scope: operator.admin"
        refused = await reader.ask("hooks.wake", {"text": "x"})
        assert refused["error"]["message"] == "missing scope: hook"


async def test_pages_of_jobs_that_belong_together_name_the_same_revision(tmp_path: Path) -> None:
    """OpenClaw 2026.9 reads page by page, and begins again when the jobs have changed in between."""
    async with opened(tmp_path) as served, guest(served) as person:

        async def add(name: str) -> None:
            job = {
                "name": name,
                "schedule": {"kind": "every", "everyMs": 3_600_000},
                "payload": {"kind": "agentTurn", "message": "hello"},
            }
            assert (await person.ask("cron.add", job))["ok"]

        async def page(offset: int) -> tuple[str, str]:
            params = {"limit": 1, "offset": offset, "sortBy": "name"}
            told = (await person.ask("cron.list", params))["payload"]
            return told["jobs"][0]["name"], told["snapshotRevision"]

        await add("a")
        await add("b")
        (first, revision), (second, same) = await page(0), await page(1)
        await add("c")
        _, other = await page(1)

        assert (first, second) == ("a", "b")
        assert revision == same != other
