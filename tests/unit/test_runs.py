"""Small parts of the runs room: feed, slots, lanes, sweep; and the history's bounds."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from crossclaw.agent import history as bounds
from crossclaw.agent.history import History
from crossclaw.agent.toolbox import IMAGES_CHARS_MAX, IMAGES_MAX, _bounded
from crossclaw.domain.compactions import Compaction
from crossclaw.domain.errors import Busy, StoreError
from crossclaw.domain.events import EntryAppended, FeedEvent, RunAccepted, SessionChanged
from crossclaw.domain.jobs import AgentTurn, Every, Job, JobSpec, Tick, TickId
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Image, MediaSource, Text
from crossclaw.domain.runs import Outcome, Run, RunPlan
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.jobs import PutJob, TakeTick
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import (
    Append,
    ArmTimer,
    Claim,
    EndRun,
    Inject,
    Op,
    Recover,
    ReleaseRun,
    TakeTimer,
    Timer,
)
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.runs import sweep
from crossclaw.runs.feed import Feed
from crossclaw.runs.handling import Ending, PartialReply
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.roles import Roles
from crossclaw.runs.run_store import LOOK_AGAIN_S, NOTHING, FollowUps, RunStore
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import TIMERS_AT_ONCE, Fire, Sweep
from crossclaw.testing import ScriptedProvider, VirtualClock, open_gateway
from crossclaw.tools.contract import RESULT_CHARS_MAX
from tests.ledger.making import ANA, BEN, begun, claim, says, session, submit
from tests.ledger.making import run as new_run

EVENT = RunAccepted("r", SessionKey.main("main"))
CHANGED = SessionChanged(SessionKey.main("main"), "patch")


def test_a_listener_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    feed, heard = Feed(), list[FeedEvent]()

    def fails(event: FeedEvent) -> None:
        raise RuntimeError("not today")

    feed.subscribe(fails)
    end = feed.subscribe(heard.append)
    feed.publish(EVENT)
    end()
    feed.publish(EVENT)

    assert heard == [EVENT]
    assert "a listener failed on RunAccepted" in caplog.text


def test_a_listener_that_names_kinds_hears_no_others() -> None:
    feed, heard, all_heard = Feed(), list[FeedEvent](), list[FeedEvent]()
    feed.publish(EVENT)
    feed.subscribe(all_heard.append)
    end = feed.subscribe(heard.append, SessionChanged)

    feed.publish(EVENT)
    feed.publish(CHANGED)
    end()
    feed.publish(CHANGED)

    assert heard == [CHANGED]
    assert all_heard == [EVENT, CHANGED, CHANGED]


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


Follows = Callable[[Run, Outcome], Awaitable[FollowUps]]


class AllEndWell:
    """Carries out runs in no time; what follows from an end is for the test to say."""

    def __init__(self, follows: Follows) -> None:
        self._follows = follows

    async def execute(self, run: Run, words: PartialReply) -> Ending:
        return Ending(Outcome("ok", reply="done"))

    async def follow(self, run: Run, outcome: Outcome) -> FollowUps:
        return await self._follows(run, outcome)


@asynccontextmanager
async def lanes_with(
    ledger: Ledger, follows: Follows, may_claim: Callable[[SessionKey], bool] | None = None
) -> AsyncGenerator[tuple[Lanes, RunStore]]:
    """Lanes whose runs all end well, and this follows from it."""
    feed, clock = Feed(), VirtualClock()
    run_store = RunStore(ledger, feed, clock, ledger.owner)
    lanes = Lanes(run_store, Slots(), clock, may_claim=may_claim)
    async with anyio.create_task_group() as tasks:
        await tasks.start(lanes.serve, AllEndWell(follows))
        yield lanes, run_store
        tasks.cancel_scope.cancel()


class Counted(SqliteLedger):
    looks = 0

    async def has_open_run(self, key: SessionKey) -> bool:
        self.looks += 1
        assert self.looks < 9, "a lane is looked at for ever"
        return await super().has_open_run(key)


def bell(run: Run) -> FollowUps:
    timer = Timer(timer_key=run.run_id, agent_id="main", kind="bell", due_at=0)
    return FollowUps([ArmTimer(timer=timer)])


async def test_a_ledger_that_cannot_be_read_for_a_moment_ends_no_lane(tmp_path: Path) -> None:
    class Forgetful(SqliteLedger):
        reads = 0

        async def has_open_run(self, key: SessionKey) -> bool:
            self.reads += 1
            if self.reads == 1:
                raise StoreError("the ledger could not be read")
            return await super().has_open_run(key)

    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        return NOTHING

    ledger = Forgetful(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, run_store):
        for run_id in ("r1", "r2"):
            await lanes.submit(new_run(run_id, ANA), session(ANA).new)
            run = await run_store.wait(run_id, timeout_s=60)
            await anyio.sleep(10)
            assert run is not None
            assert run.status == "ok"
    await ledger.close()

    assert ledger.reads >= 2


async def test_a_run_goes_back_to_its_lane_however_often_the_store_fails_at_it(
    tmp_path: Path,
) -> None:
    class Failing(SqliteLedger):
        left = 3

        async def commit(self, *ops: Op[Any]) -> list[Any]:
            if self.left and any(isinstance(op, EndRun | ReleaseRun) for op in ops):
                self.left -= 1
                raise StoreError("the disk does not answer")
            return await super().commit(*ops)

    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        return NOTHING

    ledger = Failing(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, run_store):
        await lanes.submit(new_run("r1", ANA), session(ANA).new)
        run = await run_store.wait("r1", timeout_s=600)
    await ledger.close()

    assert ledger.left == 0
    assert run is not None
    assert run.status == "ok"


async def test_an_end_that_cannot_be_followed_up_ends_in_an_error_that_is_followed_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise an exchange, a spawn or a job would wait for it for ever."""

    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        if outcome.status == "ok":
            raise RuntimeError("nobody thought of this")
        return bell(run)

    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, run_store):
        await lanes.submit(new_run("r1", ANA), session(ANA).new)
        run = await run_store.wait("r1", timeout_s=60)
        rung = await ledger.list_timers(due_before=1, limit=9)
        entries = await ledger.list_entries("id-of-ana", limit=9)
    await ledger.close()

    assert run is not None
    assert (run.status, run.error) == ("error", "internal error at the end of the run")
    assert [timer.timer_key for timer in rung] == ["r1"]
    assert isinstance(entries[-1].message, AssistantMessage)
    assert entries[-1].message.error == run.error
    assert "nobody thought of this" in caplog.text


