"""After a kill -9 at any step: nothing accepted is lost, nothing done is done again."""

import itertools
from math import inf
from pathlib import Path

import anyio
import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, ToolResultMessage, ToolUse, UserMessage
from crossclaw.domain.suspects import SUSPECT_AFTER
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway, submit
from tests.flows.crashing import crashed_copy
from tests.flows.test_runs_keep_their_order import Recording
from tests.flows.tools import Counting, Hanging

ANA = SessionKey.named("main", "ana")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gateway").mkdir()
    return tmp_path / "gateway"


@pytest.mark.spec("B1")
async def test_messages_that_were_accepted_are_answered_after_the_restart(folder: Path) -> None:
    async with open_gateway(folder, Recording(1000.0)) as gateway:
        ids = [(await submit(gateway, ANA, f"m{n}")).run_id for n in range(3)]
        await anyio.sleep(1)
        left = crashed_copy(folder)

    model = Recording()
    async with open_gateway(left, model) as gateway:
        runs = [await gateway.run_store.wait(run_id) for run_id in ids]
        entries = await gateway.ledger.list_entries(runs[0].session_id, limit=20)  # type: ignore[union-attr]

    assert [run.reply for run in runs if run] == ["re: m0", "re: m1", "re: m2"]
    said = [entry.message.content for entry in entries if isinstance(entry.message, UserMessage)]
    assert said == ["m0", "m1", "m2"]


@pytest.mark.spec("B1", "M3")
async def test_a_run_goes_on_from_its_last_stored_step(folder: Path) -> None:
    hang = Hanging()
    first = ScriptedProvider([[ToolUse("c1", "count", {})], [ToolUse("c2", "hang", {})]])
    async with open_gateway(folder, first, tools=[Counting("count", "effects"), hang]) as gateway:
        run_id = (await submit(gateway, ANA, "work")).run_id
        await hang.begun.wait()
        left = crashed_copy(folder)

    counter, hang = Counting("count", "effects"), Hanging()
    second = ScriptedProvider(["all done"])
    async with open_gateway(left, second, tools=[counter, hang]) as gateway:
        run = await gateway.run_store.wait(run_id)
        entries = await gateway.ledger.list_entries(run.session_id, limit=20)  # type: ignore[union-attr]

    assert run is not None
    assert (run.status, run.reply) == ("ok", "all done")
    assert counter.calls == 0  # its result was stored
    assert not hang.begun.is_set()  # it had begun: nobody may run it again
    results = [e.message for e in entries if isinstance(e.message, ToolResultMessage)]
    assert [(r.tool_use_id, r.is_error) for r in results] == [("c1", False), ("c2", True)]
    assert "nobody knows" in results[1].content
    assert len(second.seen) == 1


async def test_a_pure_tool_that_was_cut_off_runs_again(folder: Path) -> None:
    cut = anyio.Event()

    def hang() -> object:
        cut.set()
        return anyio.sleep_forever()

    model = ScriptedProvider([[ToolUse("c1", "look", {})]])
    async with open_gateway(folder, model, tools=[Counting("look", before=hang)]) as gateway:
        run_id = (await submit(gateway, ANA, "look")).run_id
        await cut.wait()
        left = crashed_copy(folder)

    look = Counting("look")
    async with open_gateway(left, ScriptedProvider(["seen"]), tools=[look]) as gateway:
        run = await gateway.run_store.wait(run_id)

    assert run is not None
    assert (run.reply, look.calls) == ("seen", 1)


@pytest.mark.spec("B1")
async def test_a_message_that_kills_the_process_is_given_up_visibly_and_the_next_one_runs(
    folder: Path,
) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(folder, Recording(1000.0), channels=[chat]) as gateway:
        poison = await chat.say("ana", "poison")
        after = await chat.say("ana", "innocent")
        await anyio.sleep(1)
        left = crashed_copy(folder, "crash 1")
    for attempt in range(2, SUSPECT_AFTER + 2):
        async with open_gateway(left, Recording(1000.0)) as gateway:
            await anyio.sleep(1)
            left = crashed_copy(left, f"crash {attempt}")

    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(left, Recording(), channels=[chat]) as gateway:
        given_up = await gateway.run_store.wait(poison)
        fine = await gateway.run_store.wait(after)
        await chat.wait_sent(2)

    assert given_up is not None
    assert fine is not None
    assert (given_up.status, fine.status) == ("error", "ok")
    assert "given up after 3 attempts" in (given_up.error or "")
    assert chat.sent == [
        ("ana", f"⚠️ No answer this time: {given_up.error}"),
        ("ana", "re: innocent"),
    ]


