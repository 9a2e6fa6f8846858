"""A reply that the output limit cuts goes on, and is one reply to everybody."""

from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from crossclaw.agent.continuation import CONTINUATIONS_MAX, STILL_CUT
from crossclaw.agent.view import CUT
from crossclaw.domain.events import EntryAppended, FeedEvent, ReplyPiece
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolResultMessage, ToolUse
from crossclaw.domain.sessions import Entry
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    message_texts,
    open_gateway,
)
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call, say
from tests.flows.tools import Counting

SCRIPT = "cut: once upon\nthen:\ncut: a time\nthen:\nsay: the end"
WHOLE = "once upona timethe end"


def cut(*blocks: Text | ToolUse) -> AssistantMessage:
    return AssistantMessage(list(blocks), stop_reason="max_tokens")


def said(entries: list[Entry]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry.message, AssistantMessage)]


@pytest.mark.spec("M7")
async def test_a_cut_reply_is_continued_and_stored_shown_and_delivered_as_one(
    tmp_path: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[chat]) as gateway:
        run = await gateway.run_store.wait(await chat.say("ana", SCRIPT))
        await chat.wait_sent()
        shown = await call(gateway, "chat.history", sessionKey="main")
        one = await call(gateway, "chat.history", sessionKey="main", limit=1)
        listed = await call(gateway, "tool.sessions_list", messageLimit=2)

    assert run is not None
    assert run.reply == WHOLE
    assert chat.sent == [("ana", WHOLE)]
    replies = [
        message["content"] for message in shown["messages"] if message["role"] == "assistant"
    ]
    assert replies == [[{"type": "text", "text": WHOLE}]]
    assert one["messages"][0]["content"] == replies[0]
    assert [message["role"] for message in listed["sessions"][0]["messages"]] == [
        "user",
        "assistant",
    ]


@pytest.mark.spec("M7")
async def test_whoever_listens_hears_one_text_that_grows(tmp_path: Path) -> None:
    heard: list[str] = []

    def listen(event: FeedEvent) -> None:
        if isinstance(event, ReplyPiece):
            heard.append(event.text)

    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        gateway.feed.subscribe(listen)
        await say(gateway, "main", SCRIPT, "r1")

    assert heard[-1] == WHOLE
    assert all(later.startswith(earlier) for earlier, later in pairwise(heard))


@pytest.mark.spec("M7", "B1")
async def test_a_crash_between_the_pieces_neither_loses_nor_doubles_one(tmp_path: Path) -> None:
    (folder := tmp_path / "gateway").mkdir()
    copies: list[Path] = []
    async with open_gateway(folder, RehearsalProvider()) as gateway:

        def snapshot(event: FeedEvent) -> None:
            if isinstance(event, EntryAppended | ReplyPiece):
                copies.append(crashed_copy(folder, f"moment {len(copies)}"))

        gateway.feed.subscribe(snapshot)
        first = await say(gateway, "main", SCRIPT, "r1")

    assert len(copies) > 6
    for copy in copies:
        async with open_gateway(copy, RehearsalProvider()) as gateway:
            run = await gateway.run_store.wait("r1")
            entries = await gateway.ledger.list_entries(first.session_id, limit=20)
        assert run is not None
        assert run.reply == WHOLE
        assert said(entries) == [WHOLE]


@pytest.mark.spec("M7")
async def test_a_reply_without_end_is_continued_a_bounded_number_of_times(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda request: cut(Text("more ")))
    async with open_gateway(tmp_path, model) as gateway:
        run = await say(gateway, "main", "tell", "r1")

    assert len(model.seen) == CONTINUATIONS_MAX + 1
    assert run.reply == "more " * (CONTINUATIONS_MAX + 1) + STILL_CUT


@pytest.mark.spec("M7")
async def test_the_model_sees_its_own_pieces_and_is_asked_to_go_on(tmp_path: Path) -> None:
    model = ScriptedProvider([cut(Text("half a wo")), "rd", "yes?"])
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "tell", "r1")
        await say(gateway, "main", "thanks", "r2")

    asked = [[text for turn in r.turns for text in message_texts(turn)] for r in model.seen]
    assert asked[1] == ["tell", "half a wo", CUT]
    assert asked[2] == ["tell", "half a word", "thanks"]


@pytest.mark.spec("M7")
async def test_what_is_said_when_a_continued_reply_is_stopped_stays(tmp_path: Path) -> None:
    class Slow:
        name = "slow"

        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            if len(request.turns) == 1:
                return cut(Text("first half, "))
            tell(TextPiece("second"))
            begun.set()
            await anyio.sleep_forever()
            raise AssertionError

        async def close(self) -> None:
            pass

    begun = anyio.Event()
    async with open_gateway(tmp_path, Slow()) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="go", idempotencyKey="r1")
        await begun.wait()
        await call(gateway, "chat.abort", sessionKey="main")
        session = await gateway.ledger.find_session(SessionKey.main("main"))
        entries = await gateway.ledger.list_entries(session.session_id, limit=9)  # type: ignore[union-attr]

    assert said(entries) == ["first half, second"]


@pytest.mark.spec("M7")
async def test_a_tool_call_that_the_limit_cut_does_not_run(tmp_path: Path) -> None:
    count = Counting("count")
    broken = cut(Text("now "), ToolUse("c1", "count", {}))
    async with open_gateway(
        tmp_path, ScriptedProvider([broken, [ToolUse("c2", "count", {})], "done"]), tools=[count]
    ) as gateway:
        run = await say(gateway, "main", "count", "r1")
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)

    assert run.reply == "done"
    assert count.calls == 1
    results = [e.message.content for e in entries if isinstance(e.message, ToolResultMessage)]
    assert results[0].startswith("Not run: your answer reached its length limit")


@pytest.mark.spec("M7")
async def test_tokens_of_all_pieces_count_and_the_window_holds_the_last_call(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        run = await say(gateway, "main", SCRIPT, "r1")
        session = await gateway.ledger.find_session(run.key)

    assert session is not None
    assert session.output_tokens == 6
    assert session.total_tokens < session.input_tokens + session.output_tokens
