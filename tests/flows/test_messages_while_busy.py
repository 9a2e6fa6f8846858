"""Messages that come while their session is busy: collected, one by one, steering, or interrupting."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.events import FeedEvent, RunAccepted, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage, words_of
from crossclaw.domain.runs import Run
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    message_texts,
    open_gateway,
    submit,
)
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call, say
from tests.flows.tools import Counting

MAIN = SessionKey.main("main")


class Slow:
    """Takes its time, says a little at once, and notes what it was shown last and when."""

    name = "slow"

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self.asked: list[list[str]] = []
        self.at: list[float] = []

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        words = message_texts(request.turns[-1])
        self.asked.append(words)
        self.at.append(anyio.current_time())
        tell(TextPiece("Well, "))
        await anyio.sleep(self._seconds)
        return AssistantMessage([Text(f"re: {words[-1]}")], stop_reason="end_turn")

    async def close(self) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gateway").mkdir()
    return tmp_path / "gateway"


def queue(mode: str = "collect", **settings: Any) -> Config:
    return msgspec.convert({"messages": {"queue": {"mode": mode, **settings}}}, Config)


async def send(gateway: Gateway, *messages: str, **params: Any) -> None:
    """Each message is its own run id."""
    for text in messages:
        given = {"sessionKey": "main", "message": text, "idempotencyKey": text, **params}
        await call(gateway, "chat.send", **given)


async def ends(gateway: Gateway, *run_ids: str) -> list[Run]:
    found = [await gateway.run_store.wait(run_id, timeout_s=3600) for run_id in run_ids]
    return [run for run in found if run is not None and run.ended]


async def said(gateway: Gateway, run: Run) -> list[str]:
    entries = await gateway.ledger.list_entries(run.session_id, limit=200, notes=False)
    return [words_of(entry.message) for entry in entries if entry.message is not None]


# ── collect ────────────────────────────────────────────────────────────────────────────────────


async def test_what_came_while_the_session_was_busy_is_answered_together(tmp_path: Path) -> None:
    model = Slow()
    ended: list[Run] = []

    def hear(event: FeedEvent) -> None:
        if isinstance(event, RunEnded):
            ended.append(event.run)

    async with open_gateway(tmp_path, model) as gateway:
        gateway.feed.subscribe(hear)
        await send(gateway, "a", "b", "c")
        a, b, c = await ends(gateway, "a", "b", "c")
        transcript = await said(gateway, a)

    assert model.asked == [["a"], ["b", "c"]]
    assert transcript == ["a", "re: a", "b", "c", "re: c"]
    assert [(run.status, run.reply) for run in (b, c)] == [("ok", "re: c")] * 2
    assert (a.merged_into, b.merged_into, c.merged_into) == (None, None, "b")
    assert [run.run_id for run in ended] == ["a", "b", "c"]  # each one's `final`


async def test_a_chat_gets_one_reply_for_what_was_collected(tmp_path: Path) -> None:
    chat = MemoryChannel("memory", settings=OPEN_TO_ALL)
    model = Slow()
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        ids = [await chat.say("ana", text) for text in ("a", "b", "c")]
        await ends(gateway, *ids)
        await chat.wait_sent(2)
        await anyio.sleep(60)

    assert chat.sent == [("ana", "re: a"), ("ana", "re: c")]


async def test_messages_from_different_chats_are_not_answered_together(tmp_path: Path) -> None:
    chat = MemoryChannel("memory", settings=OPEN_TO_ALL)
    model = Slow()
    async with open_gateway(tmp_path, model, channels=[chat]) as gateway:
        ids = [
            await chat.say(who, text) for who, text in (("ana", "a"), ("ana", "b"), ("ben", "c"))
        ]
        ids.append(await chat.say("ana", "d"))
        await ends(gateway, *ids)
        await chat.wait_sent(4)

    assert model.asked == [["a"], ["b"], ["c"], ["d"]]  # and nobody is overtaken
    assert chat.sent == [("ana", "re: a"), ("ana", "re: b"), ("ben", "re: c"), ("ana", "re: d")]


async def test_messages_with_different_rights_are_not_answered_together(tmp_path: Path) -> None:
    raw = {"commands": {"ownerAllowFrom": ["memory:ana"]}}
    chat = MemoryChannel("memory", settings=OPEN_TO_ALL)
    model = Slow()
    async with open_gateway(
        tmp_path, model, config=msgspec.convert(raw, Config), channels=[chat]
    ) as gateway:
        ids = [
            await chat.say(who, f"{who}{n}", group="g") for n in (0, 1) for who in ("ana", "ben")
        ]
        await ends(gateway, *ids)

    assert model.asked == [["ana0"], ["ben0"], ["ana1"], ["ben1"]]


async def test_only_chat_messages_are_collected(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model) as gateway:
        await send(gateway, "a", "b")
        agent = (await submit(gateway, MAIN, "an agent's")).run_id
        await send(gateway, "c", "d")
        await ends(gateway, "a", "b", agent, "c", "d")

    assert model.asked == [["a"], ["b"], ["an agent's"], ["c", "d"]]


async def test_a_failure_is_the_outcome_of_all_that_were_answered_together(tmp_path: Path) -> None:
    model = ScriptedProvider(["fine", ValueError("no")], delay_s=10)
    async with open_gateway(tmp_path, model) as gateway:
        await send(gateway, "a", "b", "c")
        runs = await ends(gateway, "a", "b", "c")

    assert [run.status for run in runs] == ["ok", "error", "error"]
    assert runs[1].error == runs[2].error


@pytest.mark.parametrize("which", ["b", "c"])
async def test_to_stop_one_of_them_is_to_stop_their_answer(tmp_path: Path, which: str) -> None:
    async with open_gateway(tmp_path, Slow()) as gateway:
        await send(gateway, "a", "b", "c")
        await anyio.sleep(12)
        stopped = await call(gateway, "chat.abort", sessionKey="main", runId=which)
        runs = await ends(gateway, "a", "b", "c")
        transcript = await said(gateway, runs[0])

    assert stopped["aborted"] is True
    assert [run.status for run in runs] == ["ok", "aborted", "aborted"]
    assert transcript[-1] == "Well, "


async def test_stopping_the_session_names_all_that_it_stopped(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Slow()) as gateway:
        await send(gateway, "a", "b", "c")
        await anyio.sleep(12)
        await send(gateway, "d")
        stopped = await call(gateway, "chat.abort", sessionKey="main")
        runs = await ends(gateway, "b", "c", "d")

    assert sorted(stopped["runIds"]) == ["b", "c", "d"]
    assert [run.status for run in runs] == ["aborted"] * 3


# ── debounce ───────────────────────────────────────────────────────────────────────────────────


async def test_a_batch_begins_when_nothing_has_come_for_a_moment(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model, config=queue(debounceMs=3000)) as gateway:
        await send(gateway, "a", "b")
        await anyio.sleep(9)
        await send(gateway, "c")  # at 9 s; "a" ends at 10 s
        await anyio.sleep(2)
        await send(gateway, "d")  # at 11 s
        await ends(gateway, "a", "b", "c", "d")

    assert model.asked == [["a"], ["b", "c", "d"]]
    assert model.at[1] - model.at[0] == pytest.approx(14, abs=0.1)


async def test_an_idle_session_begins_at_once(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model, config=queue(debounceMs=30_000)) as gateway:
        await anyio.sleep(5)
        await send(gateway, "a")
        assert (await gateway.run_store.find("a")).status == "running"  # type: ignore[union-attr]
        await ends(gateway, "a")
        await send(gateway, "b")
        assert await ends(gateway, "b")

    assert model.at[1] - model.at[0] == pytest.approx(10, abs=0.1)


async def test_a_full_batch_waits_for_nobody(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model, config=queue(debounceMs=30_000, cap=2)) as gateway:
        await send(gateway, "a", "b", "c")
        await ends(gateway, "a", "b", "c")

    assert model.at[1] - model.at[0] == pytest.approx(10, abs=0.1)


@pytest.mark.spec("B1")
async def test_the_moment_is_kept_through_a_restart(folder: Path) -> None:
    config = queue(debounceMs=30_000)
    async with open_gateway(folder, Slow(), config=config) as gateway:
        await send(gateway, "a", "b")
        await anyio.sleep(11)
        began = anyio.current_time() - 11
        left = crashed_copy(folder)

    model = Slow()
    async with open_gateway(left, model, config=config) as gateway:
        await ends(gateway, "b")

    assert model.asked == [["b"]]
    assert model.at[0] - began == pytest.approx(30, abs=0.5)


# ── caps ───────────────────────────────────────────────────────────────────────────────────────


async def overflow(folder: Path, drop: str) -> tuple[Slow, list[Run], list[str], int]:
    model = Slow()
    async with open_gateway(folder, model, config=queue(cap=2, drop=drop)) as gateway:
        await send(gateway, "a", "b", "c", "d", "e")
        runs = await ends(gateway, "a", "b", "c", "d", "e")
        transcript = await said(gateway, runs[0])
        everything = await gateway.ledger.list_entries(runs[0].session_id, limit=200)
    return model, runs, transcript, sum(entry.type == "note" for entry in everything)


async def test_too_many_are_summarised_and_all_get_the_answer(tmp_path: Path) -> None:
    model, runs, transcript, notes = await overflow(tmp_path, "summarize")

    summary, *whole = model.asked[1]
    assert whole == ["d", "e"]
    assert summary.splitlines()[0].startswith("[Queue overflow: more than 2 messages")
    assert summary.splitlines()[1:] == ["- b", "- c"]
    assert [run.status for run in runs] == ["ok"] * 5
    assert [run.merged_into for run in runs] == [None, None, "b", "b", "b"]
    assert transcript == ["a", "re: a", summary, "d", "e", "re: e"]
    assert notes == 2  # whole, for people


async def test_a_long_message_is_summarised_by_its_beginning(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model, config=queue(cap=1)) as gateway:
        await send(gateway, "a", "long " * 50, "c")
        await ends(gateway, "c")

    line = model.asked[1][0].splitlines()[1]
    assert len(line) == 162
    assert line.endswith("…")


async def test_the_oldest_are_dropped_and_their_senders_told(tmp_path: Path) -> None:
    model, runs, transcript, notes = await overflow(tmp_path, "old")

    assert model.asked == [["a"], ["d", "e"]]
    assert [run.status for run in runs] == ["ok", "error", "error", "ok", "ok"]
    assert "more than 2 messages were waiting" in (runs[1].error or "")
    assert transcript == ["a", "re: a", "d", "e", "re: e"]
    assert notes == 2


async def test_whoever_follows_messages_that_are_dropped_hears_of_their_end_at_once(
    tmp_path: Path,
) -> None:
    heard: list[Any] = []
    async with open_gateway(tmp_path, Slow(), config=queue(cap=2, drop="old")) as gateway:
        gateway.feed.subscribe(heard.append, RunEnded)
        await send(gateway, "a", "b", "c", "d", "e")
        await ends(gateway, "a", "b", "c", "d", "e")

    ended = [(event.run.run_id, event.run.status) for event in heard]
    assert sorted(ended) == [("a", "ok"), ("b", "error"), ("c", "error"), ("d", "ok"), ("e", "ok")]
    assert ended[0] == ("a", "ok")


async def test_the_newest_are_dropped_and_their_senders_told(tmp_path: Path) -> None:
    model, runs, _, notes = await overflow(tmp_path, "new")

    assert model.asked == [["a"], ["b", "c"]]
    assert [run.status for run in runs] == ["ok", "ok", "ok", "error", "error"]
    assert notes == 2


# ── followup ───────────────────────────────────────────────────────────────────────────────────


async def test_followups_are_answered_one_by_one(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model, config=queue("followup")) as gateway:
        await send(gateway, "a", "b", "c")
        runs = await ends(gateway, "a", "b", "c")

    assert model.asked == [["a"], ["b"], ["c"]]
    assert [run.reply for run in runs] == ["re: a", "re: b", "re: c"]


async def test_what_queue_says_is_what_holds_for_messages_that_come_the_same_way(
    tmp_path: Path,
) -> None:
    """Also where the session is spoken with on another channel, as the main session is."""
    chat, model = MemoryChannel(settings=OPEN_TO_ALL), ScriptedProvider(lambda request: "ok")
    settings = {
        "messages": {"queue": {"byChannel": {"memory": "steer", "webchat": "interrupt"}}},
        "commands": {"ownerAllowFrom": ["memory:ana"]},
    }
    config = msgspec.convert(settings, Config)
    async with open_gateway(tmp_path, model, config=config, channels=[chat]) as gateway:
        by_chat = [await chat.say("ana", text) for text in ("hi", "/queue")]
        by_page = [(await say(gateway, "main", text, text)).run_id for text in ("ho", "/queue")]
        found = [await gateway.run_store.wait(each) for each in (*by_chat, *by_page)]

    said, told, typed, shown = [run for run in found if run is not None]
    assert said.plan.queue is not None
    assert typed.plan.queue is not None
    assert (said.plan.queue.mode, typed.plan.queue.mode) == ("steer", "interrupt")
    assert (told.reply or "").startswith("Now: steer, ")
    assert (shown.reply or "").startswith("Now: interrupt, ")


async def test_a_channel_may_have_its_own_mode_and_a_session_too(tmp_path: Path) -> None:
    chat = MemoryChannel("memory", settings=OPEN_TO_ALL)
    model = Slow()
    config = queue("followup", byChannel={"memory": "collect"})
    async with open_gateway(tmp_path, model, config=config, channels=[chat]) as gateway:
        ids = [await chat.say("ana", text) for text in ("a", "b", "c")]
        await ends(gateway, *ids)
        patched = await call(gateway, "sessions.patch", key="main", queueMode="followup")
        ids = [await chat.say("ana", text) for text in ("d", "e", "f")]
        await ends(gateway, *ids)
        with pytest.raises(Exception, match=r"use steer\|followup\|collect"):
            await call(gateway, "sessions.patch", key="main", queueMode="backlog")

    assert patched["entry"]["queueMode"] == "followup"
    assert model.asked == [["a"], ["b", "c"], ["d"], ["e"], ["f"]]


async def test_a_session_may_have_its_own_pause_cap_and_drop(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model) as gateway:
        await send(gateway, "a", "b")
        first = await ends(gateway, "a", "b")
        await say(gateway, "main", "/queue debounce:30s cap:2 drop:new", "q1")
        await anyio.wait_all_tasks_blocked()  # the session is idle: the next one begins at once
        await send(gateway, "c", "d", "e", "f")
        second = await ends(gateway, "c", "d", "e", "f")
        await anyio.wait_all_tasks_blocked()
        await send(gateway, "g", "h")
        third = await ends(gateway, "g", "h")
        await say(gateway, "main", "/queue default", "q2")
        (row,) = (await call(gateway, "sessions.list"))["sessions"]

    waits = [(b.started_at or 0) - b.created_at for b in (first[1], third[1])]
    assert [wait // 1000 for wait in waits] == [10, 30]
    assert model.asked == [["a"], ["b"], ["c"], ["d", "e"], ["g"], ["h"]]
    assert [run.status for run in second] == ["ok", "ok", "ok", "error"]
    assert not [name for name in row if name.startswith("queue")]


# ── steer ──────────────────────────────────────────────────────────────────────────────────────


class Working(ScriptedProvider):
    """Calls a tool once for each run that it begins, then answers; a turn takes ten seconds."""

    def __init__(self) -> None:
        super().__init__(self._act, delay_s=10)
        self.shown: list[list[str]] = []
        self._calls = 0

    def _act(self, request: ModelRequest) -> list[Text | ToolUse]:
        last = request.turns[-1]
        self.shown.append(message_texts(last))
        if last.results:  # type: ignore[union-attr]
            return [Text(f"done, {', '.join(self.shown[-1]) or 'alone'}")]
        self._calls += 1
        return [ToolUse(f"c{self._calls}", "count", {})]


async def test_a_message_steers_the_run_under_way_between_two_turns(tmp_path: Path) -> None:
    model = Working()
    async with open_gateway(
        tmp_path, model, config=queue("steer"), tools=[Counting("count")]
    ) as gateway:
        await send(gateway, "a", "b", "c")
        runs = await ends(gateway, "a", "b", "c")
        transcript = await said(gateway, runs[0])

    assert model.shown == [["a"], ["b", "c"]]
    assert [run.merged_into for run in runs] == [None, "a", "a"]
    assert [run.reply for run in runs] == ["done, b, c"] * 3
    assert transcript[0] == "a"
    assert transcript[2:] == ["count 1", "b", "c", "done, b, c"]


async def test_what_comes_after_the_last_turn_has_begun_becomes_a_followup(tmp_path: Path) -> None:
    model = Working()
    async with open_gateway(
        tmp_path, model, config=queue("queue"), tools=[Counting("count")]
    ) as gateway:
        await send(gateway, "a")
        await anyio.sleep(15)
        await send(gateway, "b")
        runs = await ends(gateway, "a", "b")

    assert model.shown == [["a"], [], ["b"], []]
    assert [run.reply for run in runs] == ["done, alone"] * 2
    assert runs[1].merged_into is None


async def test_a_message_does_not_steer_what_answers_somebody_else(tmp_path: Path) -> None:
    model = Working()
    async with open_gateway(
        tmp_path, model, config=queue("steer"), tools=[Counting("count")]
    ) as gateway:
        agent = (await submit(gateway, MAIN, "an agent's")).run_id
        await send(gateway, "b")
        await ends(gateway, agent, "b")

    assert model.shown == [["an agent's"], [], ["b"], []]


async def test_steer_backlog_steers_and_gives_the_message_its_own_turn(tmp_path: Path) -> None:
    model = Working()
    config = queue("steer-backlog")
    async with open_gateway(tmp_path, model, config=config, tools=[Counting("count")]) as gateway:
        await send(gateway, "a", "b")
        runs = await ends(gateway, "a", "b")
        transcript = await said(gateway, runs[0])

    assert model.shown[:2] == [["a"], ["b"]]
    assert len(model.shown) == 4
    assert "say what is left to say to it: b]" in model.shown[2][0]
    assert transcript.count("b") == 1
    assert [run.reply for run in runs] == ["done, b", "done, alone"]


# ── interrupt ──────────────────────────────────────────────────────────────────────────────────


async def test_the_newest_message_interrupts_the_run_under_way(tmp_path: Path) -> None:
    model = Slow()
    async with open_gateway(tmp_path, model, config=queue("interrupt")) as gateway:
        await send(gateway, "a")
        await anyio.sleep(3)
        await send(gateway, "b")
        runs = await ends(gateway, "a", "b")
        transcript = await said(gateway, runs[0])

    assert [(run.status, run.reply) for run in runs] == [("aborted", "Well, "), ("ok", "re: b")]
    assert runs[0].error == "interrupted by a newer message"
    assert transcript == ["a", "Well, ", "b", "re: b"]
    assert model.at[1] - model.at[0] == pytest.approx(3, abs=0.1)  # nothing is waited for


async def test_a_message_that_is_sent_again_does_not_interrupt_its_own_run(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Slow(), config=queue("interrupt")) as gateway:
        await send(gateway, "a")
        await anyio.sleep(3)
        await send(gateway, "a")
        (run,) = await ends(gateway, "a")

    assert (run.status, run.reply) == ("ok", "re: a")


async def test_a_person_does_not_interrupt_what_answers_somebody_else(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, Slow(), config=queue("interrupt")) as gateway:
        agent = (await submit(gateway, MAIN, "an agent's")).run_id
        await send(gateway, "b", "c")
        runs = await ends(gateway, agent, "b", "c")

    assert [(run.status, run.reply) for run in runs] == [
        ("ok", "re: an agent's"), ("ok", "re: c"), ("ok", "re: c"),
    ]  # fmt: skip


@pytest.mark.spec("B1")
async def test_an_interruption_that_a_crash_cut_short_happens_after_the_restart(
    folder: Path,
) -> None:
    left: list[Path] = []

    def crash(event: FeedEvent) -> None:
        if isinstance(event, RunAccepted) and event.run_id == "b":
            left.append(crashed_copy(folder))  # accepted, and nobody was stopped yet

    async with open_gateway(folder, Slow(), config=queue("interrupt")) as gateway:
        gateway.feed.subscribe(crash)
        await send(gateway, "a")
        await anyio.sleep(3)
        await send(gateway, "b")

    model = Slow()
    async with open_gateway(left[0], model, config=queue("interrupt")) as gateway:
        runs = await ends(gateway, "a", "b")

    assert [run.status for run in runs] == ["aborted", "ok"]
    assert runs[0].error == "interrupted by a newer message"
    assert model.asked == [["a", "b"]]  # the first was not asked for again


# ── crashes ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B1")
@pytest.mark.parametrize("seconds", [1, 10.5, 12, 19.9, 21.5])
async def test_after_a_crash_at_any_step_what_was_collected_stays_together(
    folder: Path, seconds: float
) -> None:
    chat = MemoryChannel("memory", settings=OPEN_TO_ALL)
    async with open_gateway(folder, Slow(), channels=[chat]) as gateway:
        ids = [await chat.say("ana", text) for text in ("a", "b", "c")]
        await anyio.sleep(seconds)
        left = crashed_copy(folder)

    model, again = Slow(), MemoryChannel("memory", settings=OPEN_TO_ALL)
    async with open_gateway(left, model, channels=[again]) as gateway:
        runs = await ends(gateway, *ids)
        await anyio.sleep(60)
        transcript = await said(gateway, runs[0])

    assert [run.reply for run in runs] == ["re: a", "re: c", "re: c"]
    assert transcript == ["a", "re: a", "b", "c", "re: c"]
    delivered = [text for _, text in (*chat.sent, *again.sent)]
    assert sorted(set(delivered)) == ["re: a", "re: c"]


@pytest.mark.spec("B1", "M3")
@pytest.mark.parametrize("seconds", [5, 10.5, 19.9])
@pytest.mark.parametrize("mode", ["steer", "steer-backlog"])
async def test_after_a_crash_a_steering_message_is_there_once(
    folder: Path, seconds: float, mode: str
) -> None:
    async with open_gateway(
        folder, Working(), config=queue(mode), tools=[Counting("count")]
    ) as gateway:
        await send(gateway, "a", "b")
        await anyio.sleep(seconds)
        left = crashed_copy(folder)

    model = Working()
    async with open_gateway(left, model, config=queue(mode), tools=[Counting("count")]) as gateway:
        runs = await ends(gateway, "a", "b")
        transcript = await said(gateway, runs[0])

    assert [run.status for run in runs] == ["ok", "ok"]
    assert transcript.count("b") == 1


@pytest.mark.spec("B1")
async def test_a_batch_that_kills_the_process_again_and_again_is_given_up_as_a_whole(
    folder: Path,
) -> None:
    async with open_gateway(folder, Slow()) as gateway:
        await send(gateway, "a", "b", "c")
        await anyio.sleep(12)
        left = crashed_copy(folder, "1")
    for number in ("2", "3"):
        async with open_gateway(left, Slow(1000)):
            await anyio.sleep(1)
            left = crashed_copy(left, number)
    async with open_gateway(left, Slow()) as gateway:
        runs = await ends(gateway, "b", "c")
        after = await call(gateway, "chat.send", sessionKey="main", message="d", idempotencyKey="d")
        (last,) = await ends(gateway, "d")

    assert [run.status for run in runs] == ["error", "error"]
    assert "given up" in (runs[1].error or "")
    assert (after["status"], last.reply) == ("started", "re: d")


@pytest.mark.spec("B1")
async def test_a_batch_goes_back_and_comes_again_when_the_gateway_closes(folder: Path) -> None:
    async with open_gateway(folder, Slow()) as gateway:
        await send(gateway, "a", "b", "c")
        await anyio.sleep(12)

    model = Slow()
    async with open_gateway(folder, model) as gateway:
        runs = await ends(gateway, "b", "c")
        messages = await gateway.ledger.list_entries(runs[0].session_id, limit=20)

    assert model.asked == [["b", "c"]]
    assert [run.reply for run in runs] == ["re: c", "re: c"]
    people = [e.message.content for e in messages if isinstance(e.message, UserMessage)]
    assert people == ["a", "b", "c"]