async def test_when_nothing_can_follow_the_run_ends_all_the_same_and_the_next_one_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        if run.run_id == "r1":
            raise RuntimeError("nobody thought of this")
        return NOTHING

    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, run_store):
        for run_id in ("r1", "r2"):
            await lanes.submit(new_run(run_id, ANA), session(ANA).new)
        first, second = [await run_store.wait(run_id, timeout_s=60) for run_id in ("r1", "r2")]
    await ledger.close()

    assert first is not None
    assert second is not None
    assert (first.status, second.status) == ("error", "ok")
    assert "what should follow from it is lost" in caplog.text


@pytest.mark.spec("B1")
async def test_when_nothing_can_follow_the_tick_of_a_job_ends_with_its_run(tmp_path: Path) -> None:
    """Also while the job is switched off, when nobody looks at it: others would wait for its place."""
    counted = list[int]()

    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        counted.append(await ledger.count_ticks_under_way())
        raise RuntimeError("nobody thought of this")

    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    spec = JobSpec(
        name="j",
        schedule=Every(every_ms=60_000),
        session_target="isolated",
        wake_mode="now",
        payload=AgentTurn(message="go"),
    )
    job = Job(
        job_id="j",
        agent_id="main",
        spec=spec,
        enabled=False,
        next_at=None,
        created_at=0,
        updated_at=0,
    )
    tick = Tick(job_id="j", at=7, status="running", run_id="r1")
    new = msgspec.structs.replace(
        new_run("r1", ANA), kind="cron", plan=RunPlan(tick=TickId("j", 7))
    )
    async with lanes_with(ledger, finished) as (lanes, run_store):
        await ledger.do(PutJob(job=job))
        taken = TakeTick(job=job, tick=tick, next_at=None, moves=False)
        await lanes.submit(new, session(ANA).new, before=[taken])
        await run_store.wait("r1", timeout_s=60)
        (settled,) = await ledger.list_ticks("j", limit=9)
        counted.append(await ledger.count_ticks_under_way())
    await ledger.close()

    assert (settled.status, settled.summary) == ("error", "internal error at the end of the run")
    assert counted == [1, 1, 0]


