"""Models that fail, fall back and think, seen from a gateway."""

import itertools
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw import app
from crossclaw.agent.weight import weigh_request
from crossclaw.config import Config, Paths
from crossclaw.domain.errors import (
    ContextOverflow,
    ProviderError,
    ProviderOverloaded,
    ProviderRefused,
)
from crossclaw.domain.events import CallRepeated, FeedEvent, ReplyPiece
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse
from crossclaw.providers.contract import UserTurn
from crossclaw.providers.retry import RetryBudget
from crossclaw.testing import ScriptedProvider, VirtualClock, open_gateway
from crossclaw.testing.scripted import CutOff, ScriptedAnswer, ScriptedAnswerer
from tests.flows.talking import call, say

MAIN = "agent:main:main"


async def test_a_run_that_fails_before_a_model_is_asked_says_so_in_the_history(
    tmp_path: Path,
) -> None:
    config = msgspec.convert(
        {"agents": {"list": [{"id": "main", "model": "nosuch/model"}]}}, Config
    )
    async with open_gateway(tmp_path, ScriptedProvider([]), config=config) as gateway:
        run = await say(gateway, MAIN, "hello?", "r1")
        _question, answer = await gateway.ledger.list_entries(run.session_id, limit=9)
    assert run.status == "error"
    assert isinstance(answer.message, AssistantMessage)
    assert (answer.message.stop_reason, answer.message.error) == ("error", run.error)
    assert "nosuch" in (run.error or "")
    async with open_gateway(tmp_path, ScriptedProvider(["I am here"])) as gateway:
        assert (await say(gateway, MAIN, "and now?", "r2")).reply == "I am here"


async def test_an_answer_that_broke_off_is_said_anew_and_stored_once(tmp_path: Path) -> None:
    cut = CutOff("Once upon", ProviderOverloaded("broke off"))
    model = ScriptedProvider([cut, "Once upon a time."])
    heard: list[FeedEvent] = []
    async with open_gateway(tmp_path, model) as gateway:
        gateway.feed.subscribe(heard.append)
        run = await say(gateway, MAIN, "tell me", "r1")
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)
    assert (run.status, run.reply) == ("ok", "Once upon a time.")
    assert len(entries) == 2
    pieces = [event for event in heard if isinstance(event, ReplyPiece)]
    assert [piece.text for piece in pieces if piece.restarted] == ["Once "]
    assert pieces[-1].text == "Once upon a time."
    (repeated,) = [event for event in heard if isinstance(event, CallRepeated)]
    assert (repeated.reason, repeated.model) == ("broke off", None)


async def test_when_no_further_words_come_the_first_ones_are_kept(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer | ScriptedAnswerer] = [
        CutOff("Half a", ProviderOverloaded("gone")),
        *[ProviderOverloaded("gone")] * 3,
    ]
    async with open_gateway(tmp_path, ScriptedProvider(lines)) as gateway:
        run = await say(gateway, MAIN, "tell me", "r1")
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)
    assert (run.status, run.error) == ("error", "gone")
    last = entries[-1].message
    assert isinstance(last, AssistantMessage)
    assert (last.text.strip(), last.stop_reason) == ("Half a", "error")


async def test_a_run_in_an_outage_ends_and_the_next_one_works(tmp_path: Path) -> None:
    model = ScriptedProvider([*[ProviderOverloaded("529")] * 4, "hello again"])
    async with open_gateway(tmp_path, model) as gateway:
        failed = await say(gateway, MAIN, "hi", "r1")
        fine = await say(gateway, MAIN, "hi", "r2")
    assert (failed.status, fine.reply) == ("error", "hello again")
    assert model.left == 0


def config_of(**defaults: Any) -> Config:
    raw = {"agents": {"defaults": defaults, "list": [{"id": "main"}, {"id": "deep"}]}}
    return msgspec.convert(raw, Config)


