"""Rules are read when they are used: a changed one holds for a run that began before."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.events import FeedEvent, SpeechAllowed
from crossclaw.domain.messages import ToolUse
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from crossclaw.testing.gateway import config_for
from tests.flows.talking import call, results_of, say
from tests.flows.tools import Counting, Hanging

pytestmark = pytest.mark.spec("B3")


def changed(gateway: Gateway, model: ScriptedProvider, **sections: Any) -> None:
    """What `config.patch` does before it answers."""
    fresh = msgspec.convert(sections, Config)
    assert gateway.config.take_rules(config_for(model, fresh))


async def test_a_run_under_way_loses_a_tool_between_two_of_its_calls(tmp_path: Path) -> None:
    gateways: list[Gateway] = []

    def deny(_request: Any) -> ToolUse:
        changed(gateways[0], model, tools={"deny": ["count"]})
        return ToolUse("c2", "count", {})

    model = ScriptedProvider([ToolUse("c1", "count", {}), deny, "done"])
    count = Counting("count")
    async with open_gateway(tmp_path, model, tools=[count]) as gateway:
        gateways.append(gateway)
        run = await say(gateway, "main", "twice please", "r1")
        first, second = await results_of(gateway, run)

    assert (count.calls, first) == (1, "count 1")
    assert "tools denies count" in second


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({"tools": {"deny": ["hang"]}}, id="denied"),
        pytest.param({"tools": {"allow": ["read"]}}, id="no longer allowed"),
        pytest.param({"agents": {"defaults": {"sandbox": {"mode": "all"}}}}, id="sandboxed"),
    ],
)
async def test_a_call_that_is_under_way_is_stopped_when_its_rule_changes(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    model = ScriptedProvider([ToolUse("c1", "hang", {}), "stopped"])
    hang = Hanging()
    async with open_gateway(tmp_path, model, tools=[hang]) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await hang.begun.wait()
        changed(gateway, model, **sections)
        run = await gateway.run_store.wait("r1", timeout_s=60)
        assert run is not None
        (told,) = await results_of(gateway, run)

    assert run.reply == "stopped"
    assert "hang was stopped: what it may do has changed" in told


async def test_a_call_whose_rules_did_not_change_goes_on(tmp_path: Path) -> None:
    model = ScriptedProvider([ToolUse("c1", "hang", {}), "stopped"])
    hang = Hanging()
    async with open_gateway(tmp_path, model, tools=[hang]) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await hang.begun.wait()
        changed(gateway, model, tools={"deny": ["exec"]})
        run = await gateway.run_store.wait("r1", timeout_s=60)
        assert run is not None
        assert not run.ended
        await call(gateway, "chat.abort", sessionKey="main")


@pytest.mark.spec("Y4")
async def test_a_reply_is_not_delivered_when_the_send_policy_denies_it_by_then(
    tmp_path: Path,
) -> None:
    chat, model = MemoryChannel(settings=OPEN_TO_ALL), ScriptedProvider(["hello"], delay_s=5)
    rules = [{"action": "deny", "match": {"channel": "memory"}}]
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi")
        await anyio.sleep(1)
        changed(gateway, model, session={"sendPolicy": {"rules": rules}})
        await gateway.run_store.wait(run_id)
        await anyio.sleep(600)

    assert chat.sent == []


async def test_what_a_session_may_see_changes_with_the_rule(tmp_path: Path) -> None:
    look = {"sessionKey": "agent:librarian:main"}

    def answer(request: Any) -> Any:
        asked = str(request.turns[-1])
        if "look" in asked and "tool_use_id" not in asked:
            return ToolUse(f"c{len(model.seen)}", "sessions_history", look)
        return "ok"

    model = ScriptedProvider(answer)
    agents = {"list": [{"id": "main"}, {"id": "librarian"}]}
    config = msgspec.convert({"agents": agents}, Config)
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await say(gateway, "agent:librarian:main", "hm", "r0")
        first = await say(gateway, "main", "look", "r1")
        changed(gateway, model, agents=agents, tools={"agentToAgent": {"enabled": False}})
        second = await say(gateway, "main", "look", "r2")
        seen, refused = [await results_of(gateway, run) for run in (first, second)]

    assert "hm" in str(seen)
    assert "tools.agentToAgent.enabled" in str(refused)


@pytest.mark.spec("Y4")
async def test_those_who_hear_a_reply_as_it_is_written_are_told_when_it_is_denied(
    tmp_path: Path,
) -> None:
    from crossclaw.app.serving import _tell_who_may_speak  # noqa: PLC0415

    heard: list[FeedEvent] = []
    model = ScriptedProvider(["hello"], delay_s=5)
    async with open_gateway(tmp_path, model) as gateway:
        gateway.feed.subscribe(heard.append, SpeechAllowed)
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await anyio.sleep(1)
        changed(gateway, model, session={"sendPolicy": {"default": "deny"}})
        await _tell_who_may_speak(gateway)
        await gateway.run_store.wait("r1")

    assert [each.allowed for each in heard if isinstance(each, SpeechAllowed)] == [False]
