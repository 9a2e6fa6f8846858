"""The ledger's writing: turns of five steps through the real writer, alone and in groups.

A turn is what a run with one tool call stores: its message accepted, claimed, the model's call, the
tool's result, the last words with the end. Each step is durable before the next begins.
"""

from functools import partial
from typing import Any

import anyio

from bench import reference
from bench.stores import Stores, answer
from bench.work import Row, Spent, Stopwatch, Work
from crossclaw.domain.ids import RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserMessage,
)
from crossclaw.domain.runs import NewRun, Outcome, Run
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.ledger.operations import Append, Claim, EndRun, EnsureSession, Op, Submit
from crossclaw.ledger.sqlite.ledger import SqliteLedger

TURNS = 6_000  # in all, shared by the sessions: two or three seconds
TURNS_ALONE = 300

IDS = RandomIds()
QUESTION = "What does the calendar say about tomorrow, and is there time for a walk?"
REPLY = "Tomorrow is free from two o'clock on; a walk of an hour fits before the rain."
CALL = AssistantMessage(
    [ToolUse("call-1", "calendar", {"day": "tomorrow"})],
    usage=Usage(900, 30),
    stop_reason="tool_use",
)
RESULT = ToolResultMessage(
    "call-1", "calendar", "09:00 dentist, 11:00 call, 13:00 lunch, then free"
)


class Caller:
    """A caller that takes one step after the other, each timed."""

    def __init__(self, ledger: SqliteLedger, watch: Stopwatch, number: int) -> None:
        self._ledger = ledger
        self._watch = watch
        self._key = SessionKey.named("main", f"bench{number}")
        self._session = NewSession(key=self._key, session_id=IDS.new())

    async def turns(self, count: int) -> None:
        for turn in range(count):
            await self._turn(turn)

    async def _turn(self, at: int) -> None:
        new = NewRun(run_id=IDS.new(), key=self._key, kind="chat", message=UserMessage(QUESTION))
        await self._step(EnsureSession(new=self._session, at=at), Submit(new=new, at=at))
        (claimed,) = await self._step(Claim(key=self._key, owner=self._ledger.owner, at=at))
        run: Run = claimed.run
        for message in (CALL, RESULT):
            await self._step(_append(run, message, at))
        end = EndRun(fence=run.fence, outcome=Outcome("ok", reply=REPLY), at=at)
        await self._step(_append(run, answer(REPLY), at), end)

    async def _step(self, *ops: Op[Any]) -> list[Any]:
        with self._watch.piece():
            return await self._ledger.commit(*ops)


def _append(run: Run, message: Message, at: int) -> Append:
    entry = NewEntry(entry_id=IDS.short(), message=message)
    return Append(fence=run.fence, entries=[entry], at=at)


async def _turns(stores: Stores, sessions: int, turns: int) -> Spent:
    ledger = SqliteLedger(stores.fresh().ledger_path)
    await Caller(ledger, Stopwatch(), 0).turns(5)  # statements get prepared
    watch = Stopwatch()
    async with anyio.create_task_group() as tasks:
        for number in range(sessions):
            tasks.start_soon(Caller(ledger, watch, number).turns, turns // sessions)
    spent = watch.stop(turns // sessions * sessions)
    await ledger.close()
    return spent


def turns(sessions: int, count: int, stores: Stores) -> Spent:
    return anyio.run(_turns, stores, sessions, count)


WORKS = (
    Work(
        partial(turns, 1, TURNS_ALONE),
        reference.COMMIT,
        (
            Row("ledger: one step, alone", "median", "ms", bar=1.0),
            Row("ledger: one step, alone, p95", "p95", "ms"),
            Row("ledger: five-step turns, 1 session", "rate", "turns/s"),
        ),
    ),
    Work(
        partial(turns, 64, TURNS),
        reference.GROUPED,
        (
            Row("ledger: five-step turns, 64 sessions", "rate", "turns/s", bar=2_000),
            Row("ledger: one step among 64, p95", "p95", "ms"),
        ),
    ),
    Work(
        partial(turns, 1_000, TURNS),
        reference.GROUPED,
        (
            Row("ledger: five-step turns, 1,000 sessions", "rate", "turns/s"),
            Row("ledger: one step among 1,000, p95", "p95", "ms"),
        ),
    ),
)
