"""An agent is taken out of the config: its sessions stay, are marked, and can be thrown away."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.door.principal import session_principal
from crossclaw.door.registry import Caller, Listening
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import OWNER, call, results_of, say

CHEF = "agent:chef:main"
SIDE = "agent:chef:side"
LIST = "tool: sessions_list {}\nthen:\nsay: listed"
JOB = {"kind": "every", "everyMs": 60_000}


def config(*ids: str, **more: Any) -> Config:
    return msgspec.convert({"agents": {"list": [{"id": each} for each in ids]}, **more}, Config)


def opened(folder: Path, *ids: str, **more: Any) -> Any:
    return open_gateway(folder, RehearsalProvider(), config=config(*ids, **more))


async def talk_to_chef(folder: Path) -> None:
    async with opened(folder, "main", "chef") as gateway:
        for run_id, key in (("r1", CHEF), ("r2", SIDE), ("r3", "agent:main:main")):
            assert (await say(gateway, key, "say: soup", run_id)).status == "ok"
        await call(gateway, "sessions.patch", key=SIDE, label="side dish")


READS: dict[str, dict[str, Any]] = {
    "chat.history": {"sessionKey": CHEF},
    "agent.wait": {"runId": "r1"},
    "agent.identity.get": {"sessionKey": CHEF},
    "commands.list": {"sessionKey": CHEF},
    "sessions.resolve": {"label": "side dish", "agentId": "chef"},
    "sessions.preview": {"keys": [CHEF, SIDE]},
    "sessions.describe": {"key": CHEF},
    "sessions.messages.subscribe": {"key": CHEF},
    "sessions.messages.unsubscribe": {"key": CHEF},
    "tool.sessions_history": {"sessionKey": CHEF},
    "sessions.explain": {"from": "agent:main:main", "verb": "send", "to": CHEF},
    "sessions.search": {"query": "soup"},
    "sessions.entries.search": {"query": "soup"},
    "sessions.entries": {"key": CHEF},
    "sessions.transcripts": {"key": CHEF},
    "runs.trace": {"runId": "r1"},
    "trace.get": {"id": CHEF},
    "trace.export": {"id": CHEF},
    "cron.runs": {"scope": "all"},
}
NOT_ABOUT_SESSIONS = {
    "agents.files.get",
    "agents.files.list",
    "deliveries.wait",
    "display.render",
    "exchanges.trace",
    "exec.approval.get",
    "exec.approval.waitDecision",
    "node.describe",
    "tool.sessions_wait",
}


@pytest.mark.spec("L5")
async def test_every_read_survives_the_sessions_of_an_agent_that_is_gone(tmp_path: Path) -> None:
    await talk_to_chef(tmp_path)
    async with opened(tmp_path, "main") as gateway:
        caller = Caller(principal=OWNER, listening=Listening())
        for method in gateway.door.registry:
            if method.effect == "read" and method.name not in NOT_ABOUT_SESSIONS:
                await gateway.door.dispatch(caller, method.name, READS.get(method.name, {}))

        for name, rows in (
            ("sessions.list", "sessions"),
            ("sessions.table", "rows"),
            ("tool.sessions_list", "sessions"),
        ):
            listed = (await call(gateway, name))[rows]
            found = {row["key"]: row for row in listed if row["key"].startswith("agent:")}
            gone = {key for key, row in found.items() if row.get("agentGone")}
            assert gone == {CHEF, SIDE}, name
            assert set(found) > gone, name
        assert "chef" in str(await call(gateway, "tool.session_status", sessionKey=CHEF))
        shown = await call(gateway, "chat.history", sessionKey=CHEF)
        assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]


@pytest.mark.spec("V2", "V3")
@pytest.mark.parametrize(
    ("tools", "seen"),
    [
        ({}, {"main", CHEF, SIDE}),
        ({"agentToAgent": {"allow": ["main"]}}, {"main"}),
        ({"sessions": {"visibility": "agent"}}, {"main"}),
    ],
)
async def test_an_agent_lists_what_the_rules_show_it_of_one_that_is_gone(
    tmp_path: Path, tools: dict[str, Any], seen: set[str]
) -> None:
    await talk_to_chef(tmp_path)
    async with opened(tmp_path, "main", tools=tools) as gateway:
        (listed,) = await results_of(gateway, await say(gateway, "main", LIST, "r9"))
    keys = {row["key"] for row in listed["sessions"]}
    assert {key for key in keys if not key.startswith("cron:")} == seen


TALK: dict[str, dict[str, Any]] = {
    "chat.send": {"sessionKey": CHEF, "message": "soup?", "idempotencyKey": "a"},
    "agent": {"sessionKey": CHEF, "message": "soup?", "idempotencyKey": "b"},
    "tool.sessions_send": {"sessionKey": CHEF, "message": "soup?"},
    "sessions.spawn": {"sessionKey": CHEF, "task": "peel"},
    "sessions.compact": {"key": CHEF},
}


@pytest.mark.spec("S1")
async def test_whoever_talks_to_an_agent_that_is_gone_hears_what_would_work(
    tmp_path: Path,
) -> None:
    await talk_to_chef(tmp_path)
    ask = f'tool: sessions_send {{"sessionKey": "{CHEF}", "message": "soup?"}}\nthen:\nsay: tried'
    words = r"no longer configured.*agents add chef.*sessions delete agent:chef:main"
    async with opened(tmp_path, "main") as gateway:
        for method, params in TALK.items():
            with pytest.raises(NotFound, match=words):
                await call(gateway, method, **params)
        (answer,) = await results_of(gateway, await say(gateway, "main", ask, "r9"))
        assert "agents add chef" in str(answer)
        asked: dict[str, Any] = {"from": "main", "verb": "send", "to": CHEF}
        why = await call(gateway, "sessions.explain", **asked)
        assert not why["allowed"]
        assert "agents add chef" in str(why["reasons"])
        entries = await gateway.ledger.list_entries(
            (await gateway.ledger.find_session(SessionKey.main("chef"))).session_id, limit=9
        )
        assert len(entries) == 2  # nothing was written
    async with opened(tmp_path, "main", "chef") as gateway:
        assert (await say(gateway, CHEF, "say: back", "r10")).reply == "back"


async def test_the_main_session_of_an_agent_that_is_gone_is_an_ordinary_one(
    tmp_path: Path,
) -> None:
    await talk_to_chef(tmp_path)
    async with opened(tmp_path, "main", "chef") as gateway:
        with pytest.raises(Invalid, match="Cannot delete"):
            await call(gateway, "sessions.delete", key=CHEF)
        with pytest.raises(Invalid, match="cannot be archived"):
            await call(gateway, "sessions.archive", key=CHEF)
    async with opened(tmp_path, "main") as gateway:
        assert (await call(gateway, "sessions.archive", key=CHEF))["archived"]
        assert (await call(gateway, "sessions.unarchive", key=CHEF))["unarchived"]
        assert (await call(gateway, "sessions.delete", key=CHEF))["deleted"]
        assert (await call(gateway, "sessions.delete", key=SIDE))["deleted"]
        left = {row["key"] for row in (await call(gateway, "sessions.list"))["sessions"]}
        assert left == {"agent:main:main"}


@pytest.mark.spec("V1", "V3")
async def test_who_may_not_see_a_session_does_not_hear_that_its_agent_is_gone(
    tmp_path: Path,
) -> None:
    await talk_to_chef(tmp_path)
    boxed = session_principal(SessionKey.main("main"), Authority(sandboxed=True))
    words: dict[str, Any] = {"message": "soup?", "timeoutSeconds": 0}
    async with opened(tmp_path, "main") as gateway:
        found = await gateway.ledger.find_session(SessionKey.main("chef"))
        for key in (CHEF, SIDE, found.session_id, "agent:nobody:main"):
            with pytest.raises(NotFound, match=f"^unknown session: {key}$"):
                await call(gateway, "tool.sessions_send", boxed, sessionKey=key, **words)
        for agent in ("chef", "nobody"):
            params = {"label": "side dish", "agentId": agent}
            with pytest.raises(NotFound, match=r"^unknown session: side dish$"):
                await call(gateway, "tool.sessions_send", boxed, **params, **words)
        assert (await call(gateway, "tool.sessions_list", boxed))["sessions"] == []


@pytest.mark.spec("S1")
async def test_a_main_session_put_away_while_its_agent_was_gone_is_back_with_it(
    tmp_path: Path,
) -> None:
    ask = 'tool: sessions_send {"agentId": "chef", "message": "say: anew"}\nthen:\nsay: asked'
    await talk_to_chef(tmp_path)
    async with opened(tmp_path, "main") as gateway:
        await call(gateway, "sessions.archive", key=CHEF)
    async with opened(tmp_path, "main", "chef") as gateway:
        await anyio.sleep(3600)
        swept = await call(gateway, "sessions.cleanup", enforce=True, olderThanDays=0.02)
        assert swept["count"] == 0
        assert "anew" in str(await results_of(gateway, await say(gateway, "main", ask, "r9")))
        shown = await call(gateway, "chat.history", sessionKey=CHEF)
        assert "soup" in str(shown["messages"])  # what was said before is still there


async def last_status(gateway: Gateway, name: str) -> Any:
    jobs = (await call(gateway, "cron.list", includeDisabled=True, includeMakers=True))["jobs"]
    (job,) = [each for each in jobs if each["name"] == name]
    return job


async def test_a_job_of_an_agent_that_is_gone_fails_in_sight_and_stops_no_other(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, "main", "chef") as gateway:
        for agent in ("chef", "main"):
            await call(
                gateway, "cron.add", name=agent, agentId=agent, schedule=JOB,
                payload={"kind": "agentTurn", "message": "say: on time"},
            )  # fmt: skip
    async with opened(tmp_path, "main") as gateway:
        await anyio.sleep(150)
        chef, other = await last_status(gateway, "chef"), await last_status(gateway, "main")
        assert (chef["state"]["lastStatus"], other["state"]["lastStatus"]) == ("error", "ok")
        assert chef["state"]["lastError"] == "its agent chef is no longer configured"
        assert (chef["enabled"], chef["offBecause"]) == (False, chef["state"]["lastError"])
        with pytest.raises(NotFound, match="there is no agent"):
            await call(gateway, "cron.update", id=chef["id"], patch={"enabled": True})


async def test_what_was_queued_and_under_way_for_an_agent_that_goes_ends_in_sight(
    tmp_path: Path,
) -> None:
    """Also an exchange that it was in: whoever asked hears of it."""
    ask = 'tool: sessions_send {"agentId": "chef", "message": "wait: 600", "timeoutSeconds": 0}'
    async with opened(tmp_path, "main", "chef") as gateway:
        await say(gateway, "main", ask + "\nthen:\nsay: asked", "r1")
        await call(gateway, "chat.send", sessionKey=CHEF, message="say: later", idempotencyKey="r2")
        (open_run, _queued) = await gateway.run_store.list_open(SessionKey.main("chef"))
    async with opened(tmp_path, "main") as gateway:
        for run_id in (open_run.run_id, "r2"):
            run = await gateway.run_store.wait(run_id, timeout_s=60)
            assert run is not None
            assert (run.status, 'there is no agent "chef"' in (run.error or "")) == ("error", True)
        assert (await say(gateway, "main", "say: still here", "r3")).reply == "still here"
        (exchange,) = (await call(gateway, "exchanges.list"))["exchanges"]
        assert exchange["state"] != "open", exchange
