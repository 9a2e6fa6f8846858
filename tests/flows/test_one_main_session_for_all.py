"""With `session.scope: global` one session is the main one of every agent: wherever a main session is meant, that one is."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import DeliveryError, Invalid, ProviderRefused
from crossclaw.domain.keys import SHARED, SessionKey
from crossclaw.domain.messages import ToolUse, UserMessage
from crossclaw.door.principal import Principal, session_principal
from crossclaw.ledger.operations import ArchiveSession
from crossclaw.testing import MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.spawning import family, reported
from tests.flows.talking import call, say
from tests.flows.test_who_may_talk import direct

THE_ONE = SessionKey.shared("work")
SHOWN = "agent:work:main"
DESK = "agent:home:desk"


def conf(**more: Any) -> Config:
    agents = {"list": [{"id": "work", "default": True}, {"id": "home"}]}
    return msgspec.convert({"agents": agents, "session": {"scope": "global"}, **more}, Config)


def acting(key: SessionKey) -> Principal:
    return session_principal(key, Authority(owner=True))


async def rows_of(gateway: Gateway, principal: Principal) -> dict[str, dict[str, Any]]:
    answer = await call(gateway, "tool.agents_list", principal)
    return {row["id"]: row for row in answer["agents"]}


@pytest.mark.spec("K5", "L1")
async def test_agents_list_knows_that_the_shared_session_has_begun(tmp_path: Path) -> None:
    desk = acting(SessionKey.named("home", "desk"))
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "ok"), config=conf()) as gateway:
        before = await rows_of(gateway, desk)
        await say(gateway, "main", "hi", "r1")
        after = await rows_of(gateway, desk)

    assert [before[each]["exists"] for each in ("home", "work")] == [False, False]
    assert [after[each]["exists"] for each in ("home", "work")] == [True, True]
    assert {row["sessionKey"] for row in after.values()} == {"main"}


@pytest.mark.spec("K5", "L1")
async def test_the_shared_session_has_nobody_to_send_to_and_others_reach_it_as_the_tool_does(
    tmp_path: Path,
) -> None:
    """A session cannot send to itself, and every agent's main session is this one."""
    config = conf(tools={"sessions": {"visibility": "agent"}})
    model = ScriptedProvider(lambda r: "ok")
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await say(gateway, "main", "hi", "r1")
        itself = await rows_of(gateway, acting(THE_ONE))
        desk = acting(SessionKey.named("home", "desk"))
        from_desk = await rows_of(gateway, desk)
        sent = await call(
            gateway, "tool.sessions_send", desk, sessionKey="agent:work:main", message="hi"
        )

    assert not any(row["canSend"] for row in itself.values())
    assert from_desk["work"]["canSend"]
    assert sent["status"] == "ok"
    assert "- home" not in model.seen[0].system


async def test_a_prompt_is_shown_as_the_model_gets_it_in_the_shared_session(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda r: "ok")
    async with open_gateway(tmp_path, model, config=conf()) as gateway:
        shown = await call(gateway, "agents.prompt")
        named = await call(gateway, "agents.prompt", sessionKey="main")
        other = await call(gateway, "agents.prompt", agentId="home")
        await say(gateway, "main", "hi", "r1")

    assert shown["system"] == named["system"] == model.seen[0].system
    assert (shown["agentId"], shown["sessionKey"]) == ("work", SHOWN)
    assert other["agentId"] == "home"


async def test_word_of_a_pairing_request_belongs_to_the_shared_session(tmp_path: Path) -> None:
    memory = MemoryChannel()
    memory.faults.extend([DeliveryError("try later", retryable=True)] * 9)
    config = conf(commands={"ownerAllowFrom": ["memory:1"]})
    async with open_gateway(
        tmp_path, ScriptedProvider(lambda r: "ok"), config=config, channels=[memory]
    ) as gateway:
        await memory.bring(direct("7", "let me in", 1))
        waiting = await gateway.ledger.list_open_deliveries(limit=9)

    assert {each.address.to: each.key.text for each in waiting} == {"1": SHARED, "7": SHARED}


