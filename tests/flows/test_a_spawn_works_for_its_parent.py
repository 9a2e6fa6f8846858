"""A spawn works for its parent and has no more than it; a send is a request, answered by its target's rights."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolUse
from crossclaw.policy.sandbox import with_delegator
from crossclaw.sandbox.places import Places
from crossclaw.testing import ScriptedProvider, open_gateway
from crossclaw.testing.gateway import config_for
from tests.flows.talking import call, results_of, say
from tests.flows.tools import Counting, declared

pytestmark = pytest.mark.spec("B3")

HELPER = {"id": "helper"}
WITHOUT = {
    "id": "main",
    "tools": {"deny": ["count"]},
    "subagents": {"allowAgents": ["helper"]},
}


def config(**sections: Any) -> Config:
    return msgspec.convert({"agents": {"list": [WITHOUT, HELPER]}, **sections}, Config)


def told(request: Any) -> str:
    return str(request.turns[-1])


async def child_results(gateway: Gateway, spawned: Any) -> list[Any]:
    run = await gateway.run_store.wait(spawned["runId"], timeout_s=3_600)
    assert run is not None
    return await results_of(gateway, run)


async def test_what_a_parent_is_denied_its_child_is_denied_too(tmp_path: Path) -> None:
    """Whatever agent the child is of, and whoever writes into it later."""

    def answer(request: Any) -> Any:
        if "tool_use_id" in told(request) or "ToolResult" in told(request):
            return "done"
        if "count now" in told(request):
            return ToolUse(f"c{len(model.seen)}", "count", {})
        if "go" in told(request):
            return ToolUse(f"c{len(model.seen)}", "sessions_spawn", spawn)
        return "ok"

    spawn = {"task": "count now", "agentId": "helper"}
    model, count = ScriptedProvider(answer), Counting("count")
    async with open_gateway(tmp_path, model, config=config(), tools=[count]) as gateway:
        run = await say(gateway, "main", "go", "r1")
        (spawned,) = await results_of(gateway, run)
        (refused,) = await child_results(gateway, spawned)
        child = spawned["childSessionKey"]
        later = await say(gateway, child, "count now", "r2")
        (again,) = await results_of(gateway, later)
        own = await say(gateway, "agent:helper:main", "count now", "r3")
        (allowed,) = await results_of(gateway, own)

    for text in (refused, again):
        assert "of agent main, for which it works, denies count" in str(text)
    assert allowed == "count 1"
    assert count.calls == 1


async def test_what_is_denied_to_the_parent_later_is_denied_to_the_child_at_once(
    tmp_path: Path,
) -> None:
    free = {"id": "main", "subagents": {"allowAgents": ["helper"]}}
    before = msgspec.convert({"agents": {"list": [free, HELPER]}}, Config)
    model = ScriptedProvider(
        lambda request: (
            "done"
            if "tool_use_id" in told(request)
            else ToolUse(f"c{len(model.seen)}", "count", {})
        )
    )
    count = Counting("count")
    async with open_gateway(tmp_path, model, config=before, tools=[count]) as gateway:
        spawned = await call(gateway, "sessions.spawn", task="count", agentId="helper")
        assert await child_results(gateway, spawned) == ["count 1"]
        gateway.config.take_rules(config_for(model, config()))
        run = await say(gateway, spawned["childSessionKey"], "again", "r2")
        (refused,) = await results_of(gateway, run)

    assert "of agent main, for which it works, denies count" in str(refused)
    assert count.calls == 1


async def test_a_send_is_answered_by_its_targets_own_rights(tmp_path: Path) -> None:
    def answer(request: Any) -> Any:
        if "tool_use_id" in told(request):
            return "done"
        if "count now" in told(request):
            return ToolUse(f"c{len(model.seen)}", "count", {})
        if "go" in told(request):
            return ToolUse(f"c{len(model.seen)}", "sessions_send", send)
        return "REPLY_SKIP"

    send = {"agentId": "helper", "message": "count now", "timeoutSeconds": 600}
    model, count = ScriptedProvider(answer), Counting("count")
    async with open_gateway(tmp_path, model, config=config(), tools=[count]) as gateway:
        run = await say(gateway, "main", "go", "r1")
        (sent,) = await results_of(gateway, run)

    assert (sent["status"], count.calls) == ("ok", 1)


BOXED = {"mode": "all", "network": "none"}
OPEN = {"mode": "all", "network": "host"}


@pytest.mark.spec("V4")
@pytest.mark.parametrize("box_of_helper", [OPEN, {"mode": "off"}], ids=["network", "no sandbox"])
async def test_a_child_of_another_agent_has_neither_more_network_nor_another_workspace(
    tmp_path: Path, box_of_helper: dict[str, Any]
) -> None:
    agents = [{"id": "main", "sandbox": BOXED}, {"id": "helper", "sandbox": box_of_helper}]
    boxed = msgspec.convert({"agents": {"list": agents}}, Config)
    places = Places(boxed, lambda agent_id: tmp_path / agent_id, tmp_path / "state", os.environ)
    for name in ("main", "helper"):
        (tmp_path / name).mkdir()
    parent, child = SessionKey.main("main"), SessionKey.subagent("helper", "c")
    authority = with_delegator(boxed.agents, parent, Authority(), "p/m")
    own, place = await places.of(parent, Authority()), await places.of(child, authority)

    assert (own.network, own.folder) == (False, tmp_path / "main")
    assert (place.sandboxed, place.network, place.folder) == (True, False, tmp_path / "main")


@pytest.mark.spec("V4")
async def test_a_child_writes_no_more_than_its_parent(tmp_path: Path) -> None:
    agents = [
        {"id": "main", "sandbox": {**BOXED, "workspaceAccess": "ro"}},
        {"id": "helper", "sandbox": OPEN, "workspace": str(tmp_path)},
    ]
    boxed = msgspec.convert({"agents": {"list": agents}}, Config)
    places = Places(boxed, lambda _agent_id: tmp_path / "shared", tmp_path / "state", os.environ)
    authority = with_delegator(boxed.agents, SessionKey.main("main"), Authority(), "p/m")
    place = await places.of(SessionKey.subagent("helper", "c"), authority)

    assert place.writable is False


BY_PROVIDER = {"scripted": {"deny": ["count"]}}


@pytest.mark.parametrize("name", ["other/model", "default"])
async def test_no_session_chooses_itself_out_of_the_rules_for_its_model(
    tmp_path: Path, name: str
) -> None:
    """Nor back to a model that was configured, when the owner chose this one."""
    choose = ToolUse("c1", "session_status", {"model": name})
    model = ScriptedProvider([choose, "done"])
    other = {"other": {"baseUrl": "http://127.0.0.1:9", "api": "openai-completions"}}
    raw = {"tools": {"byProvider": BY_PROVIDER}, "models": {"providers": other}}
    rules = msgspec.convert(raw, Config)
    async with open_gateway(tmp_path, model, config=rules) as gateway:
        if name == "default":
            defaults = msgspec.structs.replace(gateway.config.agents.defaults, model="other/model")
            changed = msgspec.structs.replace(gateway.config.agents, defaults=defaults)
            msgspec.structs.force_setattr(gateway.config, "agents", changed)
            gateway.config.epoch += 1
            await call(gateway, "sessions.patch", key="main", model="scripted/test")
        run = await say(gateway, "main", "choose", "r1")
        (refused,) = await results_of(gateway, run)
        session = await gateway.ledger.find_session(SessionKey.main("main"))

    assert "tools.byProvider[scripted] holds for this session's model" in str(refused)
    assert session is not None
    assert session.model == ("scripted/test" if name == "default" else None)


def test_a_child_with_another_model_stands_under_the_rules_for_its_parents(
    tmp_path: Path,
) -> None:
    from crossclaw.policy.tools import decide_tool, delegator_layers, tool_layers  # noqa: PLC0415

    rules = msgspec.convert({"tools": {"byProvider": BY_PROVIDER}}, Config)
    authority = with_delegator(rules.agents, SessionKey.main("main"), Authority(), "scripted/test")
    own = tool_layers(rules, "main", model="other/model")
    (parent,) = authority.arms
    assert not with_delegator(
        rules.agents, SessionKey.main("main"), Authority(owner=True), "x/y"
    ).owner

    assert decide_tool(declared("count"), own).allowed
    assert not decide_tool(declared("count"), (*own, *delegator_layers(rules, parent))).allowed
