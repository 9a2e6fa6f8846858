"""Figures over time: asked for over the wire, and the same whether counted live or from an older store."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.errors import Forbidden
from crossclaw.domain.figures import Figures
from crossclaw.door.principal import person_principal
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import call, say, two_agents

ASK = {"agentId": "librarian", "message": "say: The ninth.", "timeoutSeconds": 30}
GATHERED = ", ".join(f"sum({name})" for name in Figures._fields)


async def talk(gateway: Gateway) -> None:
    key = "agent:main:main"
    await say(gateway, key, f"tool: sessions_send {json.dumps(ASK)}\nthen:\nsay: So.", "r1")
    await say(gateway, key, "fail: no light", "r2")
    await say(gateway, key, "/status", "r3")
    await gateway.run_store.wait("r1")
    while await gateway.ledger.lanes_with_work():  # the announce of the exchange
        for lane in await gateway.ledger.lanes_with_work():
            for run in await gateway.ledger.list_open_runs(lane):
                await gateway.run_store.wait(run.run_id)


def by_name(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {
        each["name"]: (each["total"]["turns"], each["total"]["failed"]) for each in answer["series"]
    }


async def test_an_hour_is_told_by_agent_model_and_channel(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await talk(gateway)
        told = {
            by: await call(gateway, "figures.get", by=by) for by in ("agent", "model", "channel")
        }
        whole = await call(gateway, "figures.get", stepMs=300_000)
        stranger = person_principal("stranger", {"operator.pairing"})
        with pytest.raises(Forbidden):
            await call(gateway, "figures.get", principal=stranger)

    assert {name: failed for name, (_, failed) in by_name(told["agent"]).items()} == {
        "main": 1,
        "librarian": 0,
    }
    unlucky = {name: failed for name, (_, failed) in by_name(told["model"]).items() if failed}
    assert unlucky == {"rehearsal/test": 1}, "a failure is its model's"
    assert by_name(told["channel"])["webchat"] == (2, 1)
    assert by_name(told["channel"])["agents"][0] >= 1
    assert whole["total"]["tokens"] == told["agent"]["total"]["tokens"] > 0
    (series,) = whole["series"]
    assert sum(point["turns"] for point in series["points"]) == whole["total"]["turns"]


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"sinceMs": 900_000, "untilMs": 1}, "sinceMs"),
        ({"sinceMs": 0, "stepMs": 300_000}, "1000 points"),
    ],
)
async def test_what_cannot_be_drawn_is_refused_with_what_would_work(
    tmp_path: Path, params: dict[str, Any], why: str
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        with pytest.raises(Exception, match=why):
            await call(gateway, "figures.get", **params)


async def test_an_older_store_gets_the_figures_that_it_would_have_counted(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await talk(gateway)

    counted, found = _counted_and_found(tmp_path)
    assert counted
    assert found == counted


def _counted_and_found(folder: Path) -> tuple[list[Any], list[Any]]:
    """Sums as they were counted, and as the migration finds them in the runs and messages."""
    (path,) = folder.rglob("crossclaw.sqlite")
    db = apsw.Connection(str(path))
    gather = f"SELECT agent_id, model, channel, {GATHERED} FROM figures GROUP BY 1, 2, 3"
    counted = list(db.execute(gather))
    migrations = files("crossclaw.ledger.sqlite") / "migrations"
    (sql,) = (each for each in migrations.iterdir() if each.name.endswith("_figures.sql"))
    db.execute("DELETE FROM figures")
    db.execute("INSERT INTO figures" + sql.read_text("utf-8").split("INSERT INTO figures")[1])
    found = list(db.execute(gather))
    db.close()
    return counted, found
