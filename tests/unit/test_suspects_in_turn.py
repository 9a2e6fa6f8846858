"""Suspects begin group by group: the next one when all of the last were heard of, or after a while."""

import anyio
import anyio.lowlevel
import msgspec
import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.events import EntryAppended, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.domain.runs import Cause, Run, RunPlan
from crossclaw.domain.sessions import Entry
from crossclaw.runs.suspects import Suspects

ANA, BEN, CHO = (SessionKey.named("main", name) for name in ("ana", "ben", "cho"))


@pytest.mark.spec("B1")
async def test_a_group_that_says_nothing_is_waited_for_a_while_and_no_longer() -> None:
    suspects, began = Suspects(), anyio.current_time()
    suspects.put([[ANA, BEN], [CHO]], window_s=5)
    turns: dict[SessionKey, float] = {}

    async def wait(key: SessionKey) -> None:
        await suspects.wait_for_turn(key)
        turns[key] = anyio.current_time() - began

    assert (len(suspects), CHO in suspects) == (3, True)
    async with anyio.create_task_group() as tasks:
        for key in (ANA, BEN, CHO):
            tasks.start_soon(wait, key)
        tasks.start_soon(suspects.serve)

    assert {key: round(at) for key, at in turns.items()} == {ANA: 0, BEN: 0, CHO: 5}
    assert (len(suspects), CHO in suspects) == (0, False)


@pytest.mark.spec("B1")
async def test_the_next_group_begins_as_soon_as_all_of_the_last_have_got_on() -> None:
    suspects, began = Suspects(), anyio.current_time()
    suspects.put([[ANA, BEN], [CHO]], window_s=5)
    said = AssistantMessage([Text("I am here")])
    entry = Entry(
        session_id="s", seq=1, entry_id="e", at=1, type="message", run_id="r", message=said
    )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(suspects.serve)
        await anyio.wait_all_tasks_blocked()
        of_no_run = msgspec.structs.replace(entry, run_id=None)
        of_a_command = msgspec.structs.replace(entry, message=None)
        for key, each in ((ANA, entry), (BEN, of_no_run), (BEN, of_a_command)):
            suspects.on_event(EntryAppended(key, each))
        await anyio.wait_all_tasks_blocked()
        assert CHO in suspects, "a note is no progress of a run"
        suspects.on_event(EntryAppended(BEN, entry))
        await suspects.wait_for_turn(CHO)
        assert anyio.current_time() - began < 1
        tasks.cancel_scope.cancel()


@pytest.mark.spec("B1")
async def test_how_long_the_process_lives_is_noted_whenever_it_has_doubled() -> None:
    suspects, began = Suspects(), anyio.current_time()
    suspects.put([[ANA]], window_s=2)
    noted: list[tuple[int, int]] = []

    async def note(uptime_ms: int) -> None:
        await anyio.lowlevel.checkpoint()
        noted.append((uptime_ms, round((anyio.current_time() - began) * 1000)))

    await suspects.note_uptimes(note)

    assert [uptime_ms for uptime_ms, _ in noted] == [2_000 * 2**n for n in range(8)]
    assert all(abs(at_ms - uptime_ms) < 100 for uptime_ms, at_ms in noted)


@pytest.mark.spec("B1")
async def test_a_suspect_whose_run_has_ended_is_not_waited_for() -> None:
    """Stopped, or answered without a word: its end says that it did not take the gateway with it."""
    suspects, began = Suspects(), anyio.current_time()
    suspects.put([[ANA], [CHO]], window_s=5)
    run = Run(
        key=ANA, run_id="r", session_id="s", kind="chat", status="aborted", attempt=1, epoch=2,
        plan=RunPlan(), authority=Authority(), cause=Cause(), created_at=1, started_at=2, ended_at=3,
    )  # fmt: skip

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(suspects.serve)
        await anyio.wait_all_tasks_blocked()
        suspects.on_event(RunEnded(msgspec.structs.replace(run, started_at=None), False))
        await anyio.wait_all_tasks_blocked()
        assert CHO in suspects, "one that never began says nothing"
        suspects.on_event(RunEnded(run, False))
        await suspects.wait_for_turn(CHO)
        assert anyio.current_time() - began < 1
        tasks.cancel_scope.cancel()
