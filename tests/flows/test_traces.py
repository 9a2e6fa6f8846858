"""Everything that follows from one root cause is one tree, with times, tokens and outcome."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.domain.errors import NotFound
from crossclaw.domain.traces import TraceSpan, arranged
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import call, say, two_agents

pytestmark = pytest.mark.spec("B10")

ASK = (
    'tool: sessions_send {"agentId": "librarian", "message": "wait: 3\\nsay: nine", "timeoutSeconds": 60}\n'
    'tool: sessions_spawn {"task": "fail: no flour", "label": "baker"}\nthen:\nsay: done'
)


def shape(tree: dict[str, Any]) -> list[str]:
    return [f"{'.' * span.get('depth', 0)}{span['kind']} {span['name']}" for span in tree["spans"]]


async def test_a_message_is_one_tree_down_to_calls_rounds_children_and_deliveries(
    tmp_path: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=two_agents(), channels=[chat]
    ) as gateway:
        run_id = await chat.say("ana", ASK)
        await gateway.run_store.wait(run_id, timeout_s=600)
        await anyio.sleep(60)
        tree = await call(gateway, "trace.get", id=run_id)
        (child,) = [
            s["key"] for s in tree["spans"] if ":subagent:" in s["key"] and s["name"] == "spawn"
        ]
        same = [
            await call(gateway, "trace.get", id=name) for name in (child, "agent:librarian:main")
        ]
        with pytest.raises(NotFound):
            await call(gateway, "trace.get", id="nobody")

    lines = shape(tree)
    assert lines[0] == "run chat"
    assert "..wait waits for librarian" in lines
    assert lines.index("..run send") < lines.index(
        "..run announce"
    )  # both under the call that sent
    assert any(line.startswith("..run round 1") for line in lines)
    assert {"..run spawn", "..report report to its parent", ".delivery to memory"} <= set(lines)
    assert [each["root"] for each in same] == [run_id, run_id]
    assert tree["asked"].startswith("tool: sessions_send")
    assert (tree["origin"]["kind"], tree["origin"]["sender"]) == ("person", "ana")
    by_name = {line.strip("."): span for line, span in zip(lines, tree["spans"], strict=True)}
    failed = by_name["run spawn"]
    assert (failed["standing"]["name"], failed["standing"]["why"]) == ("failed", "no flour")
    root = tree["spans"][0]
    assert root["below"] == len(lines) - 1
    assert root["tokensBelow"] == sum(
        s.get("tokensIn", 0) + s.get("tokensOut", 0) for s in tree["spans"]
    )
    assert root["tokensBelow"] > 0
    assert tree["end"] is not None


async def test_a_trace_under_way_is_open_and_says_who_is_waited_for(tmp_path: Path) -> None:
    send = 'tool: sessions_send {"agentId": "librarian", "message": "wait: 60\\nsay: so", "timeoutSeconds": 90}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message=send, idempotencyKey="r1")
        await anyio.sleep(5)
        tree = await call(gateway, "trace.get", id="main")

    assert "end" not in tree
    root, model, tool, wait, target, thinking = tree["spans"]
    assert root["standing"] == {"name": "waiting", "waitsFor": ["agent:librarian:main"]}
    assert [s["kind"] for s in (model, tool, wait, target, thinking)] == [
        "model",
        "tool",
        "wait",
        "run",
        "model",
    ]
    assert (thinking["name"], thinking["standing"]) == ("model at work", {"name": "running"})
    assert "end" not in tool


async def test_a_trace_in_a_long_session_reads_only_its_own_part(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        for number in range(30):
            await say(gateway, "main", f"say: {number}", f"r{number}")
            await anyio.sleep(600)
        trees = [await call(gateway, "trace.get", id=f"r{number}") for number in (0, 17, 29)]

    assert [[s["kind"] for s in tree["spans"]] for tree in trees] == [["run", "model"]] * 3
    assert [tree["spans"][1]["text"] for tree in trees] == ["0", "17", "29"]


async def test_the_time_in_the_queue_is_no_time_of_the_work_and_a_compaction_is_a_part_of_it(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider(lambda request: "ok", delay_s=60)
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(3):
            await say(gateway, "main", f"turn {number} " + "word " * 300, f"r{number}")
        await call(gateway, "chat.send", sessionKey="main", message="busy", idempotencyKey="r9")
        queued = await call(gateway, "sessions.compact", key="main")
        await gateway.run_store.wait(queued["runId"], timeout_s=600)
        tree = await call(gateway, "trace.get", id=queued["runId"])

    run, compaction = tree["spans"]
    assert run["start"] < run["began"], "it stood behind another one"
    assert (compaction["kind"], compaction["start"]) == ("compaction", run["began"])
    assert compaction["end"] == run["end"]


def span(name: str, start: int, end: int | None, parent: str | None = None) -> TraceSpan:
    return TraceSpan(id=name, kind="run", name=name, key="k", start=start, end=end, parent=parent)


def test_the_critical_path_is_the_chain_that_the_whole_waited_for() -> None:
    spans = [
        span("root", 0, 100),
        span("quick", 0, 30, "root"),
        span("slow", 0, 60, "root"),
        span("last", 60, 95, "root"),
        span("beside", 61, 70, "root"),
        span("inner", 10, 60, "slow"),
        span("lost", 5, 6, "nobody knows it"),
    ]
    found = arranged(spans, now=100)

    assert [(s.name, s.depth) for s in found] == [
        ("root", 0), ("quick", 1), ("slow", 1), ("inner", 2), ("last", 1), ("beside", 1), ("lost", 0),
    ]  # fmt: skip
    assert {s.name for s in found if s.critical} == {"root", "last", "slow", "inner"}
    assert found[0].below == 5


def test_ten_thousand_spans_in_one_line_are_arranged() -> None:
    chain = [span("0", 0, 20_000)] + [
        span(str(n), n, 20_000 - n, str(n - 1)) for n in range(1, 10_000)
    ]
    found = arranged(reversed(chain), now=20_000)
    assert (found[-1].depth, found[0].below, all(s.critical for s in found)) == (9_999, 9_999, True)


async def test_a_trace_is_exported_as_opentelemetry(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "main", ASK, "r1")
        await anyio.sleep(60)
        tree = await call(gateway, "trace.get", id="r1")
        exported = await call(gateway, "trace.export", id="r1")

    (resource,) = exported["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    spans = scope["spans"]
    assert len(spans) == len(tree["spans"])
    assert len({each["traceId"] for each in spans}) == 1
    assert all(len(each["spanId"]) == 16 and len(each["traceId"]) == 32 for each in spans)
    named = {each["name"] for each in spans}
    assert {
        "invoke_agent main",
        "invoke_agent librarian",
        "chat test",
        "execute_tool sessions_send",
    } <= named
    assert json.dumps(resource["resource"]).count("crossclaw") == 1


async def test_a_model_that_failed_and_a_call_that_was_cut_off_are_marked(tmp_path: Path) -> None:
    send = 'tool: sessions_send {"agentId": "librarian", "message": "wait: 600", "timeoutSeconds": 900}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "main", "fail: on holiday", "r1")
        failed = (await call(gateway, "trace.get", id="r1"))["spans"]
        await call(gateway, "chat.send", sessionKey="main", message=send, idempotencyKey="r2")
        await anyio.sleep(5)
        open_call = (await call(gateway, "trace.get", id="r2"))["spans"][2]
        await call(gateway, "chat.abort", sessionKey="main", runId="r2")
        await gateway.run_store.wait("r2", timeout_s=60)
        cut = (await call(gateway, "trace.get", id="r2"))["spans"]

    assert failed[0]["standing"]["name"] == "failed"
    assert open_call["standing"]["name"] == "running"
    assert [(s["kind"], s["standing"]["name"]) for s in cut if s["kind"] == "tool"] == [
        ("tool", "stopped")
    ]
    assert "standing" not in cut[1]  # the model had answered
