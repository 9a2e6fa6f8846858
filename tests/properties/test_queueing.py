"""Whatever comes when, in whatever mode: every message stands in the transcript once and in order,
every run has one true end, and every chat hears each answer once."""

import tempfile
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage
from crossclaw.domain.queueing import Queueing, next_batch
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call
from tests.flows.tools import Counting
from tests.proof.size import examples

MODES = ("collect", "followup", "steer", "steer-backlog", "interrupt")


class Arrival(NamedTuple):
    who: str
    mode: str
    pause: int
    """Seconds until the next one comes."""


def _plans(modes: tuple[str, ...]) -> st.SearchStrategy[list[Arrival]]:
    who, pause = st.sampled_from(["ana", "ana", "ben"]), st.sampled_from([0, 0, 0, 1, 4, 6, 12])
    return st.lists(st.builds(Arrival, who, st.sampled_from(modes), pause), min_size=3, max_size=10)


arrivals = st.one_of([*(_plans((mode,)) for mode in MODES), _plans(MODES)])


class Working:
    """Uses a tool now and then; every turn takes five seconds."""

    name = "working"

    def __init__(self, life: int) -> None:
        self._life = life
        self._calls = 0

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self._calls += 1
        number = self._calls
        await anyio.sleep(5)
        if not getattr(request.turns[-1], "results", ()) and number % 3:
            call = ToolUse(f"c{number}", "count", {})
            return AssistantMessage([call], stop_reason="tool_use")
        return AssistantMessage([Text(f"answer {self._life}.{number}")], stop_reason="end_turn")

    async def close(self) -> None:
        pass


class Seen(NamedTuple):
    runs: list[Run]
    entries: list[Entry]
    heard: list[str]


async def live(plan: list[Arrival], crash_after: int) -> Seen:
    """Two lives: the second goes on from what the first one left at that moment."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "gateway"
        home.mkdir()
        first, second, ids = (
            MemoryChannel("memory", settings=OPEN_TO_ALL),
            MemoryChannel("memory", settings=OPEN_TO_ALL),
            list[str](),
        )
        async with _open(home, first, 1) as gateway:
            for number, arrival in enumerate(plan[:crash_after]):
                ids.append(await _arrive(gateway, first, number, arrival))
            left, heard = crashed_copy(home), list(first.sent)
        async with _open(left, second, 2) as gateway:
            for number, arrival in enumerate(plan[crash_after:], crash_after):
                ids.append(await _arrive(gateway, second, number, arrival))
            return await _look(gateway, ids, heard, second)


def _open(home: Path, chat: MemoryChannel, life: int) -> AbstractAsyncContextManager[Gateway]:
    config = msgspec.convert({"messages": {"queue": {"cap": 50}}}, Config)
    tools = [Counting("count")]
    return open_gateway(home, Working(life), config=config, channels=[chat], tools=tools)


async def _arrive(gateway: Gateway, chat: MemoryChannel, number: int, arrival: Arrival) -> str:
    await call(gateway, "sessions.patch", key="main", queueMode=arrival.mode)
    run_id = await chat.say(arrival.who, f"m{number}", message_id=str(number))
    await anyio.sleep(arrival.pause)
    return run_id


async def _look(
    gateway: Gateway, ids: list[str], heard: list[tuple[str, str]], chat: MemoryChannel
) -> Seen:
    runs = [await gateway.run_store.wait(run_id, timeout_s=3600) for run_id in ids]
    await anyio.sleep(60)
    found = [run for run in runs if run is not None and run.ended]
    entries = await gateway.ledger.list_entries(found[0].session_id, limit=500)
    return Seen(found, entries, [text for _, text in (*heard, *chat.sent)])


@pytest.mark.spec("B1", "M2")
@settings(max_examples=examples(10, 15), deadline=None)
@example([Arrival(who, "collect", 0) for who in ("ana", "ana", "ben", "ana")], 4)
@given(arrivals, st.integers(0, 10))
def test_nothing_is_lost_doubled_or_overtaken(plan: list[Arrival], crash_after: int) -> None:
    seen: Seen = anyio.run(
        live,
        plan,
        crash_after,
        backend="trio",
        backend_options={"clock": MockClock(autojump_threshold=0)},
    )

    assert len(seen.runs) == len(plan)
    words = [e.message.content for e in seen.entries if isinstance(e.message, UserMessage)]
    assert [text for text in words if not text.startswith("[")] == [  # type: ignore[union-attr]
        f"m{number}" for number in range(len(plan))
    ]
    _ends_are_true(seen, interrupted="interrupt" in {arrival.mode for arrival in plan})


def _ends_are_true(seen: Seen, *, interrupted: bool) -> None:
    by_id = {run.run_id: run for run in seen.runs}
    assert {run.status for run in seen.runs} <= ({"ok", "aborted"} if interrupted else {"ok"})
    for run in seen.runs:
        if run.merged_into is not None:
            carrier = by_id[run.merged_into]
            assert carrier.merged_into is None
            assert carrier.plan.reply_to == run.plan.reply_to
            assert (carrier.status, carrier.reply) == (run.status, run.reply)
    answers = [run.reply for run in seen.runs if run.merged_into is None and run.status == "ok"]
    said = [e.message.text for e in seen.entries if isinstance(e.message, AssistantMessage)]
    assert sorted(filter(None, said)) == sorted(filter(None, answers))
    assert sorted(seen.heard) == sorted(filter(None, answers))


@given(
    st.integers(1, 60),
    st.builds(
        Queueing,
        mode=st.sampled_from([*MODES, "backlog"]),
        cap=st.integers(1, 30),
        drop=st.sampled_from(["old", "new", "summarize"]),
    ),
)
def test_a_batch_takes_something_and_never_more_than_the_cap(
    waiting: int, settings: Queueing
) -> None:
    batch = next_batch(waiting, settings)

    named = [*batch.dropped, *batch.summarised, *batch.taken]
    assert 1 <= len(batch.taken) <= settings.cap
    assert len(named) == len(set(named))
    assert len(batch.dropped) + len(batch.summarised) == max(0, waiting - settings.cap)
    assert sorted(batch.taken) == list(batch.taken)
