"""Sub-agents: accepted at once, at work on their own, reported once to parent and chat, archived."""

from math import inf
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid, KeyReused, ProviderRefused
from crossclaw.domain.events import FeedEvent, Injected
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Text, ToolUse
from crossclaw.domain.sessions import Session
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.operations import DeleteSession
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    instructions_of,
    message_texts,
    open_gateway,
)
from crossclaw.tools.contract import ToolContext
from tests.flows.crashing import crashed_copy
from tests.flows.spawning import MAIN, announces_in, children, config_of, family, reported
from tests.flows.talking import call, results_of, say


async def child_of(gateway: Gateway) -> Session:
    (spawn,) = await children(gateway)
    found = await gateway.ledger.find_session(SessionKey.parse(spawn.child_key))
    assert found is not None
    return found


async def spawn_result(gateway: Gateway, run_id: str = "r1") -> Any:
    run = await gateway.run_store.find(run_id)
    assert run is not None
    return (await results_of(gateway, run))[0]


# ── accepted ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("P2", "K4")
async def test_a_spawn_is_accepted_at_once_while_the_child_still_works(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(child_s=60)) as gateway:
        await say(gateway, "main", "go", "r1")
        result = await spawn_result(gateway)
        (spawn,) = await children(gateway)

        assert result["status"] == "accepted"
        assert result["runId"] == "r1::c1"
        assert result["childSessionKey"] == spawn.child_key
        assert spawn.child_key.startswith("agent:main:subagent:")
        assert spawn.state == "running"
        run = await gateway.run_store.find("r1::c1")
        assert run is not None
        assert run.kind == "spawn"
        assert not run.plan.deliver


