"""A window that fills is emptied without forgetting: results first, then a summary, never the history."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.agent.compaction import OVERFLOWS_MAX
from crossclaw.agent.summary import SYSTEM
from crossclaw.agent.view import CLEARED
from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.config.doors import Messages
from crossclaw.domain.compactions import KEPT_CHARS_MAX, Compaction, compaction_of
from crossclaw.domain.errors import ContextOverflow, Invalid, NotFound, ProviderOverloaded
from crossclaw.domain.events import CompactionPhase, FeedEvent, RunStarted
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage
from crossclaw.domain.runs import Run
from crossclaw.ledger.operations import PINS_MAX, ArmTimer, PutExchange, Timer
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, instructions_of, message_texts, open_gateway
from crossclaw.testing.scripted import ScriptedAnswer
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call, say
from tests.flows.tools import Counting
from tests.properties.test_view import complaint
from tests.stores import look_into

LONG = "lorem ipsum dolor " * 40
"""About 180 tokens."""


def small(window: int = 8_000, *, flush: bool = False, **compaction: Any) -> Config:
    compaction["memoryFlush"] = {"enabled": flush}
    raw = {"agents": {"defaults": {"contextTokens": window, "compaction": compaction}}}
    return msgspec.convert(raw, Config)


def is_summary(request: ModelRequest) -> bool:
    return request.system.startswith(SYSTEM)


def words(request: ModelRequest) -> str:
    parts = [block for turn in request.turns for block in turn.content]
    results = [
        b for t in request.turns if isinstance(t, UserTurn) for r in t.results for b in r.content
    ]
    return "\n".join(part.text for part in [*parts, *results] if hasattr(part, "text"))


def remembering(*replies: ScriptedAnswer, delay_s: float = 0.0) -> ScriptedProvider:
    """Sums up as `THE STORY SO FAR`; answers anything else from the replies, then with `ok`."""
    left = list(replies)

    def answer(request: ModelRequest) -> ScriptedAnswer:
        if is_summary(request):
            return "THE STORY SO FAR"
        return left.pop(0) if left else "ok"

    return ScriptedProvider(answer, delay_s=delay_s)


async def compactions(gateway: Gateway, run: Run) -> list[Compaction]:
    entries = await gateway.ledger.list_entries(run.session_id, limit=5_000)
    return [compaction_of(entry) for entry in entries if entry.type == "compaction"]


@pytest.mark.spec("M5")
async def test_two_hundred_turns_in_a_small_window_stay_legal_and_within_it(tmp_path: Path) -> None:
    model = remembering()
    async with open_gateway(tmp_path, model, config=small()) as gateway:
        await say(gateway, "main", "my name is Ana", "first")
        for number in range(200):
            run = await say(gateway, "main", f"turn {number} {LONG}", f"r{number}")
            assert run.reply == "ok"
        made = await compactions(gateway, run)
        row = (await call(gateway, "sessions.list"))["sessions"][0]
        shown = await call(gateway, "chat.history", sessionKey="main", limit=1000)
        session = await gateway.ledger.find_session(run.key)

    answers = [request for request in model.seen if not is_summary(request)]
    assert all(complaint(request.turns) is None for request in model.seen)
    assert all(len(words(request)) // 4 < 8_000 for request in model.seen)
    assert len(made) > 5
    last = words(answers[-1])
    assert "my name is Ana" in last  # the first request stays as it is
    assert "THE STORY SO FAR" in last
    assert "turn 198" in last
    assert "turn 20 " not in last
    assert len(shown["messages"]) == 402  # the history is whole
    assert session is not None
    assert session.compactions == len(made)
    assert row["contextTokens"] == 8_000
    assert 0 < row["totalTokens"] < 8_000


@pytest.mark.spec("M5")
async def test_old_results_of_tools_go_first(tmp_path: Path) -> None:
    count = Counting("count", before=None)
    count.call = _long_result  # type: ignore[method-assign]
    calls = [[ToolUse(f"c{n}", "count", {})] for n in range(12)]
    model = remembering(*calls, "done")
    async with open_gateway(tmp_path, model, config=small(20_000), tools=[count]) as gateway:
        run = await say(gateway, "main", "work", "r1")
        made = await compactions(gateway, run)

    assert run.reply == "done"
    assert not any(is_summary(request) for request in model.seen)
    assert made
    assert {each.summary for each in made} == {None}
    last = words(model.seen[-1])
    assert CLEARED in last
    assert LONG in last  # the newest one is whole
    assert "work" in last


async def _long_result(context: object, params: object) -> str:
    return LONG * 4


@pytest.mark.spec("M5")
async def test_a_request_that_the_model_refuses_is_compacted_and_sent_again(tmp_path: Path) -> None:
    refusals = [ContextOverflow("too long")]

    def answer(request: ModelRequest) -> ScriptedAnswer:
        if is_summary(request):
            return "THE STORY SO FAR"
        if len(request.turns) > 5 and refusals:
            return refusals.pop()
        return "ok"

    model = ScriptedProvider(answer)
    heard: list[FeedEvent] = []
    async with open_gateway(tmp_path, model) as gateway:
        gateway.feed.subscribe(heard.append)
        for number in range(4):
            run = await say(gateway, "main", f"turn {number} {LONG * 50}", f"r{number}")
        made = await compactions(gateway, run)

    assert run.reply == "ok"
    assert [each.reason for each in made] == ["overflow"]
    assert "THE STORY SO FAR" in words(model.seen[-1])
    told = [(event.phase, event.retries) for event in heard if isinstance(event, CompactionPhase)]
    assert told == [("start", False), ("end", True)]


@pytest.mark.spec("M5")
async def test_a_model_that_refuses_everything_is_asked_a_bounded_number_of_times(
    tmp_path: Path,
) -> None:
    def answer(request: ModelRequest) -> ScriptedAnswer:
        if is_summary(request):
            return "THE STORY SO FAR"
        return ContextOverflow("too long, try /compact") if len(model.seen) > 3 else "ok"

    asked: list[bool] = []
    model = ScriptedProvider(answer)
    async with open_gateway(
        tmp_path, model, config=small(1_000_000, keepRecentTokens=900_000)
    ) as gateway:
        for number in range(4):
            run = await say(gateway, "main", f"turn {number}", f"r{number}")
        asked = [is_summary(request) for request in model.seen]

    assert run.status == "error"
    assert "/compact" in (run.error or "")
    assert asked.count(False) <= 3 + OVERFLOWS_MAX + 1


@pytest.mark.spec("M5")
async def test_one_result_that_alone_is_too_much_is_left_out(tmp_path: Path) -> None:
    count = Counting("count")
    count.call = _long_result  # type: ignore[method-assign]

    def answer(request: ModelRequest) -> ScriptedAnswer:
        if LONG in words(request):
            return ContextOverflow("too long")
        return "it was too much" if CLEARED in words(request) else [ToolUse("c1", "count", {})]

    async with open_gateway(tmp_path, ScriptedProvider(answer), tools=[count]) as gateway:
        run = await say(gateway, "main", "look", "r1")

    assert run.reply == "it was too much"


@pytest.mark.spec("M5")
async def test_pinned_messages_survive_every_compaction_as_they_are(tmp_path: Path) -> None:
    model = remembering()
    async with open_gateway(tmp_path, model, config=small()) as gateway:
        await say(gateway, "main", "hello", "first")
        await say(gateway, "main", "the door code is 4711", "code")
        pinned = await call(gateway, "sessions.pin", key="main")
        for number in range(60):
            await say(gateway, "main", f"turn {number} {LONG}", f"r{number}")
        kept = words(model.seen[-1])
        await call(gateway, "sessions.pin", key="main", entryId=pinned["entryId"], pinned=False)
        await say(gateway, "main", "and now", "last")

    assert "the door code is 4711" in kept
    assert "the door code is 4711" not in words(model.seen[-1])


@pytest.mark.spec("M5")
async def test_pins_have_their_limits(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, remembering(), config=small(1_000_000)) as gateway:
        with pytest.raises(NotFound, match="unknown session"):
            await call(gateway, "sessions.pin", key="main")
        for number in range(PINS_MAX):
            await say(gateway, "main", f"turn {number}", f"r{number}")
            await call(gateway, "sessions.pin", key="main")
        await say(gateway, "main", "one more", "more")
        with pytest.raises(Invalid, match="at most 20 pins"):
            await call(gateway, "sessions.pin", key="main")
        await say(gateway, "other", "x" * 70_000, "big")
        with pytest.raises(Invalid, match="bytes together"):
            await call(gateway, "sessions.pin", key="other")
        with pytest.raises(NotFound, match="no message zzz"):
            await call(gateway, "sessions.pin", key="other", entryId="zzz")


@pytest.mark.spec("M5")
async def test_what_is_under_way_is_told_from_the_ledger_after_a_compaction(tmp_path: Path) -> None:
    model = remembering()
    key = SessionKey.main("main")
    exchange = Exchange(
        exchange_id="x1", agent_id="main", requester_key=key.text, target_key="agent:ops:main",
        run_id="x1", request="restart the server", turns_max=5, created_at=1,
    )  # fmt: skip
    timer = Timer(
        timer_key="t1", agent_id="main", kind="reminder", due_at=4_000_000_000_000,
        payload={"sessionKey": key.text},
    )  # fmt: skip
    async with open_gateway(tmp_path, model, config=small()) as gateway:
        await gateway.ledger.commit(
            PutExchange(exchange=exchange, runs_max=200), ArmTimer(timer=timer)
        )
        await say(gateway, "main", "hi", "first")
        for number in range(30):
            await say(gateway, "main", f"turn {number} {LONG}", f"r{number}")

    after = words(model.seen[-1])
    assert "agent:ops:main is not yet settled: restart the server" in after
    assert "a timer (reminder) is set for 2096-10-02" in after


@pytest.mark.spec("M5")
async def test_a_compaction_by_hand_waits_for_its_turn_and_keeps_the_history(
    tmp_path: Path,
) -> None:
    model = remembering()
    async with open_gateway(tmp_path, model) as gateway:
        none = await call(gateway, "sessions.compact", key="nobody")
        for number in range(6):
            run = await say(gateway, "main", f"turn {number}", f"r{number}")
        before = await call(gateway, "chat.history", sessionKey="main")
        done = await call(gateway, "sessions.compact", key="main", instructions="mind the names")
        after = await call(gateway, "chat.history", sessionKey="main")
        last = await gateway.ledger.last_seq(run.session_id)
        again = await call(gateway, "sessions.compact", key="main", maxLines=400)
        await say(gateway, "main", "go on", "last")
        (made,) = await compactions(gateway, run)

    assert (none["compacted"], none["reason"]) == (False, "no sessionId")
    assert done["ok"] is True
    assert done["compacted"] is True
    assert 1 < done["kept"] == last - made.first_kept_seq + 1
    assert made.reason == "manual"
    assert after == before
    assert (again["compacted"], "nothing to compact" in again["reason"]) == (False, True)
    summary = next(request for request in model.seen if is_summary(request))
    assert "mind the names" in summary.system
    assert "THE STORY SO FAR" in words(model.seen[-1])
    assert "turn 2" not in words(model.seen[-1])


@pytest.mark.spec("M5", "C1")
async def test_the_command_compacts_the_session_in_which_it_is_said(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, remembering()) as gateway:
        for number in range(6):
            in_main = await say(gateway, "main", f"turn {number}", f"m{number}")
            in_notes = await say(gateway, "notes", f"turn {number}", f"n{number}")
        said = await say(gateway, "notes", "/compact", "c")
        made = [await compactions(gateway, run) for run in (in_main, in_notes)]

    assert (said.reply or "").startswith("Compacted")
    assert [len(each) for each in made] == [0, 1]


@pytest.mark.spec("M5")
async def test_compacting_a_busy_session_queues_behind_the_run(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda request: "ok", delay_s=60)
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(3):
            await say(gateway, "main", f"turn {number} {LONG}", f"r{number}")
        await call(gateway, "chat.send", sessionKey="main", message="busy", idempotencyKey="r9")
        answer = await call(gateway, "sessions.compact", key="main")
        run = await gateway.run_store.wait(answer["runId"])
        entries = await gateway.ledger.list_entries(run.session_id, limit=50)  # type: ignore[union-attr]

    assert answer["compacted"] is False
    assert "busy" in answer["reason"]
    assert run is not None
    assert (run.kind, run.status) == ("compact", "ok")
    assert entries[-1].type == "compaction"


@pytest.mark.spec("M5", "B1")
async def test_a_crash_in_the_middle_of_a_compaction_loses_nothing(tmp_path: Path) -> None:
    (folder := tmp_path / "gateway").mkdir()
    begun = anyio.Event()

    def hang(request: ModelRequest) -> ScriptedAnswer:
        if is_summary(request):
            begun.set()
        return "ok"

    class Slow(ScriptedProvider):
        async def complete(self, request: ModelRequest, tell: Any) -> Any:
            answer = await super().complete(request, tell)
            if is_summary(request):
                await anyio.sleep(1_000)
            return answer

    async with open_gateway(folder, Slow(hang)) as gateway:
        for number in range(5):
            await say(gateway, "main", f"turn {number}", f"r{number}")
        with anyio.move_on_after(5):
            await call(gateway, "sessions.compact", key="main")
        await begun.wait()
        left = crashed_copy(folder)

    model = remembering()
    async with open_gateway(left, model) as gateway:
        run = await say(gateway, "main", "after", "last")
        made = await compactions(gateway, run)

    assert len(made) == 1
    assert run.reply == "ok"
    assert "THE STORY SO FAR" in words(model.seen[-1])


@pytest.mark.spec("M5")
async def test_when_no_model_can_summarise_the_requests_are_listed(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ScriptedAnswer:
        return ContextOverflow("no") if is_summary(request) else "ok"

    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(5):
            await say(gateway, "main", f"turn {number}", f"r{number}")
        done = await call(gateway, "sessions.compact", key="main")
        await say(gateway, "main", "go on", "last")

    assert done["compacted"] is True
    assert "No model could summarise" in words(model.seen[-1])
    assert "- turn 1" in words(model.seen[-1])


@pytest.mark.spec("M5")
async def test_an_outage_while_summarising_does_not_stop_the_conversation(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ScriptedAnswer:
        return ProviderOverloaded("later") if is_summary(request) else "ok"

    async with open_gateway(tmp_path, ScriptedProvider(answer), config=small()) as gateway:
        for number in range(30):
            run = await say(gateway, "main", f"turn {number} {LONG}", f"r{number}")
            assert run.reply == "ok"
        failed = await call(gateway, "sessions.compact", key="main")

    assert failed["compacted"] is False
    assert "later" in failed["reason"]
    assert failed["runId"], "whoever asked can look at the run that failed"


@pytest.mark.spec("M5")
async def test_a_first_request_without_measure_does_not_fill_the_window_for_ever(
    tmp_path: Path,
) -> None:
    model = remembering()
    async with open_gateway(tmp_path, model, config=small(40_000)) as gateway:
        await say(gateway, "main", "x" * 60_000, "first")
        for number in range(6):
            run = await say(gateway, "main", f"turn {number} {'y' * 30_000}", f"r{number}")

    assert run.reply == "ok"
    assert "x" * KEPT_CHARS_MAX in words(model.seen[-1])
    assert "44000 more characters of this message are left out" in words(model.seen[-1])


@pytest.mark.spec("M5")
async def test_a_reset_begins_without_the_summary(tmp_path: Path) -> None:
    model = remembering()
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(5):
            await say(gateway, "main", f"turn {number}", f"r{number}")
        await call(gateway, "sessions.compact", key="main")
        await call(gateway, "sessions.reset", key="main")
        run = await say(gateway, "main", "anew", "last")
        session = await gateway.ledger.find_session(run.key)

    assert [message_texts(turn) for turn in model.seen[-1].turns] == [["anew"]]
    assert session is not None
    assert session.compactions == 0


@pytest.mark.spec("M5")
async def test_a_compaction_by_hand_leaves_no_message_behind(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, remembering()) as gateway:
        for number in range(5):
            run = await say(gateway, "main", f"turn {number}", f"r{number}")
        await call(gateway, "sessions.compact", key="main")
        entries = await gateway.ledger.list_entries(run.session_id, limit=50)

    assert len([e for e in entries if isinstance(e.message, UserMessage)]) == 5
    assert entries[-1].type == "compaction"


@pytest.mark.spec("M5")
async def test_a_child_that_works_is_never_forgotten(tmp_path: Path) -> None:
    model = remembering()
    async with open_gateway(tmp_path, model, config=small()) as gateway:
        await say(gateway, "main", "hi", "first")
        await _put_spawn(tmp_path, "agent:main:main")
        for number in range(30):
            await say(gateway, "main", f"turn {number} {LONG}", f"r{number}")

    assert "agent:main:subagent:c1 is at work" in words(model.seen[-1])
    assert "count the sheep" in words(model.seen[-1])


async def _put_spawn(folder: Path, parent: str) -> None:
    with look_into(folder / "state" / "crossclaw.sqlite") as db:
        db.execute(
            "INSERT INTO spawns (child_key, agent_id, parent_key, run_id, task, cleanup, state, "
            "created_at) VALUES ('agent:main:subagent:c1', 'main', ?, 'c1', 'count the sheep', "
            "'keep', 'running', 1)",
            (parent,),
        )
    db.close()


@pytest.mark.spec("M5")
async def test_the_request_under_way_stays_through_a_long_chain_of_tools(tmp_path: Path) -> None:
    count = Counting("count")
    calls: list[ScriptedAnswer] = [
        [Text(f"step {n} {LONG}"), ToolUse(f"c{n}", "count", {})] for n in range(60)
    ]
    model = remembering("hello", *calls, "done")
    async with open_gateway(tmp_path, model, config=small(), tools=[count]) as gateway:
        await say(gateway, "main", "good morning", "first")
        run = await say(gateway, "main", "do the long task", "r1")
        made = await compactions(gateway, run)

    last = words(model.seen[-1])
    assert run.reply == "done"
    assert len(made) > 2
    assert all(complaint(request.turns) is None for request in model.seen)
    assert last.index("good morning") < last.index("THE STORY") < last.index("do the long task")
    assert "step 59" in last
    assert count.calls == 60


@pytest.mark.spec("M5")
@pytest.mark.parametrize(("mode", "before"), [("collect", ["hello"]), ("steer", [])])
async def test_requests_that_are_answered_together_stay_together(
    tmp_path: Path, mode: str, before: list[ScriptedAnswer]
) -> None:
    """They waited behind a busy run, or were let into it; the chain of tools after them is long."""
    calls: list[ScriptedAnswer] = [
        [Text(f"step {n} {LONG}"), ToolUse(f"c{n}", "count", {})] for n in range(60)
    ]
    model = remembering("good", *before, *calls, "done", delay_s=5)
    config = msgspec.structs.replace(
        small(), messages=msgspec.convert({"queue": {"mode": mode}}, Messages)
    )
    async with open_gateway(tmp_path, model, config=config, tools=[Counting("count")]) as gateway:
        run = await say(gateway, "main", "good morning", "first")
        begun = anyio.Event()
        gateway.feed.subscribe(lambda event: begun.set() if isinstance(event, RunStarted) else None)
        for text in ("busy", "find the red book", "find the blue book"):
            await call(gateway, "chat.send", sessionKey="main", message=text, idempotencyKey=text)
            await begun.wait()
        for text in ("busy", "find the red book", "find the blue book"):
            assert await gateway.run_store.wait(text, timeout_s=3600)
        made = await compactions(gateway, run)

    last = words(model.seen[-1])
    assert len(made) > 2
    assert last.count("find the red book") == last.count("find the blue book") == 1
    assert all(complaint(request.turns) is None for request in model.seen)


@pytest.mark.spec("M5")
async def test_before_a_summary_the_model_writes_down_what_should_last_and_nobody_sees_it(
    tmp_path: Path,
) -> None:
    def answer(request: ModelRequest) -> ScriptedAnswer:
        if is_summary(request):
            return "THE STORY SO FAR"
        if "about to be summarised" in instructions_of(request):
            write = {"path": "MEMORY.md", "content": "Ana likes tea"}
            return [ToolUse("f1", "write", write), ToolUse("f2", "exec", {"command": "touch no"})]
        return "ok"

    model = ScriptedProvider(answer)
    async with open_gateway(tmp_path, model, config=small(flush=True)) as gateway:
        for number in range(40):
            run = await say(gateway, "main", f"turn {number} {LONG}", f"r{number}")
        made = await compactions(gateway, run)
        entries = await gateway.ledger.list_entries(run.session_id, limit=5_000)

    workspace = tmp_path / "state" / "workspace"
    flushes = [r for r in model.seen if "about to be summarised" in instructions_of(r)]
    assert (workspace / "MEMORY.md").read_text() == "Ana likes tea"
    assert not (workspace / "no").exists()  # only files, and only these tools
    assert len(flushes) == len([each for each in made if each.summary]) > 0
    assert "Ana likes tea" not in str(entries)
    assert made[0].usage is not None
    assert made[0].usage.input > flushes[0].system.count(" ")  # it is counted


@pytest.mark.spec("M5")
async def test_half_a_summary_is_not_remembered_as_the_whole(tmp_path: Path) -> None:
    half = AssistantMessage([Text("## Goal half a")], stop_reason="max_tokens")

    def answer(request: ModelRequest) -> ScriptedAnswer:
        if is_summary(request):
            return "WHOLE" if "Keep it under" in words(request) else half
        return "ok"

    async with open_gateway(tmp_path, ScriptedProvider(answer)) as gateway:
        for number in range(6):
            run = await say(gateway, "main", f"turn {number}", f"r{number}")
        await call(gateway, "sessions.compact", key="main")
        (made,) = await compactions(gateway, run)

    assert made.summary == "WHOLE"


@pytest.mark.spec("M5")
def test_the_summary_has_its_fixed_sections() -> None:
    for heading in ("Goal", "Constraints", "Done and open", "Decisions", "Next", "Files touched"):
        assert f"## {heading}\n" in SYSTEM
