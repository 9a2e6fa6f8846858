"""Small parts of the runs room: feed, slots, sweep; and the history's bounds."""

from pathlib import Path

import anyio
import pytest

from crossclaw.agent import history as bounds
from crossclaw.agent.history import History
from crossclaw.agent.toolbox import RESULT_CHARS_MAX, _bounded
from crossclaw.domain.events import EntryAppended, Event, RunAccepted
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import ArmTimer, Inject, TakeTimer, Timer
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.runs.feed import Feed
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import Sweep
from crossclaw.testing import ScriptedProvider, VirtualClock, open_house
from tests.ledger.making import ANA, BEN, says, session, submit

EVENT = RunAccepted("r", SessionKey.main("main"))


def test_a_listener_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    feed, heard = Feed(), list[Event]()

    def fails(event: Event) -> None:
        raise RuntimeError("not today")

    feed.subscribe(fails)
    end = feed.subscribe(heard.append)
    feed.publish(EVENT)
    end()
    feed.publish(EVENT)

    assert heard == [EVENT]
    assert "a listener failed on RunAccepted" in caplog.text


async def test_a_slot_given_back_is_taken_again_by_the_last_of_several_waits() -> None:
    slots = Slots(1)
    first, second = anyio.Event(), anyio.Event()

    async def wait_for(event: anyio.Event) -> None:
        async with slots.given_back("ana"):
            await event.wait()

    async with slots.hold("ana"), anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for, first)
        tasks.start_soon(wait_for, second)
        await anyio.wait_all_tasks_blocked()
        assert slots.taken == 0
        first.set()
        await anyio.wait_all_tasks_blocked()
        assert slots.taken == 0
        async with slots.hold("ben"):
            second.set()
            await anyio.wait_all_tasks_blocked()
            assert slots.taken == 1
    assert slots.taken == 0


async def test_a_holder_that_is_stopped_while_it_waits_leaves_no_slot_behind() -> None:
    slots = Slots(1)
    with anyio.move_on_after(1):
        async with slots.hold("ana"), slots.given_back("ana"):
            await anyio.sleep_forever()

    async with slots.hold("ben"):
        assert slots.taken == 1


async def test_the_sweep_finds_work_that_no_hint_told_of(tmp_path: Path) -> None:
    async with open_house(tmp_path, ScriptedProvider(["found"])) as house:
        await submit(house.ledger, "quietly", ANA)  # straight into the ledger, past the book
        run = await house.book.wait("quietly", timeout_s=60)

    assert run is not None
    assert run.reply == "found"


async def test_a_timer_fires_when_it_is_due_and_once(tmp_path: Path) -> None:
    fired: list[tuple[str, int]] = []
    clock = VirtualClock()

    async def fire(timer: Timer) -> None:
        if await house.ledger.do(TakeTimer(timer_key=timer.timer_key)):
            fired.append((timer.timer_key, clock.now_ms()))

    async with open_house(
        tmp_path, ScriptedProvider([]), timers={"bell": fire}, clock=clock
    ) as house:
        due = clock.now_ms() + 90_000
        await house.ledger.do(
            ArmTimer(timer=Timer(timer_key="t", agent_id="main", kind="bell", due_at=due))
        )
        await anyio.sleep(300)

    ((key, at),) = fired
    assert key == "t"
    assert 0 <= at - due <= 100


async def test_a_timer_that_nobody_knows_does_not_keep_the_house_busy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite", inline=True)
    await ledger.do(ArmTimer(timer=Timer(timer_key="t", agent_id="main", kind="?", due_at=0)))
    looks = 0

    async def fire(timer: Timer) -> None:
        nonlocal looks
        looks += 1

    with anyio.move_on_after(10):
        await Sweep(ledger, lambda key: None, VirtualClock()).serve(fire)
    await ledger.close()

    assert 1 <= looks <= 201


async def test_history_reads_only_the_tail_that_a_model_could_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SESSION_BYTES_MAX", 3_000)
    ledger = SqliteLedger(tmp_path / "l.sqlite", inline=True)
    history = History(ledger, held_bytes_max=4_000)
    await ledger.commit(session(ANA), session(BEN))
    for number in range(30):
        await ledger.do(Inject(key=ANA, entries=[says(f"{number} " + "x" * 200)], at=1))

    tail = await history.read("id-of-ana")
    await ledger.do(Inject(key=ANA, entries=[says("newest")], at=2))
    again = await history.read("id-of-ana")
    await ledger.do(Inject(key=BEN, entries=[says("y" * 2_500)], at=2))
    await history.read("id-of-ben")

    assert 1 < len(tail) < 15
    assert [entry.seq for entry in again][-2:] == [30, 31]
    assert sum(entry.size for entry in again) <= 3_000
    assert list(history._held) == ["id-of-ben"]  # both together are over the limit: the older left
    await ledger.close()


async def test_history_hears_of_entries_and_reads_what_it_did_not_hear_of(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite", inline=True)
    history = History(ledger)
    await ledger.do(session(ANA))

    async def store(text: str, *, heard: bool) -> None:
        (entry,) = await ledger.do(Inject(key=ANA, entries=[says(text)], at=1))
        if heard:
            history.hear(EntryAppended(ANA, entry))

    await store("first", heard=True)  # nothing of this session is held yet
    before = await history.read("id-of-ana")
    await store("second", heard=True)
    await store("third", heard=False)
    await store("fourth", heard=True)  # does not follow what is held
    after = await history.read("id-of-ana")

    assert [entry.seq for entry in before] == [1]
    assert after == await ledger.list_entries("id-of-ana", limit=9)
    assert history._held_bytes == sum(entry.size for entry in after)
    await ledger.close()


async def test_a_single_huge_message_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SESSION_BYTES_MAX", 100)
    ledger = SqliteLedger(tmp_path / "l.sqlite", inline=True)
    await ledger.do(session(ANA))
    await ledger.do(Inject(key=ANA, entries=[says("small"), says("x" * 5_000)], at=1))

    assert [entry.seq for entry in await History(ledger).read("id-of-ana")] == [2]
    await ledger.close()


def test_a_result_over_the_limit_says_how_much_was_left_out() -> None:
    assert _bounded("short") == "short"
    assert _bounded({"a": 1}) == {"a": 1}
    assert _bounded("x" * (RESULT_CHARS_MAX + 7)).endswith("[7 more characters were left out]")