async def test_the_shared_session_put_away_is_back_when_the_gateway_opens(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "ok"), config=conf()) as gateway:
        await say(gateway, "main", "hi", "r1")
        await gateway.ledger.do(ArchiveSession(key=THE_ONE, at=1))
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "ok"), config=conf()) as gateway:
        session = await gateway.ledger.find_session(THE_ONE)

    assert session is not None
    assert session.archived_at is None


@pytest.mark.spec("K5", "P5")
async def test_a_child_of_the_shared_session_reports_to_it(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(), config=conf()) as gateway:
        run = await say(gateway, "main", "go", "r1")
        await reported(gateway, THE_ONE)
        entries = await gateway.ledger.list_entries(run.session_id, limit=20)

    said = [each.message for each in entries if isinstance(each.message, UserMessage)]
    assert [each.provenance.kind for each in said if each.provenance] == ["person", "announce"]
    assert "it is 42" in str(said[-1].content)


@pytest.mark.spec("K5")
async def test_runs_of_the_shared_session_are_found_stopped_and_said_again_by_their_id(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider([ProviderRefused("no"), "better"], delay_s=60)
    async with open_gateway(tmp_path, model, config=conf()) as gateway:
        await say(gateway, "main", "hi", "r1")
        trace = await call(gateway, "runs.trace", runId="r1")
        tree = await call(gateway, "trace.get", id="r1")
        again = await call(gateway, "runs.retry", runId="r1")
        await anyio.sleep(5)
        stopped = await call(gateway, "sessions.abort", runId=again["runId"])

    assert trace["run"]["key"] == tree["key"] == tree["spans"][0]["key"] == SHOWN
    assert stopped["runIds"] == [again["runId"]]


@pytest.mark.spec("K5")
async def test_who_looks_at_what_passed_between_sessions_never_sees_the_word_global(
    tmp_path: Path,
) -> None:
    def answer(request: Any) -> Any:
        last = request.turns[-1]
        if "go" in str(last) and not getattr(last, "results", None):
            spawn = ToolUse("c1", "sessions_spawn", {"task": "work"})
            send = ToolUse("c2", "sessions_send", {"sessionKey": DESK, "message": "hi there"})
            return [spawn, send]
        return "fine"

    async with open_gateway(tmp_path, ScriptedProvider(answer), config=conf()) as gateway:
        await call(gateway, "sessions.create", key=DESK)
        await say(gateway, "main", "go", "r1")
        await anyio.sleep(60)
        looked = await call(gateway, "map.get")
        exchanges = (await call(gateway, "exchanges.list"))["exchanges"]
        answers = [
            looked,
            exchanges,
            await call(gateway, "sessions.table"),
            await call(gateway, "trace.get", id="r1"),
            *[await call(gateway, "exchanges.trace", id=each["id"]) for each in exchanges],
            *[await call(gateway, "runs.trace", runId=each["runId"]) for each in looked["runs"]],
        ]
        with pytest.raises(Invalid, match=SHOWN):
            await call(gateway, "sessions.archive", key="main")

    assert [each["requester"] for each in exchanges if each["target"] == DESK] == [SHOWN]
    assert {each["source"] for each in looked["runs"] if each["runId"] == "r1::c2"} == {SHOWN}
    assert '"global"' not in msgspec.json.encode(answers).decode()


@pytest.mark.spec("K5", "S8")
async def test_it_is_explained_that_everybody_may_reach_the_shared_session(tmp_path: Path) -> None:
    config = conf(tools={"agentToAgent": {"enabled": False}})
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "ok"), config=config) as gateway:
        await say(gateway, "main", "hi", "r1")
        asked: Any = {"from": DESK, "verb": "read", "to": "main"}
        answer = await call(gateway, "sessions.explain", **asked)

    assert answer["allowed"]
    assert answer["to"] == SHOWN


async def test_what_a_cleanup_is_told_to_keep_may_be_the_shared_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "ok"), config=conf()) as gateway:
        await say(gateway, "main", "hi", "r1")
        await gateway.ledger.do(ArchiveSession(key=THE_ONE, at=1))
        kept = await call(gateway, "sessions.cleanup", olderThanDays=1, activeKey=SHOWN)
        without = await call(gateway, "sessions.cleanup", olderThanDays=1)

    assert (kept["keys"], without["keys"]) == ([], [SHOWN])