async def test_the_fallback_of_the_config_answers_and_is_named_in_the_transcript(
    tmp_path: Path,
) -> None:
    first = ScriptedProvider([ProviderRefused("no credit")], name="first")
    second = ScriptedProvider(["I can."], name="second")
    config = config_of(model={"primary": "first/a", "fallbacks": ["second/b"]})
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    outside = app.GatewayInputs(
        environ={}, clock=VirtualClock(), providers={"first": first, "second": second}, inline=True
    )
    heard: list[FeedEvent] = []
    async with app.open_gateway(config, paths, outside) as gateway:
        gateway.feed.subscribe(heard.append)
        run = await say(gateway, MAIN, "hi", "r1")
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)
    assert run.reply == "I can."
    answer = entries[-1].message
    assert isinstance(answer, AssistantMessage)
    assert (answer.provider, answer.model) == ("second", "b")
    assert [e.model for e in heard if isinstance(e, CallRepeated)] == ["second/b"]


async def test_thinking_is_chosen_by_message_then_session_then_agent(tmp_path: Path) -> None:
    raw: dict[str, Any] = {
        "agents": {
            "defaults": {"thinkingDefault": "low"},
            "list": [{"id": "main"}, {"id": "deep", "thinkingDefault": "max"}],
        }
    }
    model = ScriptedProvider(lambda _asked: "ok")
    async with open_gateway(tmp_path, model, config=msgspec.convert(raw, Config)) as gateway:
        await say(gateway, MAIN, "by the defaults", "r1")
        await say(gateway, "agent:deep:main", "by the agent", "r2")
        await call(gateway, "sessions.patch", key=MAIN, thinkingLevel="medium")
        await say(gateway, MAIN, "by the session", "r3")
        await call(gateway, "sessions.patch", key=MAIN, thinkingLevel="off")
        await say(gateway, MAIN, "switched off", "r4")
        await call(
            gateway, "chat.send", sessionKey=MAIN, message="by the message", idempotencyKey="r5",
            thinking="high",
        )  # fmt: skip
        await gateway.run_store.wait("r5", timeout_s=60)
    assert [asked.thinking for asked in model.seen] == ["low", "xhigh", "medium", "off", "high"]