async def test_a_run_that_is_given_up_does_not_keep_the_gateway_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        raise RuntimeError("nobody thought of this")

    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    await submit(ledger, "r1", ANA)
    for owner in ("first", "second", "third"):
        await claim(ledger, ANA, owner)
        await ledger.do(Recover(owner="nobody", at=9))
    async with lanes_with(ledger, finished) as (_, run_store):
        run = await run_store.wait("r1", timeout_s=60)
    await ledger.close()

    assert run is not None
    assert "given up" in (run.error or "")


async def test_a_message_that_comes_while_its_lane_looks_for_more_is_taken_by_the_same_lane(
    tmp_path: Path,
) -> None:
    """A store across a network answers later: what it saw is older than the message."""

    class Slow(SqliteLedger):
        looking = anyio.Event()
        may_answer = anyio.Event()

        async def has_open_run(self, key: SessionKey) -> bool:
            found = await super().has_open_run(key)
            self.looking.set()
            await self.may_answer.wait()
            return found

    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        return NOTHING

    ledger = Slow(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, run_store):
        await lanes.submit(new_run("r1", ANA), session(ANA).new)
        await ledger.looking.wait()
        await lanes.submit(new_run("r2", ANA), session(ANA).new)
        ledger.may_answer.set()
        run = await run_store.wait("r2", timeout_s=60)
    await ledger.close()

    assert run is not None
    assert run.status == "ok"


@pytest.mark.spec("B1")
async def test_a_run_that_is_being_taken_when_the_gateway_closes_goes_back_to_its_lane(
    tmp_path: Path,
) -> None:
    class Slow(SqliteLedger):
        taken = anyio.Event()

        async def do(self, op: Op[Any]) -> Any:
            answer = await super().do(op)
            if isinstance(op, Claim):  # stored, and whoever took it has not heard of it
                self.taken.set()
                await anyio.sleep(1)
            return answer

    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        return NOTHING

    ledger = Slow(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, _run_store):
        await submit(ledger, "r1")
        lanes.wake(ANA)
        await ledger.taken.wait()
    left = await ledger.find_run("r1")
    await ledger.close()

    assert left is not None
    assert left.status == "queued"


async def test_a_lane_that_goes_to_another_gateway_ends_and_leaves_what_waits_in_it(
    tmp_path: Path,
) -> None:
    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        ours.discard(ANA)
        return NOTHING

    ours = {ANA}
    ledger = Counted(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished, ours.__contains__) as (lanes, run_store):
        for run_id in ("r1", "r2"):
            await lanes.submit(new_run(run_id, ANA), session(ANA).new)
        await run_store.wait("r1", timeout_s=60)
        await anyio.wait_all_tasks_blocked()
        left = await run_store.find("r2")
        ours.add(ANA)
        lanes.wake(ANA)
        run = await run_store.wait("r2", timeout_s=60)
    await ledger.close()

    assert left is not None
    assert left.status == "queued"
    assert run is not None
    assert run.status == "ok"


