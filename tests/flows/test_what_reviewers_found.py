"""Stories that once went wrong, each told so that it cannot happen again unnoticed."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.channels.manifest import Traits
from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Busy, Forbidden, Invalid, NotFound, StoreError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage
from crossclaw.door.principal import Principal, session_principal
from crossclaw.door.registry import Caller, Listening
from crossclaw.ledger.operations import Op, ResetSession, SettleDelivery
from crossclaw.providers.contract import ModelRequest
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    instructions_of,
    open_gateway,
)
from crossclaw.testing.scripted import ScriptedAnswer
from crossclaw.tools.contract import ToolContext
from tests.flows.interposing import Step, interpose
from tests.flows.talking import OWNER, call, results_of, say, two_agents
from tests.flows.test_runs_keep_their_order import Recording
from tests.flows.tools import Counting, Hanging, Nothing

MAIN = SessionKey.main("main")
HALF_AN_EMOJI = "half \ud83d"


def apart() -> Config:
    """Two agents that may not reach each other."""
    base = two_agents()
    rules = msgspec.structs.replace(base.tools.agent_to_agent, enabled=False)
    return msgspec.structs.replace(
        base, tools=msgspec.structs.replace(base.tools, agent_to_agent=rules)
    )


def agent(key: SessionKey = MAIN) -> Principal:
    return session_principal(key, Authority())


class Reluctant(Hanging):
    """Takes a second to stop."""

    async def call(self, context: ToolContext, params: Nothing) -> str:
        try:
            return await super().call(context, params)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)


class Broken(Counting):
    async def call(self, context: ToolContext, params: Nothing) -> str:
        return HALF_AN_EMOJI


async def test_a_text_that_no_encoding_takes_is_mended_and_harms_nobody(tmp_path: Path) -> None:
    model = ScriptedProvider(
        [[Text(HALF_AN_EMOJI), ToolUse("c", "broken", {})], HALF_AN_EMOJI, "fine"]
    )
    async with open_gateway(tmp_path, model, tools=[Broken("broken")]) as gateway:
        broken = await say(gateway, "main", "go", "r1")
        fine = await say(gateway, "main", "again", "r2")
        results = await results_of(gateway, broken)

    assert (broken.status, broken.reply, results) == ("ok", "half ?", ["half ?"])
    assert fine.reply == "fine"


@pytest.mark.spec("H4", "S8")
async def test_who_may_not_reach_an_agent_reads_none_of_its_sessions(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=apart()) as gateway:
        run = await say(gateway, "agent:librarian:main", "say: secret", "r1")
        await call(gateway, "sessions.patch", key="agent:librarian:main", label="shelf")
        for key in ("agent:librarian:main", "agent:librarian:nothing"):
            with pytest.raises(Forbidden, match=r"tools\.agentToAgent\.enabled"):
                await call(gateway, "tool.sessions_history", agent(), sessionKey=key)
            with pytest.raises(Forbidden, match=r"tools\.agentToAgent\.enabled"):
                await call(gateway, "tool.sessions_send", agent(), sessionKey=key, message="hi")
        refusals = []
        for session_id in (run.session_id, "6374de98-20a9-4373-89f1-59b8eba01ca0"):
            with pytest.raises(NotFound) as refusal:
                await call(gateway, "tool.sessions_history", agent(), sessionKey=session_id)
            refusals.append(str(refusal.value).replace(session_id, "ID"))
        with pytest.raises(NotFound):
            await call(gateway, "tool.sessions_send", agent(), label="shelf", message="hi")

    assert refusals[0] == refusals[1]


@pytest.mark.spec("L2")
async def test_what_may_not_be_seen_does_not_use_up_the_limit(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=apart()) as gateway:
        await say(gateway, "main", "say: mine", "r0")
        for number in range(3):
            await say(gateway, f"agent:librarian:s{number}", "say: theirs", f"r{number + 1}")
        listed = await call(gateway, "tool.sessions_list", agent(), limit=2)

    assert [row["key"] for row in listed["sessions"]] == ["main"]


@pytest.mark.spec("S1")
async def test_an_agent_cannot_create_a_session_by_naming_it(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        for key in ("agent:librarian:new", "agent:main:new", "cron:x"):
            with pytest.raises(NotFound, match="unknown session"):
                await call(gateway, "tool.sessions_send", agent(), sessionKey=key, message="hi")
            with pytest.raises(NotFound, match="unknown session"):
                await gateway.resolver.resolve(agent(), key, "create")
        listed = await call(gateway, "sessions.list")

    assert listed["count"] == 0


@pytest.mark.parametrize(("text_limit", "each"), [(4_000, 1), (100, 2)])
async def test_a_delivery_whose_outcome_could_not_be_stored_is_settled_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text_limit: int, each: int
) -> None:
    chat = MemoryChannel(traits=Traits(text_limit=text_limit), settings=OPEN_TO_ALL)
    settles = 0
    async with open_gateway(tmp_path, Recording(), channels=[chat]) as gateway:

        async def full_disk(commit: Step, *ops: Op[Any]) -> list[Any]:
            nonlocal settles
            settles += 1
            if settles <= 2:
                raise StoreError("the disk is full")
            return await commit(*ops)

        interpose(monkeypatch, gateway, SettleDelivery, full_disk)
        first = await chat.say("ana", "one " * 30)
        await gateway.run_store.wait(first)
        await gateway.run_store.wait(await chat.say("ana", "two " * 30))
        await anyio.sleep(60)
        found = await gateway.ledger.find_delivery(f"reply:{first}")

    assert found is not None
    assert (found.state, settles) == ("delivered", 4)
    assert [piece.of for piece in chat.pieces] == [each] * each * 2
    words = " ".join(text for _, text in chat.sent).split()
    assert words == ["re:", *["one"] * 30, "re:", *["two"] * 30]


async def test_an_abort_during_a_tool_call_does_not_repeat_the_words_before_it(
    tmp_path: Path,
) -> None:
    hang = Hanging()
    model = ScriptedProvider([[Text("Let me look."), ToolUse("c", "hang", {})]])
    async with open_gateway(tmp_path, model, tools=[hang]) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await hang.begun.wait()
        await gateway.lanes.abort("r1", "enough")
        run = await gateway.run_store.find("r1")
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)  # type: ignore[union-attr]

    said = [e.message.text for e in entries if isinstance(e.message, AssistantMessage)]
    assert said == ["Let me look."]


@pytest.mark.spec("S1")
async def test_a_model_that_repeats_its_call_ids_loses_nothing(tmp_path: Path) -> None:
    def send(text: str) -> list[ToolUse]:
        return [ToolUse("call_0", "sessions_send", {"agentId": "librarian", "message": text})]

    script: list[ScriptedAnswer] = [send("one"), "re", send("two"), "re", send("one"), "re", "done"]
    async with open_gateway(tmp_path, ScriptedProvider(script), config=two_agents()) as gateway:
        run = await say(gateway, "main", "go", "r1")
        results = await results_of(gateway, run)
        session = await gateway.ledger.find_session(SessionKey.main("librarian"))
        entries = await gateway.ledger.list_entries(session.session_id, limit=20)  # type: ignore[union-attr]

    assert [result["status"] for result in results] == ["ok", "ok", "ok"]
    assert [e.message.content for e in entries if isinstance(e.message, UserMessage)] == [
        "one",
        "two",
        "one",
    ]


@pytest.mark.spec("K5")
async def test_nobody_ever_sees_the_word_global(tmp_path: Path) -> None:
    raw = {
        "agents": {"list": [{"id": "work", "default": True}, {"id": "home"}]},
        "session": {"scope": "global"},
    }
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=msgspec.convert(raw, Config)
    ) as gateway:
        await say(gateway, "main", "say: hi", "r1")
        answers = [
            await call(gateway, "sessions.list"),
            await call(gateway, "sessions.resolve", key="main"),
            await call(gateway, "sessions.patch", key="main", label="x"),
            await call(gateway, "sessions.describe", key="agent:home:main"),
            await call(gateway, "sessions.reset", key="main"),
            await call(gateway, "health"),
            (await call(gateway, "status"))["sessions"],
            await call(gateway, "tool.sessions_list", agent(SessionKey.main("home"))),
            await call(
                gateway, "tool.sessions_history", agent(SessionKey.main("home")), sessionKey="main"
            ),
        ]

    assert answers[0]["sessions"][0]["key"] == "agent:work:main"
    assert answers[7]["sessions"][0]["key"] == "main"
    assert not [answer for answer in answers if '"global"' in msgspec.json.encode(answer).decode()]


@pytest.mark.spec("B3", "B4")
async def test_a_run_has_the_authority_of_whoever_began_it_and_the_configs_hops(
    tmp_path: Path,
) -> None:
    limited = Principal(
        name="limited", role="operator", scopes=frozenset({"operator.admin"}), sight="everything",
        authority=Authority(denied_tools=frozenset({"read"}), sandboxed=True),
    )  # fmt: skip
    config = two_agents(agentToAgent={"maxHops": 3})
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        for method in ("chat.send", "agent"):
            await call(
                gateway,
                method,
                limited,
                sessionKey="agent:main:x",
                message="say: hi",
                idempotencyKey=method,
            )
        done = await call(gateway, "sessions.compact", limited, key="agent:main:x")
        for run_id in ("chat.send", "agent", done["runId"]):
            run = await gateway.run_store.wait(run_id, timeout_s=60)
            assert run is not None
            assert run.authority == Authority(
                denied_tools=frozenset({"read"}), sandboxed=True, hops_left=3
            )


@pytest.mark.spec("B4")
async def test_a_chain_of_agents_that_ask_on_and_on_ends_with_its_hops(tmp_path: Path) -> None:
    """Each agent passes the question on to the next, round and round; nobody waits."""
    names = ["main", "a", "b", "c"]
    raw = {
        "agents": {"list": [{"id": name} for name in names]},
        "session": {"agentToAgent": {"maxHops": 5, "maxPingPongTurns": 0}},
    }
    sends = 0

    def pass_on(request: ModelRequest) -> list[ToolUse] | str:
        nonlocal sends
        announcing = "posted to your chat" in instructions_of(request)
        if announcing or request.turns[-1].results:  # type: ignore[union-attr]
            return "ANNOUNCE_SKIP"
        sends += 1
        me = request.system.split("'")[1]
        other = names[(names.index(me) + 1) % len(names)]
        return [
            ToolUse(
                f"c{sends}",
                "sessions_send",
                {"agentId": other, "message": "on", "timeoutSeconds": 0},
            )
        ]

    async with open_gateway(
        tmp_path, ScriptedProvider(pass_on), config=msgspec.convert(raw, Config)
    ) as gateway:
        await say(gateway, "main", "go", "r1")
        await anyio.sleep(600)
        assert await gateway.ledger.lanes_with_work() == []
        listed = await call(gateway, "sessions.list")

    assert listed["count"] == 4
    assert sends == 6  # five hops, and one that is refused


async def test_a_send_with_one_key_is_one_message_and_one_mirror(tmp_path: Path) -> None:
    chat = MemoryChannel("telegram")
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[chat]) as gateway:
        await say(gateway, "agent:main:notes", "say: hi", "r1")
        params: dict[str, Any] = {
            "to": "42",
            "message": "news",
            "sessionKey": "agent:main:notes",
            "idempotencyKey": "k",
        }
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(lambda: call(gateway, "send", **params))
        with pytest.raises(Invalid, match="idempotency key"):
            await call(gateway, "send", **{**params, "message": "other news"})
        await chat.wait_sent()
        await anyio.sleep(30)
        history = await call(gateway, "chat.history", sessionKey="agent:main:notes")

    assert chat.sent == [("42", "news")]
    assert [m["content"][0]["text"] for m in history["messages"]].count("news") == 1


async def test_an_agent_call_carries_its_picture_and_another_payload_is_refused(
    tmp_path: Path,
) -> None:
    picture = {"type": "image", "mimeType": "image/png", "content": "iVBORw0KGgo="}
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await call(gateway, "agent", message="see", attachments=[picture], idempotencyKey="k")
        with pytest.raises(Invalid, match="idempotency key"):
            await call(
                gateway,
                "agent",
                message="see",
                attachments=[picture],
                extraSystemPrompt="x",
                idempotencyKey="k",
            )
        history = await call(gateway, "chat.history", sessionKey="main")

    assert [block["type"] for block in history["messages"][0]["content"]] == ["text", "image"]


async def test_a_message_that_arrives_during_a_reset_is_in_the_transcript_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gateway(tmp_path, Recording(5.0)) as gateway:
        await say(gateway, "main", "old", "r1")
        resets = 0

        async def arrive(commit: Step, *ops: Op[Any]) -> list[Any]:
            nonlocal resets
            resets += 1
            if resets == 1:  # what ran is stopped, and the reset not stored yet
                await call(
                    gateway, "chat.send", sessionKey="main", message="new", idempotencyKey="r2"
                )
                await anyio.sleep(1)
            return await commit(*ops)

        interpose(monkeypatch, gateway, ResetSession, arrive)
        await call(gateway, "sessions.reset", key="main")
        run = await gateway.run_store.wait("r2", timeout_s=60)
        session = await gateway.ledger.find_session(MAIN)

    assert run is not None
    assert session is not None
    assert run.session_id != session.session_id
    assert run.status == "aborted"  # by the reset, in the old transcript, and not left half-way
    assert resets == 2


async def test_a_session_that_is_being_answered_is_not_reset_under_its_run(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Recording(50.0)) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey="r1")
        await anyio.sleep(1)
        with pytest.raises(Busy):
            await gateway.ledger.do(ResetSession(key=MAIN, session_id="fresh", at=1))


@pytest.mark.spec("B1")
async def test_a_message_queued_before_a_reset_is_answered_in_the_new_transcript(
    tmp_path: Path,
) -> None:
    model, slow = ScriptedProvider([[ToolUse("c", "hang", {})], "here you are"]), Reluctant()
    async with open_gateway(tmp_path, model, tools=[slow]) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="old", idempotencyKey="r1")
        await slow.begun.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(call, gateway, "sessions.reset", key="main"))
            await anyio.sleep(0.5)  # the run before is being stopped
            await call(gateway, "chat.send", sessionKey="main", message="new", idempotencyKey="r2")
            queued = await gateway.run_store.find("r2")
        first, second = [await gateway.run_store.wait(each, timeout_s=60) for each in ("r1", "r2")]
        session = await gateway.ledger.find_session(MAIN)

    assert queued is not None
    assert first is not None
    assert second is not None
    assert session is not None
    assert (queued.status, first.status) == ("queued", "aborted")
    assert first.session_id != session.session_id
    assert (second.session_id, second.reply) == (session.session_id, "here you are")
    assert "old" not in str(model.seen[-1].turns)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sessions.list", {"activeMinutes": 10**18}),
        ("tool.sessions_list", {"activeMinutes": 1e20}),
        ("tool.sessions_history", {"sessionKey": "main", "before": 2**63}),
        ("chat.send", {"sessionKey": "main", "message": "x", "idempotencyKey": "k" * 257}),
        ("chat.send", {"sessionKey": "main", "message": "x", "idempotencyKey": "a\0b"}),
        (
            "chat.send",
            {"sessionKey": "main", "message": "x", "idempotencyKey": "k", "thinking": "banana"},
        ),
        ("sessions.patch", {"key": "main", "displayName": "x" * 201}),
        ("agent.wait", {"runId": "x", "timeoutMs": -1}),
    ],
)
async def test_numbers_and_names_out_of_all_proportion_are_refused_by_name(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        with pytest.raises(Invalid):
            await call(gateway, method, **params)


async def test_a_refused_request_does_not_follow_somebody_elses_run(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "agent:librarian:main", "say: theirs", "k1")
        subscription = Listening()
        params = {"sessionKey": "main", "message": "mine", "idempotencyKey": "k1"}
        with pytest.raises(Invalid):
            await gateway.door.dispatch(
                Caller(principal=OWNER, listening=subscription), "chat.send", params
            )

    assert dict(subscription.runs) == {}


async def test_a_client_cannot_abort_a_run_of_another_session_by_its_id(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await call(
            gateway,
            "chat.send",
            sessionKey="agent:librarian:main",
            message="wait: 50",
            idempotencyKey="r1",
        )
        await anyio.sleep(1)
        with pytest.raises(Invalid, match="runId does not match sessionKey"):
            await call(gateway, "chat.abort", sessionKey="main", runId="r1")
        stopped = await call(gateway, "chat.abort", sessionKey="agent:librarian:main", runId="r1")

    assert stopped["aborted"] is True


@pytest.mark.spec("P1")
async def test_a_label_that_is_taken_keeps_nobody_from_making_a_session(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        for name in ("a", "b"):
            await call(
                gateway,
                "agent",
                sessionKey=f"agent:main:{name}",
                message="say: x",
                label="one",
                idempotencyKey=name,
            )
        with pytest.raises(Invalid, match=r"agent:main:\w, agent:main:\w; say which key"):
            await call(gateway, "sessions.resolve", label="one", agentId="MAIN")
        await call(gateway, "sessions.patch", key="agent:main:b", label="two")
        found = await call(gateway, "sessions.resolve", label="one", agentId="MAIN")

    assert found["key"] == "agent:main:a"


async def test_refusals_between_agents_are_written_down(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=apart()) as gateway:
        with pytest.raises(Forbidden):
            await call(
                gateway,
                "tool.sessions_send",
                agent(),
                sessionKey="agent:librarian:main",
                message="hi",
            )
        reader = gateway.ledger._reader  # type: ignore[attr-defined]
        rows = list(reader.execute("SELECT principal, action, allowed FROM audit"))

    assert rows == [("agent:main:main", "tool.sessions_send", 0)]


async def test_a_client_makes_sessions_and_pages_through_them(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        named = await call(
            gateway, "sessions.create", key="tui-1", agentId="librarian", label="desk"
        )
        ours = await call(gateway, "sessions.create")
        for number in range(3):
            await call(gateway, "sessions.create", key=f"s{number}")
            await anyio.sleep(1)
        pages = [
            [
                row["key"]
                for row in (await call(gateway, "sessions.list", limit=2, offset=offset))[
                    "sessions"
                ]
            ]
            for offset in (0, 2, 4)
        ]

    assert (named["key"], named["entry"]["label"]) == ("agent:librarian:tui-1", "desk")
    assert ours["key"].startswith("agent:main:chat-")
    assert pages[0] == ["agent:main:s2", "agent:main:s1"]
    assert len({key for page in pages for key in page}) == 5
