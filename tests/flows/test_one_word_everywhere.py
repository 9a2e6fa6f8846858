"""How something stands is one word, wherever it is looked at: table, map, run, exchange, trace and metrics."""

from pathlib import Path

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.errors import ProviderRefused
from crossclaw.domain.messages import ToolUse
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.configs import config_of
from tests.flows.spawning import config_of as with_helper
from tests.flows.spawning import family, reported
from tests.flows.spending import config_with, costing
from tests.flows.talking import call, say
from tests.flows.test_approvals import ASKING, Stamp, asks

pytestmark = pytest.mark.spec("B7")


async def words(gateway: Gateway, key: str, run_id: str) -> dict[str, str]:
    """By view: how this run or its session stands."""
    (row,) = (await call(gateway, "sessions.table", key=key))["rows"]
    seen = await call(gateway, "map.get", sinceMs=0)
    (node,) = (each for each in seen["nodes"] if each["key"] == key)
    (run,) = (each for each in seen["runs"] if each["runId"] == run_id)
    traced = await call(gateway, "runs.trace", runId=run_id)
    tree = await call(gateway, "trace.get", id=run_id)
    (span,) = (each for each in tree["spans"] if each["id"] == run_id)
    views = {"table": row, "map": node, "arrow": run, "run": traced["run"], "trace": span}
    return {view: (each.get("standing") or {"name": "ok"})["name"] for view, each in views.items()}


def everywhere(name: str) -> dict[str, str]:
    return dict.fromkeys(("table", "map", "arrow", "run", "trace"), name)


async def test_a_run_that_needs_approval_says_so_everywhere(tmp_path: Path) -> None:
    model = ScriptedProvider([[asks("letter")], "done"])
    async with open_gateway(tmp_path, model, config=config_of(ASKING), tools=[Stamp()]) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(1)
        found = await words(gateway, "agent:main:main", "r1")
        tree = await call(gateway, "trace.get", id="r1")
        open_runs = await gateway.ledger.monitoring.open_runs()

    assert found == everywhere("needs approval")
    (stamp,) = (span for span in tree["spans"] if span["kind"] == "tool")
    assert stamp["standing"] == {"name": "needs approval", "why": 'stamp {"text":"letter"}'}
    assert [run.standing.name for run in open_runs if run.standing] == ["needs approval"]


async def test_an_exchange_whose_target_needs_approval_says_so(tmp_path: Path) -> None:
    sent = {"agentId": "librarian", "message": "stamp it", "timeoutSeconds": 900}
    model = ScriptedProvider([[ToolUse("c0", "sessions_send", sent)], [asks("letter")]])
    raw = {"agents": {"list": [{"id": "main"}, {"id": "librarian"}]}, **ASKING}
    async with open_gateway(tmp_path, model, config=config_of(raw), tools=[Stamp()]) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(5)
        (exchange,) = (await call(gateway, "exchanges.list"))["exchanges"]

    assert exchange["standing"]["name"] == "needs approval"


@pytest.mark.parametrize(("script", "name"), [("say: fine", "ok"), ("fail: no light", "failed")])
async def test_an_end_is_one_word_everywhere(tmp_path: Path, script: str, name: str) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", script, "r1")
        found = await words(gateway, "agent:main:main", "r1")

    assert found == everywhere(name)


async def test_a_run_over_its_budget_says_so_everywhere(tmp_path: Path) -> None:
    calls = [costing([ToolUse(f"c{n}", "sessions_list", {})], 20_000, 100) for n in range(9)]
    config = config_with({"tokens": 50_000})
    async with open_gateway(tmp_path, ScriptedProvider(calls), config=config) as gateway:
        await say(gateway, "main", "count", "r1")
        found = await words(gateway, "agent:main:main", "r1")

    assert found == everywhere("over budget")


async def test_a_child_that_failed_and_stays_silent_leaves_its_reason_with_its_parent(
    tmp_path: Path,
) -> None:
    model = family(work=ProviderRefused("no flour"), announce="ANNOUNCE_SKIP")
    async with open_gateway(tmp_path, model, config=with_helper()) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        history = await call(gateway, "sessions.entries", key="agent:main:main", exchanges=True)

    reports = [entry["message"] for entry in history["entries"] if entry.get("exchange")]
    assert "no flour" in str(reports[-1]["content"])
    assert history["exchanges"][0]["standing"]["name"] == "failed"