@pytest.mark.spec("M10")
async def test_agents_share_a_workspace_and_keep_their_histories_apart(tmp_path: Path) -> None:
    """The writer tells nobody; the reader finds the file, and nothing of the writer's talk."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "notes.md").write_text("shelf nine")
    raw: dict[str, Any] = {
        "agents": {
            "list": [
                {"id": "main", "workspace": str(shared)},
                {"id": "librarian", "workspace": str(shared)},
                {"id": "stranger", "workspace": str(tmp_path / "elsewhere")},
            ]
        }
    }
    model = ScriptedProvider(_reads_then_tells)
    async with open_gateway(tmp_path, model, config=msgspec.convert(raw, Config)) as gateway:
        first = await say(gateway, MAIN, "a secret: where are the notes?", "r1")
        second = await say(gateway, "agent:librarian:main", "where?", "r2")
        outside = await say(gateway, "agent:stranger:main", "where?", "r3")
        history = await call(gateway, "chat.history", sessionKey="agent:librarian:main")
    assert "shelf nine" in (first.reply or "")
    assert "shelf nine" in (second.reply or "")
    assert "shelf nine" not in (outside.reply or "")
    assert first.session_id != second.session_id
    assert "secret" not in msgspec.json.encode(history).decode()
    librarian = [asked for asked in model.seen if "'librarian'" in asked.system]
    assert librarian
    assert all("secret" not in msgspec.json.encode(asked.turns).decode() for asked in librarian)


def _reads_then_tells(asked: Any) -> Any:
    last = asked.turns[-1]
    assert isinstance(last, UserTurn)
    if not last.results:
        return [ToolUse("c1", "read", {"path": "notes.md"})]
    return "".join(part.text for part in last.results[0].content if isinstance(part, Text))


async def test_sessions_in_trouble_all_end_and_do_not_slow_the_others(tmp_path: Path) -> None:
    """Forty sessions meet every fault there is, again and again; a hundred others meet none."""
    faults: list[ScriptedAnswer] = [
        ProviderOverloaded("429", 2.0),
        ProviderOverloaded("529"),
        ProviderOverloaded("silent for 120 s"),
        CutOff("half a", ProviderOverloaded("cut")),
        CutOff("half a", ProviderError("malformed")),
        ProviderError("never a stream"),
        ProviderRefused("no credit"),
        ContextOverflow("too long"),
        AssistantMessage([], stop_reason="end_turn"),
        ProviderOverloaded("an hour, please", 3600.0),
    ]
    numbers = itertools.count()

    def answer(asked: Any) -> ScriptedAnswer:
        troubled = "troubled" in asked.turns[-1].content[-1].text
        return faults[next(numbers) % len(faults)] if troubled else "fine"

    model = ScriptedProvider(answer, delay_s=1.0)
    async with open_gateway(tmp_path, model) as gateway:
        began_s = anyio.current_time()
        for n in range(140):
            text = f"troubled {n}" if n < 40 else f"well {n}"
            key = f"agent:main:s{n}"
            await call(gateway, "chat.send", sessionKey=key, message=text, idempotencyKey=f"r{n}")
        well = [await gateway.run_store.wait(f"r{n}", timeout_s=600) for n in range(40, 140)]
        well_after_s = anyio.current_time() - began_s
        troubled = [await gateway.run_store.wait(f"r{n}", timeout_s=600) for n in range(40)]
    assert all(run is not None and (run.status, run.reply) == ("ok", "fine") for run in well)
    assert well_after_s < 10  # virtual: three rounds of 64 calls, a second each
    assert all(run is not None and run.status in ("ok", "error") for run in troubled)
    assert all(run is not None and run.error for run in troubled if run and run.status == "error")
    assert len(model.seen) <= 140 * (1 + RetryBudget.share) + RetryBudget.held_max


@pytest.mark.spec("M5")
async def test_a_fallback_with_a_small_window_gets_a_view_of_its_own_and_nothing_is_compacted(
    tmp_path: Path,
) -> None:
    """A short overload must not cost the conversation its memory."""
    overloaded: list[bool] = []
    first = ScriptedProvider(
        lambda r: ProviderOverloaded("no") if overloaded else "noted", name="first"
    )
    second = ScriptedProvider(
        lambda r: ContextOverflow("too long") if weigh_request(r) > 32_000 else "in its place",
        name="second",
    )
    raw = {
        "agents": {"defaults": {"model": {"primary": "first/big", "fallbacks": ["second/small"]}}},
        "models": {
            "providers": {
                "second": {
                    "baseUrl": "http://127.0.0.1:1",
                    "models": [{"id": "small", "contextWindow": 32_000, "input": ["text"]}],
                }
            }
        },
    }
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    outside = app.GatewayInputs(
        environ={},
        clock=VirtualClock(),
        providers={"first": first, "second": second},
        inline=True,
    )
    async with app.open_gateway(msgspec.convert(raw, Config), paths, outside) as gateway:
        await say(gateway, "main", "my name is Ana", "r0")
        for number in range(10):
            await say(gateway, "main", f"{number} " + "lorem ipsum " * 2_000, f"r{number + 1}")
        overloaded.append(True)
        run = await say(gateway, "main", "and now?", "last")
        overloaded.clear()
        await anyio.sleep(120)
        await say(gateway, "main", "who am I?", "after")
        entries = await gateway.ledger.list_entries(run.session_id, limit=100)

    assert (run.status, run.reply) == ("ok", "in its place")
    assert [entry for entry in entries if entry.type == "compaction"] == []
    assert "my name is Ana" in str(first.seen[-1].turns)