async def test_progress_between_crashes_is_no_reason_to_give_up(folder: Path) -> None:
    numbers = itertools.count()
    left, run_id = folder, ""
    for crash in range(SUSPECT_AFTER + 4):
        hang = Hanging()
        steps = [
            [ToolUse(f"c{next(numbers)}", "count", {})],
            [ToolUse(f"c{next(numbers)}", "hang", {})],
        ]
        async with open_gateway(
            left, ScriptedProvider(steps), tools=[Counting("count"), hang]
        ) as gateway:
            if not run_id:
                run_id = (await submit(gateway, ANA, "long work")).run_id
            await hang.begun.wait()
            left = crashed_copy(left, f"crash {crash}")

    async with open_gateway(left, ScriptedProvider(["at last"])) as gateway:
        run = await gateway.run_store.wait(run_id)

    assert run is not None
    assert run.reply == "at last"


@pytest.mark.spec("B1")
async def test_a_gateway_that_is_stopped_properly_counts_no_attempt(folder: Path) -> None:
    run_id = ""
    for _ in range(SUSPECT_AFTER + 3):
        async with open_gateway(folder, Recording(1000.0)) as gateway:
            run_id = run_id or (await submit(gateway, ANA, "patience")).run_id
            await anyio.sleep(1)

    async with open_gateway(folder, Recording()) as gateway:
        run = await gateway.run_store.wait(run_id)

    assert run is not None
    assert run.reply == "re: patience"


@pytest.mark.spec("B1")
async def test_a_reply_is_stored_with_the_end_of_its_run_at_every_moment(folder: Path) -> None:
    """Whenever the power goes: a run that has ended has its reply in the transcript and in the
    outbox; one that has not has neither."""
    chat = MemoryChannel(knows_key_s=inf, settings=OPEN_TO_ALL)
    copies: list[Path] = []
    async with open_gateway(folder, Recording(), channels=[chat]) as gateway:
        run_id = await chat.say("ana", "hi")

        def snapshot(_: object) -> None:
            copies.append(crashed_copy(folder, f"moment {len(copies)}"))

        gateway.feed.subscribe(snapshot)
        await chat.wait_sent()

    assert len(copies) >= 3
    for copy in copies:
        later = MemoryChannel(knows_key_s=inf, settings=OPEN_TO_ALL)
        async with open_gateway(copy, Recording(), channels=[later]) as gateway:
            run = await gateway.run_store.wait(run_id)
            await later.wait_sent()
            entries = await gateway.ledger.list_entries(run.session_id, limit=9)  # type: ignore[union-attr]
        assert [type(entry.message) for entry in entries] == [UserMessage, AssistantMessage]
        assert later.sent == [("ana", "re: hi")]


@pytest.mark.spec("B1")
async def test_a_crash_loop_is_blamed_on_one_run_at_a_time(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Three runs were under way at every crash. Only the one that was the first to begin after the second
    is given up; the others were not involved and are answered."""
    keys = [SessionKey.named("main", name) for name in ("ana", "ben", "cho")]
    left, ids = folder, list[str]()
    for crash in range(SUSPECT_AFTER + 1):
        async with open_gateway(left, Recording(1000.0)) as gateway:
            if not ids:
                ids = [(await submit(gateway, key, "hi")).run_id for key in keys]
            await anyio.sleep(1)
            left = crashed_copy(left, f"crash {crash}")

    async with open_gateway(left, Recording()) as gateway:
        runs = [await gateway.run_store.wait(run_id) for run_id in ids]
        given_up = next(run for run in runs if run and run.status == "error")
        entries = await gateway.ledger.list_entries(given_up.session_id, limit=9)

    assert sorted(run.status for run in runs if run) == ["error", "ok", "ok"]
    last = entries[-1].message
    assert isinstance(last, AssistantMessage)
    assert "given up" in (last.error or "")
    assert "3 sessions had a run under way when the gateway ended" in caplog.text
    assert f"run {given_up.run_id} is given up" in caplog.text
