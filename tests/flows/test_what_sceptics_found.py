"""What a sceptical reader found in sends, spawns and the shared session, each as a small story."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid, KeyReused, ProviderRefused
from crossclaw.domain.events import FeedEvent, Injected, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolUse
from crossclaw.domain.runs import Outcome
from crossclaw.domain.sessions import NewSession
from crossclaw.door.principal import session_principal
from crossclaw.door.registry import Caller
from crossclaw.ledger.operations import ArchiveSession, EnsureSession, PutDelivery
from crossclaw.providers.contract import ModelRequest
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.spawning import MAIN, announces_in, children, config_of, family, reported
from tests.flows.talking import call, results_of, say

DESK = SessionKey.named("main", "desk")


def conf(raw: dict[str, Any]) -> Config:
    return msgspec.convert(raw, Config)


@pytest.mark.spec("B4")
async def test_a_clients_send_begins_with_no_more_hops_than_the_config_gives(
    tmp_path: Path,
) -> None:
    async with open_gateway(
        tmp_path,
        ScriptedProvider(lambda r: "ok"),
        config=conf({"session": {"agentToAgent": {"maxHops": 5}}}),
    ) as gateway:
        sent = await call(gateway, "sessions.send", agentId="main", message="go")
        run = await gateway.run_store.find(sent["runId"])

    assert run is not None
    assert run.authority.hops_left == 4


@pytest.mark.spec("B4")
async def test_a_send_without_hops_is_refused_and_nothing_is_queued(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        await call(gateway, "sessions.create", key=DESK.text)
        tired = session_principal(MAIN, Authority(hops_left=0))
        answer = await gateway.door.dispatch(
            Caller(principal=tired),
            "tool.sessions_send",
            {"sessionKey": DESK.text, "message": "on and on", "timeoutSeconds": 0},
        )

        assert answer.status == "error"
        assert "hops" in answer.error
        assert await gateway.run_store.find(answer.run_id) is None
        assert await gateway.ledger.list_open_runs(DESK) == []


@pytest.mark.spec("B4")
async def test_a_spawn_without_hops_is_refused_and_nothing_begins(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        tired = session_principal(MAIN, Authority(hops_left=0))
        answer = await gateway.door.dispatch(
            Caller(principal=tired), "tool.sessions_spawn", {"task": "more"}
        )

        assert answer.status == "error"
        assert "hops" in answer.error
        assert await children(gateway) == []


@pytest.mark.spec("P1")
async def test_a_child_has_the_time_that_was_asked_for_and_else_no_end(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"timeoutSeconds": 60}}})
    both: list[dict[str, Any]] = [{}, {"runTimeoutSeconds": 5}]
    limits = []
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        for asked in both:
            child = await call(gateway, "sessions.spawn", sessionKey="main", task="work", **asked)
            run = await gateway.run_store.find(child["runId"])
            assert run is not None
            limits.append(run.plan.timeout_ms)

    assert limits == [None, 5_000]


@pytest.mark.spec("B3", "P4")
async def test_a_child_of_a_sandboxed_owner_is_sandboxed_and_nobodys_owner(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"sandbox": {"mode": "non-main"}}}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        answer = await call(gateway, "sessions.spawn", sessionKey=DESK.text, task="work")
        run = await gateway.run_store.find(answer["runId"])
        child = await gateway.ledger.find_session(SessionKey.parse(answer["childSessionKey"]))
        await reported(gateway, DESK)
        (text,) = await announces_in(gateway, DESK)

    assert run is not None
    assert child is not None
    assert (run.authority.owner, run.authority.sandboxed) == (False, True)
    assert (child.authority.owner, child.authority.sandboxed) == (False, True)
    assert "transcript" not in text  # a path of this machine is nothing for a sandboxed parent


@pytest.mark.spec("P6")
async def test_a_report_goes_to_the_chat_that_was_asked_in_not_to_the_newest_one(
    tmp_path: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, family(child_s=20), channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await anyio.sleep(5)
        await chat.say("bob", "hello")  # the same main session, another address
        await reported(gateway)
        await chat.wait_sent(3)

    assert [to for to, text in chat.sent if text.startswith("Status:")] == ["ana"]


@pytest.mark.spec("P7")
async def test_an_archived_session_neither_spawns_nor_is_woken(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"subagents": {"wakeParent": True}}}})
    async with open_gateway(tmp_path, family(child_s=20), config=config) as gateway:
        await call(gateway, "sessions.spawn", sessionKey=DESK.text, task="work")
        await gateway.ledger.do(ArchiveSession(key=DESK, at=1))
        await reported(gateway, DESK)

        assert await gateway.ledger.list_open_runs(DESK) == []
        assert len(await announces_in(gateway, DESK)) == 1
        with pytest.raises(Exception, match=r"archived|unknown session"):
            await call(gateway, "sessions.spawn", sessionKey=DESK.text, task="more")


@pytest.mark.spec("B3", "P6")
async def test_a_woken_parent_has_no_more_authority_than_its_child_had(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"subagents": {"wakeParent": True}}}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        answer = await call(gateway, "sessions.spawn", task="work")
        await reported(gateway)
        wake = await gateway.run_store.wait(f"{answer['runId']}::wake", timeout_s=60)

    assert wake is not None
    assert not wake.authority.owner
    assert not wake.authority.may_spawn


@pytest.mark.spec("Y4")
@pytest.mark.parametrize("wakes", [False, True])
async def test_nothing_of_a_report_is_shown_on_the_page_of_a_denied_session(
    tmp_path: Path, wakes: bool
) -> None:
    config = config_of({"agents": {"defaults": {"subagents": {"wakeParent": wakes}}}})
    heard: list[FeedEvent] = []
    async with open_gateway(tmp_path, family(child_s=5), config=config) as gateway:
        gateway.feed.subscribe(heard.append)
        answer = await call(gateway, "sessions.spawn", sessionKey=DESK.text, task="work")
        await call(gateway, "sessions.patch", key=DESK.text, sendPolicy="deny")
        await reported(gateway, DESK)
        await anyio.sleep(60)

    assert not [event for event in heard if isinstance(event, Injected)]
    ends = [e for e in heard if isinstance(e, RunEnded) and e.run.run_id.endswith(":wake")]
    assert [end.withheld for end in ends] == [True] * wakes
    assert answer["status"] == "accepted"


@pytest.mark.spec("P5")
async def test_words_of_an_announce_that_failed_are_not_the_result(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(announce=ProviderRefused("no credit"))) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        (text,) = await announces_in(gateway)

    assert text.startswith("Status: success\nResult: forty-two\nNotes: no announce: ")


@pytest.mark.spec("B1", "P5", "P6")
async def test_two_stops_at_once_report_a_queued_child_once(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"maxConcurrent": 1}}})
    slow = ScriptedProvider(lambda r: "late", delay_s=300)
    async with open_gateway(tmp_path, slow, config=config) as gateway:
        await call(gateway, "chat.send", sessionKey=DESK.text, message="long", idempotencyKey="o")
        await anyio.sleep(1)
        await call(gateway, "sessions.spawn", task="t")

        async def stop() -> None:
            await call(gateway, "chat.abort", sessionKey="main")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            tasks.start_soon(stop)
        await anyio.sleep(5)

        assert len(await announces_in(gateway)) == 1


@pytest.mark.spec("V3", "V1")
async def test_a_label_tells_a_sandboxed_session_nothing_of_hidden_ones(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"sandbox": {"mode": "all"}}}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await call(gateway, "sessions.patch", key="agent:main:hidden", label="secret")
        boxed = Caller(principal=session_principal(DESK, Authority(sandboxed=True, hops_left=9)))
        await gateway.ledger.do(EnsureSession(new=NewSession(key=DESK, session_id="d"), at=1))
        told = [
            await gateway.door.dispatch(boxed, "tool.sessions_spawn", {"task": "t", "label": label})
            for label in ("secret", "free")
        ]
        sent = [
            await gateway.door.dispatch(
                boxed, "tool.sessions_send", {"label": label, "message": "hi", "timeoutSeconds": 9}
            )
            for label in ("secret", "free")
        ]
        rows = (await gateway.door.dispatch(boxed, "tool.sessions_list", {})).sessions

    assert [answer.status for answer in told] == ["accepted", "accepted"]
    assert [answer.status for answer in sent] == ["ok", "ok"]
    assert sorted(row.label for row in rows) == ["free", "secret"]


@pytest.mark.spec("P1", "P7")
async def test_the_label_of_an_archived_child_can_be_given_again(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(arguments={"label": "seeker"})) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)
        await gateway.ledger.do(ArchiveSession(key=SessionKey.parse(spawn.child_key), at=1))
        await say(gateway, "main", "go", "r2")

        assert len(await children(gateway)) == 2


@pytest.mark.spec("S1")
async def test_a_clients_send_with_a_key_is_one_send(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda r: "ok")) as gateway:
        asked: dict[str, Any] = {"agentId": "main", "message": "hi", "idempotencyKey": "k1"}
        first = await call(gateway, "sessions.send", **asked)
        again = await call(gateway, "sessions.send", **asked)
        with pytest.raises(KeyReused):
            await call(gateway, "sessions.send", **{**asked, "message": "other"})

    assert first == again
    assert first["runId"] == "k1"


@pytest.mark.spec("B1")
async def test_the_time_that_nobody_worked_does_not_count_against_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    model = ScriptedProvider(lambda r: "done", delay_s=60)
    async with open_gateway(folder, model) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey="r1")
        await anyio.sleep(5)
        copy = crashed_copy(folder)
    await anyio.sleep(700)  # longer than agents.defaults.timeoutSeconds
    async with open_gateway(copy, model) as gateway:
        run = await gateway.run_store.wait("r1", timeout_s=300)

    assert run is not None
    assert (run.status, run.reply) == ("ok", "done")


# ── the shared session ─────────────────────────────────────────────────────────────────────────

SHARED = {"session": {"scope": "global"}, "agents": {"list": [{"id": "main"}, {"id": "helper"}]}}


@pytest.mark.spec("K5", "Y2", "P8")
async def test_commands_work_in_the_shared_session_and_never_say_its_name(tmp_path: Path) -> None:
    async with open_gateway(
        tmp_path, ScriptedProvider(lambda r: "ok"), config=conf(SHARED)
    ) as gateway:
        await say(gateway, "main", "hi", "r0")
        for number, text in enumerate(
            ["/status", "/send off", "/send on", "/model", "/new", "/usage"]
        ):
            await call(
                gateway, "chat.send", sessionKey="main", message=text, idempotencyKey=f"c{number}"
            )
            run = await gateway.run_store.find(f"c{number}")
            assert run is not None
            assert run.reply
            assert "global" not in run.reply
            assert "⚠️" not in run.reply


@pytest.mark.spec("K5")
async def test_neither_models_nor_clients_see_the_word_global(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        last = request.turns[-1]
        if "go" in str(last) and not getattr(last, "results", None):
            return [
                ToolUse("c1", "sessions_spawn", {"task": "work"}),
                ToolUse("c2", "sessions_send", {"sessionKey": DESK.text, "message": "hi there"}),
                ToolUse("c3", "session_status", {}),
            ]
        return "fine"

    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model, config=conf(SHARED)) as gateway:
        await call(gateway, "sessions.create", key=DESK.text)
        run = await say(gateway, "main", "go", "r1")
        await anyio.sleep(60)
        results = await results_of(gateway, run)
        listed = await call(gateway, "sessions.list")
        read = await call(gateway, "tool.sessions_history", sessionKey=DESK.text)

    assert "global" not in str([request.system for request in model.seen])
    assert "from global" not in str([request.turns for request in model.seen])
    assert '"global"' not in msgspec.json.encode([results, listed, read]).decode()
    assert "Session: main" in str(results)


@pytest.mark.spec("K5", "S8")
async def test_everybody_may_reach_the_shared_session_also_without_agent_to_agent(
    tmp_path: Path,
) -> None:
    closed = {**SHARED, "tools": {"agentToAgent": {"enabled": False}}}
    async with open_gateway(
        tmp_path, ScriptedProvider(lambda r: "ok"), config=conf(closed)
    ) as gateway:
        await say(gateway, "main", "hi", "r0")
        helper = Caller(principal=session_principal(SessionKey.named("helper", "x"), Authority()))
        read = await gateway.door.dispatch(helper, "tool.sessions_history", {"sessionKey": "main"})

    assert read.session_key == "main"


@pytest.mark.spec("B1", "P5")
async def test_a_child_whose_end_was_reported_is_not_reported_again(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        answer = await call(gateway, "sessions.spawn", task="work")
        await reported(gateway)
        announce = await gateway.run_store.wait(f"{answer['runId']}::announce", timeout_s=60)
        assert announce is not None
        again = await gateway.endings.finished(announce, Outcome("ok", reply="Result: once more"))

    assert list(again.ops) == []


@pytest.mark.spec("P4", "B3")
async def test_a_run_that_may_not_spawn_is_refused_by_the_method_itself(tmp_path: Path) -> None:
    """Not only by a toolset that leaves the tool out."""
    async with open_gateway(tmp_path, family()) as gateway:
        bound = session_principal(MAIN, Authority(may_spawn=False))
        answer = await gateway.door.dispatch(
            Caller(principal=bound), "tool.sessions_spawn", {"task": "more"}
        )

        assert (answer.status, answer.error) == ("forbidden", "this run may not spawn")
        assert await children(gateway) == []


@pytest.mark.spec("P4", "S2")
async def test_the_tools_refuse_who_is_no_session_and_who_names_two_targets(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        await call(gateway, "sessions.create", key=DESK.text)
        await call(gateway, "sessions.patch", key=DESK.text, label="desk")
        with pytest.raises(Invalid, match=r"clients have sessions\.spawn"):
            await call(gateway, "tool.sessions_spawn", task="more")
        me, two = session_principal(MAIN, Authority()), {"sessionKey": DESK.text, "label": "desk"}
        with pytest.raises(Invalid, match="not both"):
            await call(gateway, "tool.sessions_send", me, message="hi", timeoutSeconds=0, **two)

        assert await children(gateway) == []
        assert await gateway.ledger.list_open_runs(DESK) == []


@pytest.mark.spec("P4", "B3")
async def test_what_an_owner_says_in_a_child_is_no_owners_word_there(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        await say(gateway, "main", "go", "r1")
        (child,) = await children(gateway)
        run = await say(gateway, child.child_key, "and now?", "r2")

    assert run.authority.owner is False


@pytest.mark.spec("Y4", "P6")
async def test_a_report_that_meets_the_deletion_of_its_parent_goes_nowhere(tmp_path: Path) -> None:
    """Decided while the parent was there, stored when it is gone, and its denial with it."""
    group = SessionKey.group("main", "memory", "g1")
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, family(child_s=20), channels=[chat]) as gateway:
        await chat.say("ana", "go", group="g1")
        await anyio.sleep(30)  # the task is done, and the child thinks about its announce
        (spawn,) = await children(gateway, group)
        announce = await gateway.run_store.find(f"{spawn.run_id}::announce")
        assert announce is not None
        decided = await gateway.endings.finished(announce, Outcome("ok", reply="Result: late"))
        await call(gateway, "sessions.delete", key=group.text)
        puts = [op for op in decided.ops if isinstance(op, PutDelivery)]
        stored = await gateway.ledger.commit(*puts)
        await anyio.sleep(600)

    assert list(stored) == [False]
    assert [text for _, text in chat.sent] == ["ok"]
