"""From a chat, through a model and its tools, back to the chat, and what stays behind."""

import json
from pathlib import Path

import anyio
import pytest

from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import ProviderRefused
from crossclaw.domain.events import (
    FeedEvent,
    ReplyPiece,
    RunEnded,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import (
    AssistantMessage,
    Text,
    ToolResultMessage,
    ToolUse,
    UserMessage,
)
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    message_texts,
    open_gateway,
    submit,
)
from tests.flows.talking import call
from tests.flows.tools import Counting, Strict

MAIN = SessionKey.main("main")


@pytest.mark.spec("M1", "M2", "M3")
async def test_a_question_is_answered_with_the_help_of_a_tool(tmp_path: Path) -> None:
    chat = MemoryChannel("telegram", settings=OPEN_TO_ALL)
    counter = Counting("count")
    model = ScriptedProvider([[Text("Let me count."), ToolUse("c1", "count", {})], "There is one."])

    async with open_gateway(tmp_path, model, channels=[chat], tools=[counter]) as gateway:
        run_id = await chat.say("ana", "how many are there?")
        await chat.wait_sent()
        run = await gateway.run_store.wait(run_id)
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)  # type: ignore[union-attr]

    assert chat.sent == [("ana", "There is one.")]
    assert run is not None
    assert (run.status, run.reply) == ("ok", "There is one.")
    user, call, result, answer = [entry.message for entry in entries]
    assert isinstance(user, UserMessage)
    assert user.content == "how many are there?"
    assert user.provenance is not None
    assert (user.provenance.kind, user.provenance.sender) == ("person", "ana")
    assert isinstance(call, AssistantMessage)
    assert call.tool_calls == [ToolUse("c1", "count", {})]
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_use_id, result.tool_name, result.content, result.is_error) == (
        "c1",
        "count",
        "count 1",
        False,
    )
    assert isinstance(answer, AssistantMessage)
    assert (answer.text, answer.stop_reason) == ("There is one.", "end_turn")


@pytest.mark.spec("M4")
async def test_people_can_read_the_conversation_in_a_file(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, ScriptedProvider(["Good morning!"]), channels=[chat]
    ) as gateway:
        run = await gateway.run_store.wait(await chat.say("ana", "hello"))

    file = tmp_path / "state" / "sessions" / "main" / f"{run.session_id}.jsonl"  # type: ignore[union-attr]
    header, user, assistant = map(json.loads, file.read_text("utf-8").splitlines())
    assert (header["type"], header["id"]) == ("session", run.session_id)  # type: ignore[union-attr]
    assert user["message"]["content"] == "hello"
    assert assistant["message"]["content"] == [{"type": "text", "text": "Good morning!"}]
    assert assistant["message"]["usage"]["output"] > 0
    assert assistant["message"]["stopReason"] == "end_turn"
    assert assistant["message"]["model"] == "test"
    assert user["timestamp"].endswith("Z")


async def test_listeners_hear_a_run_from_its_start_to_its_end(tmp_path: Path) -> None:
    heard: list[FeedEvent] = []
    model = ScriptedProvider([[ToolUse("c1", "count", {})], "one two"])

    async with open_gateway(tmp_path, model, tools=[Counting("count")]) as gateway:
        gateway.feed.subscribe(heard.append)
        await gateway.run_store.wait((await submit(gateway, MAIN, "go")).run_id)

    kinds = [type(event) for event in heard if not type(event).__name__.startswith("Entry")]
    assert kinds[1] is RunStarted
    assert kinds[2:4] == [ToolStarted, ToolEnded]
    assert kinds[-1] is RunEnded
    pieces = [event for event in heard if isinstance(event, ReplyPiece)]
    assert pieces[-1].text == "".join(piece.piece for piece in pieces) == "one two"


async def test_the_same_platform_message_twice_is_one_run_and_one_reply(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, ScriptedProvider(["once"]), channels=[chat]) as gateway:
        first = await chat.say("ana", "hi", message_id="m1")
        again = await chat.say("ana", "hi", message_id="m1")
        await gateway.run_store.wait(first)
        await anyio.sleep(60)

    assert first == again
    assert chat.sent == [("ana", "once")]