async def test_a_lane_whose_run_another_gateway_carries_out_is_not_looked_at_for_ever(
    tmp_path: Path,
) -> None:
    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        return NOTHING

    ledger = Counted(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, _run_store):
        await begun(ledger, "r1")
        lanes.wake(ANA)
        await anyio.wait_all_tasks_blocked()
    await ledger.close()

    assert ledger.looks == 1


def test_a_gateway_that_has_its_ledger_for_itself_has_every_role() -> None:
    assert Roles(None).has("cron") is True


class FreeRoles:
    async def take_role(self, name: str) -> bool:
        await anyio.lowlevel.checkpoint()
        return True


async def test_a_role_that_two_parts_of_a_gateway_wait_for_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    roles = Roles(FreeRoles())  # type: ignore[arg-type]
    with caplog.at_level("INFO"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(roles.wait_for, "upkeep")
            tasks.start_soon(roles.wait_for, "upkeep")
    assert caplog.text.count("has the role upkeep") == 1


async def test_a_take_over_is_told_with_its_gateway_and_how_many_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class OneIsGone(SqliteLedger):
        async def do(self, op: Any) -> Any:
            done = await super().do(op)
            return (
                msgspec.structs.replace(done, gone=("a",), runs=2)
                if isinstance(op, Recover)
                else done
            )

    ledger = OneIsGone(tmp_path / "l.sqlite", inline=True)
    run_store = RunStore(ledger, Feed(), VirtualClock(), ledger.owner)
    with caplog.at_level("INFO"):
        await Lanes(run_store, Slots(), VirtualClock()).take_over()
    await ledger.close()
    assert "gateway a is gone; runs of it that are taken over: 2" in caplog.text


@pytest.mark.parametrize("named", [["r1"], None])
async def test_who_waits_for_a_run_looks_when_another_gateway_says_that_it_ended(
    tmp_path: Path, named: list[str] | None
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    run_store = RunStore(ledger, Feed(), VirtualClock(), ledger.owner)
    run = await begun(ledger, "r1")
    found = list[Run | None]()

    async def wait() -> None:
        found.append(await run_store.wait("r1", timeout_s=LOOK_AGAIN_S / 2))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await ledger.do(EndRun(fence=run.fence, outcome=Outcome("ok", reply="done"), at=1))
        run_store.on_end_hint(frozenset({"r2"}))
        await anyio.wait_all_tasks_blocked()
        assert found == []
        run_store.on_end_hint(None if named is None else frozenset(named))
        await anyio.wait_all_tasks_blocked()
        assert [each and each.reply for each in found] == ["done"]
    await ledger.close()


async def test_a_run_that_is_only_stored_waits_until_its_lane_is_told(tmp_path: Path) -> None:
    """The store knows no lanes: who wants a run to begin submits it to them."""

    async def finished(run: Run, outcome: Outcome) -> FollowUps:
        return NOTHING

    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    async with lanes_with(ledger, finished) as (lanes, run_store):
        await run_store.accept(new_run("r1", ANA), session(ANA).new)
        await anyio.wait_all_tasks_blocked()
        waiting = await run_store.find("r1")
        lanes.wake(ANA)
        run = await run_store.wait("r1", timeout_s=60)
    await ledger.close()

    assert waiting is not None
    assert waiting.status == "queued"
    assert run is not None
    assert run.status == "ok"


async def test_what_follows_from_an_end_does_not_follow_again_from_an_abort_that_came_late(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    run_store = RunStore(ledger, Feed(), VirtualClock(), ledger.owner)
    run = await begun(ledger, "r1", ANA)
    await run_store.end(run, Outcome("ok"), [])

    late = await run_store.end_open("r1", Outcome("aborted"), bell(run))
    rung = await ledger.list_timers(due_before=1, limit=9)
    await ledger.close()

    assert late is None
    assert rung == []


async def test_the_sweep_finds_work_that_no_hint_told_of(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(["found"])) as gateway:
        await submit(gateway.ledger, "quietly", ANA)  # straight into the ledger, past the book
        run = await gateway.run_store.wait("quietly", timeout_s=60)

    assert run is not None
    assert run.reply == "found"


async def test_a_timer_fires_when_it_is_due_and_once(tmp_path: Path) -> None:
    fired: list[tuple[str, int]] = []
    clock = VirtualClock()

    async def fire(timer: Timer) -> None:
        if await gateway.ledger.do(TakeTimer(timer_key=timer.timer_key)):
            fired.append((timer.timer_key, clock.now_ms()))

    async with open_gateway(
        tmp_path, ScriptedProvider([]), timers={"bell": fire}, clock=clock
    ) as gateway:
        due = clock.now_ms() + 90_000
        await gateway.ledger.do(
            ArmTimer(timer=Timer(timer_key="t", agent_id="main", kind="bell", due_at=due))
        )
        await anyio.sleep(300)

    ((key, at),) = fired
    assert key == "t"
    assert 0 <= at - due <= 100


async def sweep_for(
    folder: Path,
    seconds: float,
    fires: dict[str, Fire],
    timers: Sequence[tuple[str, str] | tuple[str, str, int]],
) -> int:
    """How often it looked around; `timers` have a key, a kind, and when they are due, if not at once."""
    ledger, looks = open_ledger(folder / "l.sqlite", inline=True), 0
    await submit(ledger, "r1")

    def wake(key: SessionKey) -> None:
        nonlocal looks
        looks += 1

    for timer_key, kind, *due in timers:
        due_at = due[0] if due else 0
        timer = Timer(timer_key=timer_key, agent_id="main", kind=kind, due_at=due_at)
        await ledger.do(ArmTimer(timer=timer))
    with anyio.move_on_after(seconds):
        await Sweep(ledger, wake, VirtualClock()).serve(fires)
    await ledger.close()
    return looks


async def test_timers_that_nobody_knows_are_put_aside_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PRUNE_EVERY_MS", 20_000)  # an hour, by which it is looked for them
    fired: list[str] = []

    async def fire(timer: Timer) -> None:
        fired.append(timer.timer_key)

    unknown = [(f"u{n}", "of tomorrow") for n in range(TIMERS_AT_ONCE + 1)]
    later = ("later", "bell", 10**15)
    quiet = await sweep_for(tmp_path, 59, {"bell": fire}, [*unknown, later])
    assert quiet == 12  # every five seconds, and at the start
    assert fired == []
    assert caplog.text.count("101 timers of kind of tomorrow are put aside") == 1
    assert caplog.text.count("are put aside") == 1  # and nothing is said of those that are known


async def test_a_timer_among_many_that_nobody_knows_fires_and_is_no_busy_loop(
    tmp_path: Path,
) -> None:
    fired: list[str] = []

    async def fire(timer: Timer) -> None:
        fired.append(timer.timer_key)

    unknown = [(f"u{n}", "of tomorrow") for n in range(TIMERS_AT_ONCE + 1)]
    looks = await sweep_for(tmp_path, 59, {"bell": fire}, [*unknown, ("b", "bell")])

    assert fired == ["b"] * 59  # it is never taken, so it fires again after each rest of a second
    assert looks == len(fired)  # and nothing is looked at in between


async def test_timers_that_fail_keep_nobody_busy_and_the_others_fire(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tried, rung = Counter[str](), 0

    async def fail(timer: Timer) -> None:
        tried[timer.timer_key] += 1
        raise KeyError("payload")

    async def ring(timer: Timer) -> None:
        nonlocal rung
        rung += 1
        raise Busy("not now")

    bad = [(f"x{n}", "bad") for n in range(TIMERS_AT_ONCE + 1)]
    looks = await sweep_for(tmp_path, 60, {"bad": fail, "bell": ring}, [*bad, ("b", "bell")])

    assert set(tried.values()) == {6}  # after 1, 2, 4, 8, 16 and 32 seconds
    assert rung == 6
    assert looks == 21  # every five seconds, and at the end of each rest
    assert "timer x0 failed and is tried again in 1 s" in caplog.text


@pytest.mark.spec("M2", "M5")
async def test_nothing_leaves_a_history_for_its_size_and_sessions_that_rest_leave_memory(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    history = History(ledger, held_bytes_max=4_000)
    await ledger.commit(session(ANA), session(BEN))
    for number in range(30):
        await ledger.do(Inject(key=ANA, entries=[says(f"{number} " + "x" * 2_000)], at=1))

    whole = await history.read("id-of-ana")
    await ledger.do(Inject(key=ANA, entries=[says("newest")], at=2))
    again = await history.read("id-of-ana")
    await ledger.do(Inject(key=BEN, entries=[says("y" * 2_500)], at=2))
    await history.read("id-of-ben")

    assert [entry.seq for entry in whole] == list(range(1, 31))
    assert [entry.seq for entry in again] == list(range(1, 32))
    assert list(history._held) == ["id-of-ben"]  # both together are over the limit: the older left
    await ledger.close()


async def test_history_hears_of_entries_and_reads_what_it_did_not_hear_of(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    history = History(ledger)
    await ledger.do(session(ANA))

    async def store(text: str, *, heard: bool) -> None:
        (entry,) = await ledger.do(Inject(key=ANA, entries=[says(text)], at=1))
        if heard:
            history.on_event(EntryAppended(ANA, entry))

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


async def test_a_history_to_which_nothing_came_is_not_asked_for_again(tmp_path: Path) -> None:
    class Watched(SqliteLedger):
        looks = 0

        async def last_seq(self, session_id: str) -> int:
            self.looks += 1
            return await super().last_seq(session_id)

    ledger = Watched(tmp_path / "l.sqlite", inline=True)
    history = History(ledger)
    await ledger.do(session(ANA))
    await ledger.do(Inject(key=ANA, entries=[says("first")], at=1))
    first = await history.read("id-of-ana")
    assert await history.read("id-of-ana") is first
    assert ledger.looks == 1
    await ledger.do(Inject(key=ANA, entries=[says("second")], at=1))
    assert [entry.seq for entry in await history.read("id-of-ana")] == [1, 2]
    assert ledger.looks == 2
    await ledger.close()


async def test_what_comes_while_a_history_is_looked_at_is_read_by_the_next(tmp_path: Path) -> None:
    class Overtaken(SqliteLedger):
        reads = 0

        async def list_entries(self, *given: Any, **named: Any) -> Any:
            self.reads += 1
            page = await super().list_entries(*given, **named)
            if self.reads == 1:
                await self.do(Inject(key=ANA, entries=[says("second")], at=1))
            return page

    ledger = Overtaken(tmp_path / "l.sqlite", inline=True)
    history = History(ledger)
    await ledger.do(session(ANA))
    await ledger.do(Inject(key=ANA, entries=[says("first")], at=1))
    assert [entry.seq for entry in await history.read("id-of-ana")] == [1]
    assert [entry.seq for entry in await history.read("id-of-ana")] == [1, 2]
    await ledger.close()


async def test_what_is_heard_while_a_history_is_read_is_in_it_once(
    tmp_path: Path, reads_yield: None
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    history = History(ledger)
    await ledger.do(session(ANA))
    await ledger.do(Inject(key=ANA, entries=[says("first")], at=1))
    await history.read("id-of-ana")
    (second,) = await ledger.do(Inject(key=ANA, entries=[says("second")], at=1))

    async def hear() -> None:
        await anyio.lowlevel.checkpoint()
        history.on_event(EntryAppended(ANA, second))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        read = await history.read("id-of-ana")

    assert [entry.seq for entry in read] == [1, 2]
    assert [entry.seq for entry in await history.read("id-of-ana")] == [1, 2]
    await ledger.close()


async def test_a_history_that_is_let_go_while_it_is_read_is_read_again_whole(
    tmp_path: Path, reads_yield: None
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    history = History(ledger, held_bytes_max=100)
    await ledger.commit(session(ANA), session(BEN))
    await ledger.do(Inject(key=ANA, entries=[says("first")], at=1))
    await history.read("id-of-ana")
    await ledger.do(Inject(key=ANA, entries=[says("second")], at=1))
    await ledger.do(Inject(key=BEN, entries=[says("x" * 200)], at=1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.read, "id-of-ben")
        for _ in range(4):  # its own read has one step less, and ends after the other one
            await anyio.lowlevel.checkpoint()
        read = await history.read("id-of-ana")

    assert [entry.seq for entry in read] == [1, 2]
    await ledger.close()


async def test_a_compaction_shortens_the_next_view_whether_it_was_heard_of_or_not(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    history = History(ledger)
    run = await begun(ledger, "r1")

    async def summarize(summary: str, *, heard: bool) -> str:
        after = await ledger.last_seq(run.session_id)
        compaction = Compaction(
            reason="manual",
            tokens_before=9,
            tokens_after=1,
            summary=summary,
            first_kept_seq=after + 1,
        )
        entries = [compaction.entry(f"c{after}")]
        (entry,) = await ledger.do(Append(fence=run.fence, entries=entries, at=2))
        if heard:
            history.on_event(EntryAppended(ANA, entry))
        return str(await history.view(run))

    before = str(await history.view(run))
    first = await summarize("the beginning", heard=False)
    second = await summarize("the middle", heard=True)
    third = await summarize("the end", heard=False)

    assert "the beginning" not in before
    assert "the beginning" in first
    assert "the middle" in second
    assert "the beginning" not in second
    assert "the end" in third
    assert "the middle" not in third
    await ledger.close()


async def test_a_single_huge_message_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "READ_BYTES_MAX", 100)
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    await ledger.do(session(ANA))
    await ledger.do(Inject(key=ANA, entries=[says("small"), says("x" * 5_000)], at=1))

    assert [entry.seq for entry in await History(ledger).read("id-of-ana")] == [1, 2]
    await ledger.close()


def test_a_result_over_the_limit_says_how_much_was_left_out() -> None:
    assert _bounded("short") == "short"
    assert _bounded({"a": 1}) == {"a": 1}
    assert _bounded("x" * (RESULT_CHARS_MAX + 7)).endswith("[7 more characters were left out]")


def test_a_result_with_images_is_bounded_in_its_words_and_its_images() -> None:
    def image(chars: int) -> Image:
        return Image(MediaSource("base64", "image/png", "x" * chars))

    small = [Text("a"), Text("b"), image(3), Text("c")]
    assert [block.get("text") for block in _bounded(small)] == ["a\nb", None, "c"]

    many = _bounded([block for _ in range(IMAGES_MAX + 5) for block in (image(3), Text(""))])
    assert len([block for block in many if block["type"] == "image"]) == IMAGES_MAX
    assert len(many) <= 2 * IMAGES_MAX + 2
    assert many[-1]["text"].startswith("[5 more images were left out")

    large = _bounded([image(IMAGES_CHARS_MAX - 2), image(3), image(2)])
    assert [len(block["source"]["data"]) for block in large[:-1]] == [IMAGES_CHARS_MAX - 2, 2]

    wordy = _bounded([Text("x" * RESULT_CHARS_MAX), image(3), Text("y" * 9), image(3), Text("z")])
    texts = [block["text"] for block in wordy if block["type"] == "text"]
    assert texts[1:] == [f"\n[{left} more characters were left out]" for left in (9, 1)]
