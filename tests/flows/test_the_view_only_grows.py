"""Within a run, and from run to run, what a model was sent stays as it was: new words come at the end."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.agent.origin import OPEN
from crossclaw.app import Gateway
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import (
    AssistantMessage,
    Provenance,
    Text,
    Thinking,
    ToolUse,
    UserMessage,
)
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.operations import Inject
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, instructions_of, message_texts, open_gateway
from tests.flows.talking import call, say


def flat(request: ModelRequest) -> list[bytes]:
    """All that was sent, block by block in its order."""
    parts: list[object] = [request.system, *request.tools]
    for turn in request.turns:
        if isinstance(turn, UserTurn):
            parts += turn.results
        parts += turn.content
    return [msgspec.json.encode(part) for part in parts]


def thoughts(request: ModelRequest) -> list[str]:
    return [b.thinking for t in request.turns for b in t.content if isinstance(b, Thinking)]


def thinking(*blocks: Text | ToolUse, about: str = "hm") -> AssistantMessage:
    return AssistantMessage(
        [Thinking(about, signature="sealed"), *blocks],
        provider="scripted",
        model="test",
        stop_reason="tool_use" if isinstance(blocks[-1], ToolUse) else "end_turn",
    )


def workspace(folder: Path) -> Path:
    place = folder / "state" / "workspace"
    place.mkdir(parents=True, exist_ok=True)
    return place


@pytest.mark.spec("M6", "S5")
async def test_an_agent_that_rewrites_its_own_orders_is_sent_the_same_prompt_and_told_the_change(
    tmp_path: Path,
) -> None:
    (workspace(tmp_path) / "AGENTS.md").write_text("rule one")
    write = ToolUse("c1", "write", {"path": "AGENTS.md", "content": "rule two"})
    spawn = ToolUse("c2", "sessions_spawn", {"task": "count the boats"})
    script: list[AssistantMessage | str] = [thinking(write), thinking(spawn), "done", "next"]

    def answer(request: ModelRequest) -> AssistantMessage | str:
        return script.pop(0) if "go" in message_texts(request.turns[0]) else "counted"

    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "go", "r1")
        await say(gateway, "main", "and now?", "r2")

    mine = [r for r in model.seen if "go" in message_texts(r.turns[0])]
    assert len(mine) == 4
    for before, after in pairwise(mine):
        assert flat(after)[: len(flat(before))] == flat(before)
    assert all("rule one" in r.system for r in mine)
    assert "AGENTS.md of your workspace has changed" in str(flat(mine[3]))
    assert thoughts(mine[3]) == ["hm", "hm"]


@pytest.mark.spec("M6", "S5")
async def test_from_run_to_run_the_view_grows_at_its_end_with_all_its_thinking(
    tmp_path: Path,
) -> None:
    look = ToolUse("c1", "sessions_list", {})
    model = ScriptedProvider([thinking(Text("a")), thinking(look), thinking(Text("b")), "c"])
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(3):
            await call(
                gateway, "agent", message=f"turn {number}", extraSystemPrompt="count in Latin",
                idempotencyKey=f"r{number}",
            )  # fmt: skip
            await gateway.run_store.wait(f"r{number}")

    sent = [flat(request) for request in model.seen]
    assert len(sent) == 4
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    assert thoughts(model.seen[3]) == ["hm", "hm", "hm"]
    assert str(sent[3]).count("count in Latin") == 1  # the same words are told once
    assert "count in Latin" not in model.seen[0].system


@pytest.mark.spec("M5")
async def test_after_a_compaction_no_thinking_is_left(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> AssistantMessage | str:
        if request.system.startswith("You keep the memory"):
            return "THE STORY"
        return thinking(Text("ok"))

    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(6):
            await say(gateway, "main", f"turn {number}", f"r{number}")
        await call(gateway, "sessions.compact", key="main")
        await say(gateway, "main", "after", "last")
        await say(gateway, "main", "later", "later")

    assert [len(thoughts(request)) for request in model.seen[-2:]] == [0, 1]


async def stored(gateway: Gateway, run: Run) -> list[Any]:
    return [e.message for e in await gateway.ledger.list_entries(run.session_id, limit=9)]


@pytest.mark.spec("S5", "M6", "H2")
async def test_the_runtimes_words_are_beside_the_content_and_nobody_is_shown_them_as_the_senders(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider(["yes"])
    async with open_gateway(tmp_path, model) as gateway:
        await call(
            gateway, "agent", message="hello", extraSystemPrompt="zebra facts", idempotencyKey="r1"
        )
        run = await gateway.run_store.wait("r1")
        assert run is not None
        question = (await stored(gateway, run))[0]
        history = await call(gateway, "chat.history", sessionKey="main")
        found = await call(gateway, "sessions.search", query="zebra")
        read = await call(gateway, "tool.sessions_history", sessionKey="main")

    last = model.seen[0].turns[-1]
    assert isinstance(last.content[0], Text)
    assert last.content[0].text.startswith(f"{OPEN}runtime\n")
    assert "zebra facts" in last.content[0].text
    assert isinstance(question, UserMessage)
    assert question.content == "hello"
    assert question.runtime is not None
    assert question.runtime.context == "zebra facts"
    for shown in (history, read, found.get("results")):
        assert "zebra facts" not in str(shown)
        assert "runtime" not in str(shown)


async def test_the_time_and_the_sender_are_told_with_the_message(tmp_path: Path) -> None:
    model = ScriptedProvider(["yes"])
    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "main", "hello", "r1")

    assert "Thursday, 2026-01-01 12:00 UTC. From your owner, on webchat." in instructions_of(
        model.seen[0]
    )


@pytest.mark.spec("P6", "M6")
async def test_a_report_that_comes_while_the_model_is_at_work_stands_behind_its_answer(
    tmp_path: Path,
) -> None:
    look = ToolUse("c1", "sessions_list", {})
    model = ScriptedProvider([thinking(look), thinking(Text("b")), "c"], delay_s=10)
    async with open_gateway(tmp_path, model) as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(say, gateway, "main", "go", "r1")
        for number in range(2):
            await anyio.sleep(5 + 5 * number)
            report = UserMessage(f"report {number}", provenance=Provenance("announce"))
            entry = NewEntry(entry_id=f"report{number}", message=report)
            await gateway.ledger.do(Inject(key=SessionKey.main("main"), entries=[entry], at=1))
        await gateway.run_store.wait("r1")
        await say(gateway, "main", "and?", "r2")

    sent = [flat(request) for request in model.seen]
    assert len(sent) == 3
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
        assert b'"hm"' in after[len(before)]  # what was answered stands right behind what was asked
    assert "report 0" in str(sent[1][len(sent[0]) :])
    assert thoughts(model.seen[2]) == ["hm", "hm"]


@pytest.mark.spec("M6")
async def test_where_messages_come_slowly_prompts_are_kept_for_an_hour(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda request: "ok")
    async with open_gateway(tmp_path, model) as gateway:
        for number, pause_s in enumerate((1, 1, 20 * 60, 1, 3 * 3600, *[1] * 6)):
            await anyio.sleep(pause_s)
            await say(gateway, "main", "hello", f"r{number}")

    assert [r.cache.ttl for r in model.seen] == [*["5m"] * 2, *["1h"] * 6, *["5m"] * 3]
    assert len({request.session for request in model.seen}) == 1