async def test_a_group_has_a_session_of_its_own(tmp_path: Path) -> None:
    chat = MemoryChannel("discord", settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, ScriptedProvider(["hello all"]), channels=[chat]) as gateway:
        run = await gateway.run_store.wait(await chat.say("ana", "hi", group="Guild9"))
        await chat.wait_sent()
        session = await gateway.ledger.find_session(
            SessionKey.parse("agent:main:discord:group:Guild9")
        )

    assert run is not None
    assert session is not None
    assert (session.session_id, session.channel) == (run.session_id, "discord")
    assert chat.sent == [("Guild9", "hello all")]


async def test_the_model_remembers_what_was_said_before(tmp_path: Path) -> None:
    model = ScriptedProvider(["first answer", "second answer"])
    async with open_gateway(tmp_path, model) as gateway:
        for text in ("one", "two"):
            await gateway.run_store.wait((await submit(gateway, MAIN, text)).run_id)

    words = [text for turn in model.seen[1].turns for text in message_texts(turn)]
    assert words == ["one", "first answer", "two"]


async def test_sessions_do_not_see_each_other(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda request: f"{len(request.turns)} turns")
    async with open_gateway(tmp_path, model) as gateway:
        for name in ("one", "two", "one"):
            run_id = (await submit(gateway, SessionKey.named("main", name), "hi")).run_id
            last = await gateway.run_store.wait(run_id)

    assert last is not None
    assert last.reply == "3 turns"


async def test_an_unknown_tool_and_wrong_arguments_are_answers_to_the_model(tmp_path: Path) -> None:
    model = ScriptedProvider(
        [
            [ToolUse("c1", "nope", {}), ToolUse("c2", "strict", {"n": "three"}), ToolUse("c3", "strict", {"_raw": "{oops"})],
            "I see",
        ]
    )  # fmt: skip

    async with open_gateway(tmp_path, model, tools=[Strict()]) as gateway:
        run = await gateway.run_store.wait((await submit(gateway, MAIN, "go")).run_id)
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)  # type: ignore[union-attr]

    assert run is not None
    assert run.status == "ok"
    results = {
        message.tool_use_id: message
        for message in (entry.message for entry in entries)
        if isinstance(message, ToolResultMessage)
    }
    assert all(result.is_error for result in results.values())
    assert "there is no tool 'nope'; there are: " in results["c1"].content
    assert "strict" in results["c1"].content
    assert "it takes n" in results["c2"].content
    assert "no JSON object" in results["c3"].content


async def test_a_run_that_fails_says_so_in_the_chat_and_in_the_transcript(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    model = ScriptedProvider([ProviderRefused("the key was refused"), "fine again"])
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        failed = await gateway.run_store.wait(await chat.say("ana", "hi"))
        await chat.wait_sent(1)
        fine = await gateway.run_store.wait(await chat.say("ana", "and now?"))
        entries = await gateway.ledger.list_entries(fine.session_id, limit=9)  # type: ignore[union-attr]

    assert failed is not None
    assert fine is not None
    assert (failed.status, failed.error) == ("error", "the key was refused")
    assert chat.sent[0] == ("ana", "⚠️ No answer this time: the key was refused")
    assert entries[1].message.error == "the key was refused"  # type: ignore[union-attr]
    assert fine.reply == "fine again"


@pytest.mark.spec("N9")
async def test_a_group_hears_that_there_is_no_answer_and_not_what_the_model_service_said(
    tmp_path: Path,
) -> None:
    """Trap 46: such words name keys, projects and addresses, and a group has many readers. A place that a job names may be one."""
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    model = ScriptedProvider(lambda _: ProviderRefused("the key of project tide-atlas was refused"))
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        where = Address("memory", "team")
        said = Inbound(
            address=where, sender="ana", text="hi", message_id="1", chat_type="group", chat_id="team"
        )  # fmt: skip
        await chat.bring(said)
        await chat.wait_sent(1)
        job = await call(
            gateway,
            "cron.add",
            name="news",
            schedule={"kind": "every", "everyMs": 86_400_000},
            sessionTarget="isolated",
            payload={"kind": "agentTurn", "message": "news"},
            delivery={"mode": "announce", "channel": "memory", "to": "team"},
        )
        await call(gateway, "cron.run", id=job["id"], mode="force")
        await chat.wait_sent(2)
        runs = await call(gateway, "cron.runs", id=job["id"])

    assert chat.sent == [("team", "⚠️ No answer this time.")] * 2
    assert "tide-atlas" in str(runs)