@pytest.mark.spec("P1")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "  "}, "task required"),
        ({"model": "nobody/knows"}, "invalid model 'nobody/knows'"),
        ({"model": "no-slash"}, "invalid model"),
        ({"thinking": "very hard"}, "the levels are off"),
        ({"cleanup": "burn"}, "cleanup is delete or keep"),
        ({"runTimeoutSeconds": -1}, "from 0 (no limit)"),
        ({"label": "x" * 65}, "at most 64"),
        ({"agentId": "nobody"}, "may not spawn nobody"),
        ({"colour": "red"}, "it takes task"),
    ],
)
async def test_a_spawn_that_cannot_be_says_why_and_nothing_starts(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    async with open_gateway(tmp_path, family(arguments=arguments)) as gateway:
        await say(gateway, "main", "go", "r1")

        assert words in str(await spawn_result(gateway))
        assert await children(gateway) == []
        assert len(await gateway.ledger.list_sessions(limit=10, sight=EVERYTHING)) == 1


@pytest.mark.spec("P1")
async def test_a_child_has_the_model_thinking_and_label_that_were_asked_for(tmp_path: Path) -> None:
    arguments = {"model": "scripted/other", "thinking": "high", "label": "seeker"}
    model = family(arguments=arguments)
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        child = await child_of(gateway)

        assert (child.model, child.thinking, child.label) == ("scripted/other", "high", "seeker")
        asked = [r for r in model.seen if "You are a sub-agent" in instructions_of(r)]
        assert [(r.model, r.thinking) for r in asked] == [("other", "high"), ("other", "high")]
        sent = await call(gateway, "sessions.send", label="seeker", message="still there?")
        assert sent["status"] == "ok"


@pytest.mark.spec("P1")
async def test_a_child_that_was_not_asked_for_in_a_chat_reports_to_the_chat_of_its_parent(
    tmp_path: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, family(child_s=60), channels=[chat]) as gateway:
        await chat.say("ana", "hello")
        await chat.wait_sent()
        await say(gateway, "main", "go", "r1")
        (spawn,) = await children(gateway)

    assert spawn.reply_to is not None
    assert (spawn.reply_to.channel, spawn.reply_to.to) == ("memory", "ana")


@pytest.mark.spec("P1")
async def test_children_get_the_configured_model_and_timeout_when_nothing_is_said(
    tmp_path: Path,
) -> None:
    defaults = {"subagents": {"model": "scripted/cheap", "runTimeoutSeconds": 7}}
    config = config_of({"agents": {"defaults": defaults}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        run = await gateway.run_store.find("r1::c1")

        assert (await child_of(gateway)).model == "scripted/cheap"
        assert run is not None
        assert run.plan.timeout_ms == 7000


@pytest.mark.spec("P1")
async def test_a_label_never_keeps_a_child_from_starting(tmp_path: Path) -> None:
    """Whether the first with that label is at work or has ended."""
    async with open_gateway(tmp_path, family(arguments={"label": "seeker"}, child_s=60)) as gateway:
        for number in range(3):
            await say(gateway, "main", "go", f"r{number}")
        await anyio.sleep(600)
        await say(gateway, "main", "go", "r3")

        spawned = await children(gateway)
        found = [await gateway.ledger.find_session(SessionKey.parse(s.child_key)) for s in spawned]
        assert [session and session.label for session in found] == ["seeker"] * 4


@pytest.mark.spec("P1", "S1")
async def test_a_label_that_several_visible_sessions_have_is_answered_with_their_keys(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, family(arguments={"label": "seeker"})) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        alone = await call(gateway, "sessions.send", label="seeker", message="there?")
        await say(gateway, "main", "go", "r2")
        spawned = await children(gateway)
        with pytest.raises(Invalid, match="several sessions have the label 'seeker'") as refusal:
            await call(gateway, "sessions.send", label="seeker", message="there?")

        assert alone["status"] == "ok"
        assert all(spawn.child_key in str(refusal.value) for spawn in spawned)


@pytest.mark.spec("P3")
async def test_another_agent_is_spawned_only_where_the_config_names_it(tmp_path: Path) -> None:
    asked = {"agentId": "helper"}
    async with open_gateway(tmp_path / "a", family(arguments=asked), config=config_of()) as gateway:
        await say(gateway, "main", "go", "r1")
        refusal = await spawn_result(gateway)
        assert refusal["status"] == "forbidden"
        assert "subagents.allowAgents" in refusal["error"]
        assert await children(gateway) == []
    agents = [{"id": "main", "subagents": {"allowAgents": ["Helper"]}}, {"id": "helper"}]
    config = config_of({"agents": {"list": agents}})
    async with open_gateway(tmp_path / "b", family(arguments=asked), config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        assert (await reported(gateway)).child_key.startswith("agent:helper:subagent:")


@pytest.mark.spec("P3")
async def test_agents_list_tells_whom_one_may_spawn(tmp_path: Path) -> None:
    agents = [
        {"id": "main", "name": "Mia", "subagents": {"allowAgents": ["helper", "ghost"]}},
        {"id": "helper"},
        {"id": "other", "subagents": {"allowAgents": ["*"]}},
    ]
    config = config_of({"agents": {"list": agents}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        tool = gateway.toolsets.known["agents_list"]
        mine = await tool.call(ToolContext(MAIN, Authority()), tool.read({}))
        theirs = await tool.call(ToolContext(SessionKey.main("other"), Authority()), tool.read({}))

    spawned = [row for row in mine.agents if row.can_spawn]
    assert [(row.id, row.configured, row.name) for row in spawned] == [
        ("main", True, "Mia"),
        ("ghost", False, None),
        ("helper", True, None),
    ]
    assert (mine.requester, mine.allow_any) == ("main", False)
    assert theirs.allow_any
    assert [row.id for row in theirs.agents] == ["other", "helper", "main"]


# ── the child ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("P4")
async def test_a_child_has_every_tool_but_the_session_tools(tmp_path: Path) -> None:
    model = family()
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)

    parent, child = (
        model.seen[0],
        next(r for r in model.seen if "You are a sub-agent" in instructions_of(r)),
    )
    mine, theirs = ({tool.name for tool in request.tools} for request in (parent, child))
    session_tools = {"sessions_list", "sessions_history", "sessions_send", "sessions_spawn"}
    assert mine - theirs == session_tools | {"agents_list", "session_status"}
    assert "read" in theirs


@pytest.mark.spec("P4")
@pytest.mark.parametrize(
    ("policy", "has", "has_not"),
    [
        ({"allow": ["read", "sessions_list"]}, {"read", "sessions_list"}, {"sessions_spawn"}),
        ({"allow": ["*"]}, {"read"}, {"sessions_list", "sessions_spawn"}),
        ({"allow": ["*", "sessions_spawn"]}, {"read"}, {"sessions_spawn"}),
        ({"allow": ["group:sessions"]}, {"sessions_send"}, {"read", "sessions_spawn"}),
        ({"deny": ["read"]}, set(), {"read", "sessions_list"}),
        ({"allow": ["read"], "deny": ["re*"]}, set(), {"read"}),
        ({"alsoAllow": ["sessions_history"]}, {"read", "sessions_history"}, {"sessions_list"}),
    ],
)
async def test_the_config_changes_a_childs_tools_but_never_lets_it_spawn(
    tmp_path: Path, policy: dict[str, Any], has: set[str], has_not: set[str]
) -> None:
    model = family()
    config = config_of({"tools": {"subagents": {"tools": policy}}})
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)

    child = next(r for r in model.seen if "You are a sub-agent" in instructions_of(r))
    names = {tool.name for tool in child.tools}
    assert has <= names
    assert not has_not & names


@pytest.mark.spec("P4", "B3")
async def test_a_message_from_outside_does_not_make_a_child_more_than_a_child(
    tmp_path: Path,
) -> None:
    def work(request: ModelRequest) -> Any:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        return "done"

    model = family(work=work)
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)
        before = len(model.seen)
        await say(gateway, spawn.child_key, "now spawn something", "r2")
        run = await gateway.run_store.find("r2")

        assert not {"sessions_spawn", "sessions_send"} & {t.name for t in model.seen[before].tools}
        assert run is not None
        assert not run.authority.may_spawn
        assert not run.authority.owner
        answer = await call(gateway, "sessions.spawn", sessionKey=spawn.child_key, task="more")
        assert answer["status"] == "forbidden"
        assert "cannot spawn" in answer["error"]


@pytest.mark.spec("P4")
async def test_a_child_that_calls_the_spawn_tool_anyway_hears_that_there_is_none(
    tmp_path: Path,
) -> None:
    def work(request: ModelRequest) -> Any:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        if last.results:
            return str([block.text for block in last.results[0].content if isinstance(block, Text)])
        return [ToolUse("x", "sessions_spawn", {"task": "deeper"})]

    async with open_gateway(tmp_path, family(work=work, announce="ANNOUNCE_SKIP")) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)

        assert spawn.outcome is not None
        assert "is not available here: being a sub-agent" in (spawn.outcome.reply or "")
        assert len(await children(gateway)) == 1


@pytest.mark.spec("B4")
async def test_a_spawn_is_a_hop_and_a_chain_without_hops_ends(tmp_path: Path) -> None:
    config = config_of({"session": {"agentToAgent": {"maxHops": 1}}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        run = await gateway.run_store.find("r1::c1")

        assert run is not None
        assert (run.authority.hops_left, run.cause.hops, run.cause.chain) == (0, 1, ("r1",))


# ── the report ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("P5", "P6")
async def test_the_report_reaches_the_parents_transcript_and_the_chat_it_asked_in(
    tmp_path: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, family(), channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await reported(gateway)
        await chat.wait_sent(2)
        (text,) = await announces_in(gateway)

        assert text.startswith(
            "Status: success\nResult: it is 42\nNotes: quick\n\nStats: runtime 0s"
        )
        child = await child_of(gateway)
        for part in ("tokens ", child.key.text, child.session_id, f"{child.session_id}.jsonl"):
            assert part in text
        assert chat.sent == [("ana", "ok"), ("ana", text)]


@pytest.mark.spec("P6")
async def test_the_parents_next_turn_knows_the_report_and_no_run_was_started_for_it(
    tmp_path: Path,
) -> None:
    model, events = family(), list[FeedEvent]()
    async with open_gateway(tmp_path, model) as gateway:
        gateway.feed.subscribe(events.append)
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        assert [type(each) for each in events].count(Injected) == 1  # the page's chat hears it
        asked = len(model.seen)
        await anyio.sleep(60)
        assert len(model.seen) == asked
        await say(gateway, "main", "and?", "r2")

        last = model.seen[-1].turns[-1]
        assert isinstance(last, UserTurn)
        words = [block.text for block in last.content if isinstance(block, Text)]
        assert any(
            "agent:main:subagent:" in text.split("through")[0]
            and text.startswith("\u27e6announce message")
            for text in words
        )
        assert any("it is 42" in text for text in words)
        assert words[-1] == "and?"


@pytest.mark.spec("P6")
async def test_a_parent_that_wants_to_be_woken_answers_the_report(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    config = config_of({"agents": {"defaults": {"subagents": {"wakeParent": True}}}})
    async with open_gateway(tmp_path, family(), config=config, channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await reported(gateway)
        await chat.wait_sent(2)

        assert chat.sent == [("ana", "ok"), ("ana", "ok")]
        assert len(await announces_in(gateway)) == 1


@pytest.mark.spec("P5", "P6")
@pytest.mark.parametrize("token", ["ANNOUNCE_SKIP", "  ANNOUNCE_SKIP\n", "REPLY_SKIP"])
async def test_a_child_that_asks_for_silence_leaves_a_note_and_nothing_is_posted(
    tmp_path: Path, token: str
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, family(announce=token), channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await reported(gateway)
        await anyio.sleep(60)

        (note,) = await announces_in(gateway)
        assert "Status: success" in note
        assert "SKIP" not in note
        assert chat.sent == [("ana", "ok")]


@pytest.mark.spec("P6", "S7")
@pytest.mark.parametrize("token", ["ANNOUNCE_SKIP", "REPLY_SKIP\n"])
async def test_a_woken_parent_that_asks_for_silence_posts_nothing(
    tmp_path: Path, token: str
) -> None:
    def answer(request: ModelRequest) -> Any:
        words = message_texts(request.turns[-1])
        if "You are a sub-agent" in instructions_of(request):
            return "forty-two"
        if "announce message" in str(words):
            return token
        asked = words and words[-1] == "go"
        return [ToolUse("c1", "sessions_spawn", {"task": "count"})] if asked else "ok"

    chat = MemoryChannel(settings=OPEN_TO_ALL)
    config = config_of({"agents": {"defaults": {"subagents": {"wakeParent": True}}}})
    async with open_gateway(
        tmp_path, ScriptedProvider(answer), config=config, channels=[chat]
    ) as gateway:
        await chat.say("ana", "go")
        spawn = await reported(gateway)
        woken = await gateway.run_store.wait(f"{spawn.run_id}::wake", timeout_s=60)
        await anyio.sleep(60)

        assert woken is not None
        assert (woken.status, (woken.reply or "").strip()) == ("ok", token.strip())
        assert chat.sent == [("ana", "ok")]


@pytest.mark.spec("P5")
async def test_a_task_that_ends_in_a_token_has_no_result(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(work="ANNOUNCE_SKIP", announce="")) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)

        assert (await announces_in(gateway))[0].startswith("Status: success\nResult: (no output)\n")


@pytest.mark.spec("P5")
@pytest.mark.parametrize(
    ("reply", "begins"),
    [
        ("just words", "Status: success\nResult: just words\n"),
        ("Status: I failed!\nResult: fine", "Status: success\nResult: fine\n"),
        (
            "**Result:** bold\n**Notes:** two\nlines",
            "Status: success\nResult: bold\nNotes: two\nlines\n",
        ),
        ("Notes: only a note", "Status: success\nResult: forty-two\nNotes: only a note\n"),
        ("ANNOUNCE_SKIP.", "Status: success\nResult: ANNOUNCE_SKIP.\n"),
        ("   ", "Status: success\nResult: forty-two\n"),
    ],
)
async def test_whatever_a_child_says_becomes_status_result_and_notes(
    tmp_path: Path, reply: str, begins: str
) -> None:
    async with open_gateway(tmp_path, family(announce=reply)) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)

        assert (await announces_in(gateway))[0].startswith(begins)


@pytest.mark.spec("P5")
async def test_a_child_that_fails_is_still_asked_and_its_status_is_the_runtimes(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, family(work=ProviderRefused("no credit"))) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        (text,) = await announces_in(gateway)

        assert text.startswith("Status: error\nResult: it is 42\nNotes: quick")


@pytest.mark.spec("P5", "P6")
async def test_when_the_announce_fails_too_the_runtime_writes_the_report(tmp_path: Path) -> None:
    broken = ProviderRefused("no credit")
    async with open_gateway(tmp_path, family(work=broken, announce=broken)) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        (text,) = await announces_in(gateway)

        assert text.startswith("Status: error\nResult: (no output)\nNotes: ")
        assert "no credit" in text
        assert "no announce" in text


@pytest.mark.spec("P1", "P5")
async def test_a_child_over_its_time_is_stopped_and_reported_as_timeout(tmp_path: Path) -> None:
    def work(request: ModelRequest) -> Any:
        return [ToolUse(f"t{len(request.turns)}", "read", {"path": "none"})]

    model = family(work=work, arguments={"runTimeoutSeconds": 5}, child_s=3)
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)

        assert (await announces_in(gateway))[0].startswith("Status: timeout\nResult: it is 42")


# ── stopping, deleting, resetting ──────────────────────────────────────────────────────────────


@pytest.mark.spec("P8")
@pytest.mark.parametrize("how", ["/stop", "chat.abort"])
async def test_stopping_the_parent_stops_its_children_and_says_so(tmp_path: Path, how: str) -> None:
    async with open_gateway(tmp_path, family(child_s=1000)) as gateway:
        await call(gateway, "sessions.spawn", task="long work")
        await anyio.sleep(1)
        if how == "/stop":
            await call(gateway, "chat.send", sessionKey="main", message="/stop", idempotencyKey="s")
        else:
            await call(gateway, "chat.abort", sessionKey="main")

        spawn = await reported(gateway)
        assert spawn.status == "aborted"
        (text,) = await announces_in(gateway)
        assert text.startswith("Status: aborted\nResult: (no output)\nNotes: its parent: stopped")


@pytest.mark.spec("P8")
async def test_deleting_the_parent_stops_its_children_and_nobody_is_told(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, family(child_s=10), channels=[chat]) as gateway:
        await chat.say("ana", "go", group="g1")
        await chat.wait_sent(1)
        key = SessionKey.group("main", "memory", "g1")
        await anyio.sleep(1)
        await call(gateway, "sessions.delete", key=key.text)
        spawn = await reported(gateway, key)
        await anyio.sleep(600)

        assert spawn.status == "aborted"
        assert await gateway.ledger.find_session(key) is None


async def test_a_parent_that_was_reset_hears_the_report_in_its_new_transcript(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, family(child_s=10)) as gateway:
        await say(gateway, "main", "go", "r1")
        await call(gateway, "sessions.reset", key="main")
        assert (await reported(gateway)).status == "success"

        assert len(await announces_in(gateway)) == 1


@pytest.mark.spec("P6")
@pytest.mark.parametrize("wakes", [False, True])
async def test_a_parent_that_was_archived_is_told_in_transcript_and_chat_and_not_woken(
    tmp_path: Path, wakes: bool
) -> None:
    chat, model = MemoryChannel(settings=OPEN_TO_ALL), family(child_s=10)
    config = config_of({"agents": {"defaults": {"subagents": {"wakeParent": wakes}}}})
    async with open_gateway(tmp_path, model, config=config, channels=[chat]) as gateway:
        await chat.say("ana", "go", group="g1")
        await chat.wait_sent(1)
        key = SessionKey.group("main", "memory", "g1")
        await call(gateway, "sessions.archive", key=key.text)
        await reported(gateway, key)
        await chat.wait_sent(2)
        asked = len(model.seen)
        await anyio.sleep(60)

        (text,) = await announces_in(gateway, key)
        assert [said for _, said in chat.sent] == ["ok", text]
        assert len(model.seen) == asked
        parent = await gateway.ledger.find_session(key)
        assert parent is not None
        assert parent.archived_at is not None


async def test_a_report_for_a_parent_that_is_gone_ends_the_spawn_all_the_same(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, family(child_s=10)) as gateway:
        await call(gateway, "sessions.spawn", sessionKey="agent:main:desk", task="work")
        await anyio.sleep(1)
        intake = SessionKey.named("main", "desk")
        # As if its children had not been stopped, nor will be for years.
        await gateway.ledger.do(DeleteSession(key=intake, at=10**14))

        assert (await reported(gateway, intake)).status == "success"
        assert await gateway.ledger.find_session(intake) is None


# ── archived ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("P7")
async def test_a_child_is_archived_an_hour_after_its_end_and_stays_readable(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        child = await child_of(gateway)
        await anyio.sleep(59 * 60)
        assert (await child_of(gateway)).archived_at is None
        await anyio.sleep(2 * 60)
        assert (await child_of(gateway)).archived_at is not None

        listed = await gateway.ledger.list_sessions(limit=10, sight=EVERYTHING)
        assert [session.key for session in listed] == [MAIN]
        for reference in (child.key.text, child.session_id):
            read = await call(gateway, "tool.sessions_history", sessionKey=reference)
            assert len(read["messages"]) == 4
        with pytest.raises(Exception, match="is archived"):
            await say(gateway, child.key.text, "hello?", "r2")


@pytest.mark.spec("P7")
async def test_the_hour_counts_from_the_end_so_that_a_running_child_is_never_archived(
    tmp_path: Path,
) -> None:
    config = config_of({"agents": {"defaults": {"subagents": {"archiveAfterMinutes": 0.5}}}})
    async with open_gateway(tmp_path, family(child_s=300), config=config) as gateway:
        await call(gateway, "sessions.spawn", task="slow work")
        await anyio.sleep(299)
        assert (await child_of(gateway)).archived_at is None
        await reported(gateway)
        await anyio.sleep(60)
        assert (await child_of(gateway)).archived_at is not None


@pytest.mark.spec("P7")
async def test_a_child_that_somebody_talks_with_is_archived_later(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"subagents": {"archiveAfterMinutes": 1}}}})
    slow = ScriptedProvider(lambda request: "yes", delay_s=20)
    async with open_gateway(tmp_path, slow, config=config) as gateway:
        await call(gateway, "sessions.spawn", task="work")
        spawn = await reported(gateway)
        key = SessionKey.parse(spawn.child_key)
        await anyio.sleep(25)
        await call(gateway, "chat.send", sessionKey=key.text, message="hm?", idempotencyKey="r2")
        await anyio.sleep(10)
        assert (await child_of(gateway)).archived_at is None
        await anyio.sleep(120)
        assert (await child_of(gateway)).archived_at is not None
        run = await gateway.run_store.find("r2")
        assert run is not None
        assert run.status == "ok"


@pytest.mark.spec("P7")
async def test_no_minutes_keep_a_child_for_ever(tmp_path: Path) -> None:
    config = config_of({"agents": {"defaults": {"subagents": {"archiveAfterMinutes": 0}}}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await call(gateway, "sessions.spawn", task="work")
        await reported(gateway)
    await anyio.sleep(24 * 3600)
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await anyio.sleep(60)
        assert (await child_of(gateway)).archived_at is None


@pytest.mark.spec("P7")
async def test_cleanup_deletes_the_child_right_after_its_announce(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(arguments={"cleanup": "delete"})) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)
        await anyio.sleep(1)

        assert await gateway.ledger.find_session(SessionKey.parse(spawn.child_key)) is None
        assert len(await announces_in(gateway)) == 1


# ── once ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("P2", "B1")
async def test_a_retried_spawn_is_one_child_also_after_it_was_deleted(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        asked: dict[str, Any] = {"task": "work", "cleanup": "delete", "idempotencyKey": "k1"}
        first = await call(gateway, "sessions.spawn", **asked)
        await reported(gateway)
        await anyio.sleep(1)
        again = await call(gateway, "sessions.spawn", **asked)
        await anyio.sleep(60)

        assert again == first
        assert len(await children(gateway)) == 1
        assert len(await announces_in(gateway)) == 1
        assert len(await gateway.ledger.list_sessions(limit=10, sight=EVERYTHING)) == 1
        with pytest.raises(Exception, match="another task"):
            await call(gateway, "sessions.spawn", **{**asked, "task": "other work"})


@pytest.mark.spec("P2", "B1")
@pytest.mark.parametrize(
    "other",
    [
        {"task": "other work"},
        {"label": "ours"},
        {"agentId": "librarian"},
        {"model": "scripted/big"},
        {"thinking": "high"},
        {"runTimeoutSeconds": 500},
        {"cleanup": "delete"},
    ],
)
async def test_a_spawn_under_a_used_key_is_refused_whatever_is_asked_otherwise(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    agents = {"list": [{"id": "main", "subagents": {"allowAgents": ["*"]}}, {"id": "librarian"}]}
    asked: dict[str, Any] = {"task": "work", "thinking": "low", "idempotencyKey": "k1"}
    async with open_gateway(tmp_path, family(), config=config_of({"agents": agents})) as gateway:
        first = await call(gateway, "sessions.spawn", **asked)
        with pytest.raises(KeyReused):
            await call(gateway, "sessions.spawn", **{**asked, **other})

        assert await call(gateway, "sessions.spawn", **{**asked, "cleanup": "keep"}) == first
        assert len(await children(gateway)) == 1


@pytest.mark.spec("P2", "B1")
@pytest.mark.parametrize("later_s", [60, 8 * 24 * 3600])
async def test_a_retried_spawn_is_one_child_also_when_the_config_has_changed_or_a_week_has_passed(
    tmp_path: Path, later_s: float
) -> None:
    asked: dict[str, Any] = {"task": "work", "idempotencyKey": "k1"}
    async with open_gateway(tmp_path, family()) as gateway:
        first = await call(gateway, "sessions.spawn", **asked)
        await reported(gateway)
    await anyio.sleep(later_s)
    subagents = {"thinking": "high", "runTimeoutSeconds": 77}
    config = config_of({"agents": {"defaults": {"subagents": subagents}}})
    async with open_gateway(tmp_path, family(), config=config) as gateway:
        await anyio.sleep(60)
        assert await call(gateway, "sessions.spawn", **asked) == first
        assert len(await children(gateway)) == 1
        with pytest.raises(KeyReused):
            await call(gateway, "sessions.spawn", **{**asked, "task": "other work"})


@pytest.mark.spec("B1", "P5", "P6")
@pytest.mark.parametrize("after_s", [0, 5, 15, 25])
async def test_wherever_the_gateway_dies_the_child_is_reported_once(
    tmp_path: Path, after_s: float
) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    chat = MemoryChannel(knows_key_s=inf, settings=OPEN_TO_ALL)
    async with open_gateway(folder, family(child_s=10), channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await anyio.sleep(after_s)
        copy = crashed_copy(folder)
    later = MemoryChannel(knows_key_s=inf, settings=OPEN_TO_ALL)
    async with open_gateway(copy, family(), channels=[later]) as gateway:
        spawn = await reported(gateway)
        await anyio.sleep(600)

        assert spawn.status == "success"
        assert len(await announces_in(gateway)) == 1
        assert len(await children(gateway)) == 1
        posted = [text for _, text in later.sent if text.startswith("Status:")]
        delivery = await gateway.ledger.find_delivery(f"spawn:{spawn.run_id}")
        assert (delivery is not None and delivery.state == "delivered") or len(posted) == 1
        assert len(posted) <= 1


@pytest.mark.spec("Y4", "P6")
async def test_a_report_is_kept_from_a_chat_whose_send_policy_denies_it(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, family(child_s=5), channels=[chat]) as gateway:
        await chat.say("ana", "go")
        await chat.wait_sent(1)
        await call(gateway, "sessions.patch", key="main", sendPolicy="deny")
        spawn = await reported(gateway)
        await anyio.sleep(60)

        delivery = await gateway.ledger.find_delivery(f"spawn:{spawn.run_id}")
        assert delivery is not None
        assert delivery.state == "failed"
        assert "send blocked by session policy" in (delivery.error or "")
        assert len(chat.sent) == 1
        assert len(await announces_in(gateway)) == 1


# ── by a client ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G2")
async def test_a_client_spawns_for_a_session_and_the_report_comes_there(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        answer = await call(gateway, "sessions.spawn", task="work", sessionKey="agent:main:desk")
        intake = SessionKey.named("main", "desk")
        spawn = await reported(gateway, intake)

        assert answer["status"] == "accepted"
        assert answer["childSessionKey"] == spawn.child_key
        assert (await announces_in(gateway, intake))[0].startswith("Status: success")


async def test_session_status_tells_how_it_stands_and_sets_a_model(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family(child_s=5)) as gateway:
        await say(gateway, "main", "go", "r1")
        told = await call(gateway, "tool.session_status", sessionKey="main")
        assert "State: idle" in told["statusText"]
        assert "1 at work" in told["statusText"]
        changed = await call(
            gateway, "tool.session_status", sessionKey="main", model="scripted/big"
        )
        assert changed["changedModel"]
        assert "Model: scripted/big" in changed["statusText"]
        with pytest.raises(Exception, match="unrecognized model"):
            await call(gateway, "tool.session_status", sessionKey="main", model="nope")
        reset = await call(gateway, "tool.session_status", sessionKey="main", model="default")
        assert "Model: scripted/test" in reset["statusText"]
