"""What the session tools answer and write, where a second look found the seeds meant otherwise."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.ids import follower_id
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage, decode_message, encode_message
from crossclaw.domain.spawns import SpawnReport, report_text
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, open_gateway
from crossclaw.tools.contract import ToolContext
from tests.flows.spawning import announces_in, config_of, family, reported
from tests.flows.talking import call, results_of, say, two_agents

LIBRARIAN = SessionKey.main("librarian")


def told(tool: str, **arguments: Any) -> str:
    return f"tool: {tool} {json.dumps(arguments)}"


# ── refusals ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("sessions_send", {"agentId": "librarian", "message": "hi"}),
        ("sessions_send", {"sessionKey": "agent:librarian:nothing", "message": "hi"}),
        ("sessions_send", {"label": "x", "agentId": "librarian", "message": "hi"}),
        ("sessions_history", {"sessionKey": "agent:librarian:main"}),
        ("session_status", {"sessionKey": "agent:librarian:main"}),
        ("session_status", {"model": "rehearsal/dear"}),
        ("sessions_spawn", {"task": "x", "agentId": "librarian"}),
        ("sessions_spawn", {"task": "x", "model": "rehearsal/dear"}),
    ],
)
async def test_what_a_policy_refuses_is_answered_as_forbidden_by_every_session_tool(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    raw = {
        "agents": {
            "defaults": {"models": {"rehearsal/rehearsal": {}}},
            "list": [{"id": "main"}, {"id": "librarian"}],
        },
        "tools": {"agentToAgent": {"enabled": False}},
    }
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=msgspec.convert(raw, Config)
    ) as gateway:
        run = await say(gateway, "main", told(tool, **arguments), "r1")
        (in_a_run,) = await results_of(gateway, run)
        own = gateway.toolsets.known[tool]
        outside = await own.call(
            ToolContext(SessionKey.main("main"), run.authority), own.read(arguments)
        )

    assert in_a_run == msgspec.to_builtins(outside)
    assert in_a_run["status"] == "forbidden"
    assert set(in_a_run) == {"status", "error"}
    assert any(name in in_a_run["error"] for name in ("agentToAgent", "allowAgents", "not allowed"))


# ── provenance ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("S5")
async def test_a_message_between_sessions_carries_key_channel_and_tool_of_its_source(
    tmp_path: Path,
) -> None:
    chat, model = MemoryChannel("telegram", settings=OPEN_TO_ALL), RehearsalProvider()
    send = told("sessions_send", agentId="librarian", message="say: yes")
    inbound = Inbound(address=Address("telegram", "7"), sender="7", text=send, message_id="1")
    async with open_gateway(tmp_path, model, config=two_agents(), channels=[chat]) as gateway:
        await chat.bring(inbound)
        await gateway.run_store.wait(
            (await gateway.ledger.list_open_runs(SessionKey.main("main")))[0].run_id
        )
        history = await call(
            gateway, "tool.sessions_history", sessionKey="agent:librarian:main", limit=1000
        )
        wire = await call(gateway, "chat.history", sessionKey="agent:librarian:main")
        await gateway.exporter.flush()
    (path,) = (tmp_path / "state" / "sessions" / "librarian").glob("*.jsonl")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    stored = [each["message"] for each in written if "message" in each]

    for messages in (history["messages"], wire["messages"], stored):
        origins = [each["provenance"] for each in messages if each["role"] == "user"]
        assert origins[0] == {
            "kind": "inter_session",
            "sourceSessionKey": "agent:main:main",
            "sourceChannel": "telegram",
            "sourceTool": "sessions_send",
        }
        assert all("sourceSession" not in each for each in origins)


@pytest.mark.spec("S5")
async def test_a_task_and_its_report_carry_their_source(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)
        child = await call(gateway, "tool.sessions_history", sessionKey=spawn.child_key)
        main = await call(gateway, "tool.sessions_history", sessionKey="main")

    task, asked = [each for each in child["messages"] if each["role"] == "user"]
    report = next(each for each in main["messages"] if "Status:" in str(each["content"]))
    for message in (task, asked):
        assert message["provenance"]["sourceSessionKey"] == "agent:main:main"
        assert message["provenance"]["sourceChannel"] == "webchat"
        assert message["provenance"]["sourceTool"] == "sessions_spawn"
    assert report["provenance"]["sourceSessionKey"] == spawn.child_key
    assert report["provenance"]["sourceChannel"] == "internal"


@pytest.mark.spec("S5")
def test_a_row_with_the_older_name_of_the_source_is_read_and_written_with_the_new_one() -> None:
    old = b'{"role":"user","content":"x","provenance":{"kind":"inter_session","sourceSession":"k"}}'
    message = decode_message(old)
    assert isinstance(message, UserMessage)
    assert message.provenance is not None
    assert message.provenance.source_session_key == "k"
    assert json.loads(encode_message(message))["provenance"] == {
        "kind": "inter_session",
        "sourceSessionKey": "k",
    }


# ── reports and rows ───────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("P5")
@pytest.mark.parametrize("announce", ["Result: it is 42", "just words", "Notes:\nResult: 42"])
async def test_a_report_without_notes_says_so(tmp_path: Path, announce: str) -> None:
    async with open_gateway(tmp_path, family(announce=announce)) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        (report,) = await announces_in(gateway)

    assert [line.partition(":")[0] for line in report.splitlines()[:3]] == [
        "Status",
        "Result",
        "Notes",
    ]
    assert "\nNotes: none\n" in report


@pytest.mark.spec("P5")
def test_the_runtimes_own_report_has_notes_too() -> None:
    assert report_text("error", SpawnReport(""), "Stats").splitlines()[2] == "Notes: none"


@pytest.mark.spec("L3", "L6")
async def test_last_channel_is_in_every_row_that_has_a_channel(tmp_path: Path) -> None:
    chat = MemoryChannel("telegram", settings=OPEN_TO_ALL)
    group = Inbound(
        address=Address("telegram", "-5"),
        sender="7",
        text="hello",
        message_id="1",
        chat_type="group",
        chat_id="-5",
    )
    config = config_of({"session": {"dmScope": "main"}})
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=config, channels=[chat]
    ) as gateway:
        await say(gateway, "main", "say: hi", "r1")
        await chat.bring(group)
        turn = {"kind": "agentTurn", "message": "say: tick"}
        every = {"kind": "every", "everyMs": 60_000}
        job = await call(gateway, "cron.add", name="j", schedule=every, payload=turn)
        await gateway.run_store.wait((await call(gateway, "cron.run", id=job["id"]))["runId"])
        tool = (await call(gateway, "tool.sessions_list"))["sessions"]
        wire = (await call(gateway, "sessions.list"))["sessions"]

    for rows in (tool, wire):
        assert {(row["channel"], row.get("lastChannel")) for row in rows} == {
            ("webchat", "webchat"),
            ("telegram", "telegram"),
            ("internal", None),
        }


@pytest.mark.spec("M3", "H2", "M4")
async def test_a_result_says_also_that_it_is_no_error(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", told("sessions_list"), "r1")
        await say(gateway, "main", told("sessions_history", sessionKey="agent:main:none"), "r2")
        history = await call(gateway, "tool.sessions_history", sessionKey="main", includeTools=True)
        await gateway.exporter.flush()
    (path,) = (tmp_path / "state" / "sessions" / "main").glob("*.jsonl")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    results = [each for each in history["messages"] if each["role"] == "toolResult"]
    stored = [
        each["message"] for each in written if each.get("message", {}).get("role") == "toolResult"
    ]

    assert [each["isError"] for each in results] == [False, True]
    assert [each["isError"] for each in stored] == [False, True]


# ── the rounds ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("S6")
async def test_only_reply_skip_ends_the_rounds_and_the_other_token_is_text_to_the_other_agent(
    tmp_path: Path,
) -> None:
    """The target's first reply is ANNOUNCE_SKIP: the requester reads it, answers, and so on."""
    config = two_agents(agentToAgent={"maxPingPongTurns": 2})
    ask = told("sessions_send", agentId="librarian", message="say: ANNOUNCE_SKIP")
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        run = await say(gateway, "main", ask, "r1")
        (result,) = await results_of(gateway, run)
        first = await gateway.run_store.wait(follower_id(result["runId"], "round-1"), timeout_s=60)
        entries = await gateway.ledger.list_entries(run.session_id, limit=100)
        await gateway.run_store.wait(follower_id(result["runId"], "announce"), timeout_s=60)

    assert result["reply"] == "ANNOUNCE_SKIP"
    assert first is not None
    handed_on = [
        entry.message.content
        for entry in entries
        if entry.run_id == first.run_id and isinstance(entry.message, UserMessage)
    ]
    assert handed_on == ["ANNOUNCE_SKIP"]
