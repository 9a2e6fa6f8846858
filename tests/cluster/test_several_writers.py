"""Two gateways write to one database: what is right with one is right with two.

Each race is forced: the first writer stands still between what it has read and what it writes, until the second one
is done or waits for it. And each goes wrong without the locks, or it would prove nothing.
"""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import CrossclawError, Fenced, StoreFenced, StoreLocked
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import Outcome, Run
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.channels import EditWaiting
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import (
    AlreadyAccepted,
    Append,
    BeginWait,
    Dedupe,
    EndOpenRun,
    EndRun,
    EnsureSession,
    Inject,
    Recover,
    ReleaseRun,
)
from crossclaw.ledger.postgres import locking, store, writer
from crossclaw.ledger.postgres.ledger import PostgresLedger
from crossclaw.ledger.postgres.migrate import SCHEMA
from crossclaw.ledger.postgres.store import DatabaseAddress
from crossclaw.ledger.postgres.wire import Fate, PgWire, StatementGroup
from crossclaw.ledger.sqlite import entries as entries_rules
from crossclaw.ledger.sqlite.migrate import VERSION
from tests.cluster.test_server import ask
from tests.databases import databases
from tests.ledger.making import ANA, BEN, OK, begun, claim, find_claim, says, session, submit
from tests.ledger.test_accounts import begun as begun_with_budget
from tests.ledger.test_accounts import costly, held, reserve


class HeldWire(PgWire):
    """Stands still before it writes, before it commits, or before it adds to a second account, when it is asked to."""

    hold = ""
    accounts = 0
    held = threading.Event()
    go_on = threading.Event()

    def run_pipelined(self, groups: Sequence[StatementGroup]) -> list[Fate]:
        writes = any(each.statement.writes for each in groups[0])
        commits = groups[0][-1].statement.sql == b"COMMIT"
        if HeldWire.hold == "second account":
            HeldWire.accounts += any(b"UPDATE accounts" in each.statement.sql for each in groups[0])
        if (
            (HeldWire.hold == "write" and writes)
            or (HeldWire.hold == "commit" and commits)
            or (HeldWire.hold == "second account" and HeldWire.accounts == 2)
        ):
            HeldWire.hold = ""
            HeldWire.held.set()
            HeldWire.go_on.wait(20)
        return super().run_pipelined(groups)


class Pair:
    """Two gateways' ledgers on one database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.one = open_ledger(folder / "one" / "l.sqlite", url=url, shared=True)
        self.two = open_ledger(folder / "two" / "l.sqlite", url=url, shared=True)
        self._open = [self.one, self.two]

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()

    async def race(
        self, first: Awaitable[Any], second: Awaitable[Any], *, at: str = "write"
    ) -> list[tuple[str, Any]]:
        """What both were answered, in the order in which they were. The first is the ledger `one`'s."""
        told: list[tuple[str, Any]] = []
        over = threading.Event()

        async def tell(name: str, answer: Awaitable[Any]) -> None:
            try:
                told.append((name, await answer))
            except (CrossclawError, AlreadyAccepted) as error:
                told.append((name, error))
            if name == "two":
                over.set()

        HeldWire.hold, HeldWire.accounts = at, 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell, "one", first)
            await anyio.to_thread.run_sync(HeldWire.held.wait, 20)
            tasks.start_soon(tell, "two", second)
            await anyio.to_thread.run_sync(self._wait_for_a_waiting_one, over)
            HeldWire.go_on.set()
        HeldWire.held.clear()
        HeldWire.go_on.clear()
        return told

    def _wait_for_a_waiting_one(self, over: threading.Event) -> None:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while not over.wait(0.01) and ask(self.url, sql) == [(0,)]:
            pass


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Pair]:
    monkeypatch.setattr(store, "PgWire", HeldWire)
    both = Pair(tmp_path, databases().url(tmp_path / "ledger"))
    yield both
    await both.close()


# ── the races ──────────────────────────────────────────────────────────────────────────────────


async def claimed_once(pair: Pair) -> bool:
    await submit(pair.one, "r1")
    told = await pair.race(find_claim(pair.one), find_claim(pair.two))
    return sorted(answer is not None for _, answer in told) == [False, True]


async def _taken_over(pair: Pair) -> Run:
    await pair.two.do(Recover(owner=pair.two.owner, at=5))
    return await claim(pair.two, owner=pair.two.owner)


async def written_before_the_take_over_or_not_at_all(pair: Pair) -> bool:
    mine = await begun(pair.one, "r1")
    said = Append(fence=mine.fence, entries=[says("mine")], at=4)
    told = await pair.race(pair.one.do(said), _taken_over(pair))
    return told[0][0] == "one" or isinstance(told[1][1], Fenced)


async def ended_before_the_take_over_or_not_at_all(pair: Pair) -> bool:
    mine = await begun(pair.one, "r1")
    over = EndRun(fence=mine.fence, outcome=OK, at=4)
    told = await pair.race(pair.one.do(over), pair.two.do(Recover(owner=pair.two.owner, at=5)))
    return told[0][0] == "one" or isinstance(told[1][1], Fenced)


async def numbered_one_after_the_other(pair: Pair) -> bool:
    await pair.one.do(session(ANA))
    told = await pair.race(
        pair.one.do(Inject(key=ANA, entries=[says("a", "a")], at=1)),
        pair.two.do(Inject(key=ANA, entries=[says("b", "b")], at=1)),
    )
    entries = await pair.one.list_entries("id-of-ana", limit=9)
    ids = [(entry.seq, entry.entry_id) for entry in entries]
    return ids == [(1, "a"), (2, "b")] and all(isinstance(said, list) for _, said in told)


async def no_circle_of_waits(pair: Pair) -> bool:
    mine, other = await begun(pair.one, "r1"), await begun(pair.two, "r2", BEN)
    told = await pair.race(
        pair.one.do(BeginWait(fence=mine.fence, target_run_id="r2", at=4)),
        pair.two.do(BeginWait(fence=other.fence, target_run_id="r1", at=4)),
    )
    return sorted(len(circle) for _, circle in told) == [0, 3]


async def no_more_reserved_than_there_is(pair: Pair) -> bool:
    mine = await begun_with_budget(pair.one, "r1", ANA)
    other = await begun_with_budget(pair.two, "r2", BEN, by=mine)
    first, second = reserve(pair.one, mine, 6_000), reserve(pair.two, other, 6_000)
    told = await pair.race(first, second, at="commit")
    return sorted(grant.allowed for _, grant in told) == [False, True]


async def sent_twice_accepted_once(pair: Pair) -> bool:
    await pair.one.commit(session(ANA), session(BEN))
    again = Dedupe("chat", "key", "digest")
    told = await pair.race(
        submit(pair.one, "r1", dedupe=again), submit(pair.two, "r2", dedupe=again)
    )
    second = dict(told)["two"]
    return isinstance(second, AlreadyAccepted) and second.run_id == "r1"


async def begun_once(pair: Pair) -> bool:
    """A session that both see for the first time."""

    def made(name: str) -> EnsureSession:
        return EnsureSession(new=NewSession(key=ANA, session_id=name), at=1)

    told = await pair.race(pair.one.do(made("a")), pair.two.do(made("b")))
    return [getattr(each, "session_id", None) for _, each in told] == ["a", "a"]


async def edited_before_it_is_read_or_not_at_all(pair: Pair) -> bool:
    """A chat message that waits: its sender changes it by one gateway, and another begins to answer it."""
    once = Dedupe("inbound", "m1", "")
    await submit(pair.one, "r1", dedupe=once)
    edit = EditWaiting(
        of=(once,), dedupe=Dedupe("inbound", "e1", ""), text="better", files=None,
        authority=Authority(owner=True), at=4,
    )  # fmt: skip
    told = dict(await pair.race(pair.one.do(edit), find_claim(pair.two)))
    (entry,) = await pair.two.list_entries("id-of-ana", limit=9)
    assert isinstance(entry.message, UserMessage)
    return bool(told["one"] == "r1") == (entry.message.content == "better")


RACES: list[Callable[[Pair], Awaitable[bool]]] = [
    claimed_once,  # also by the statement itself, which takes only what is queued
    ended_before_the_take_over_or_not_at_all,  # also by the statement, which ends only what is held
    written_before_the_take_over_or_not_at_all,
    numbered_one_after_the_other,
    no_circle_of_waits,
    no_more_reserved_than_there_is,
    sent_twice_accepted_once,
    begun_once,
    edited_before_it_is_read_or_not_at_all,
]


@pytest.mark.spec("B6")
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.__name__)
async def test_two_writers_keep_what_one_keeps(pair: Pair, race: Callable[..., Any]) -> None:
    assert await race(pair)


@pytest.mark.parametrize("race", RACES[2:], ids=lambda race: race.__name__)
async def test_without_the_locks_it_is_not_kept(
    pair: Pair, race: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "locks_for", lambda touched: [])

    assert not await race(pair)


# ── one after the other, from both sides ───────────────────────────────────────────────────────


@pytest.mark.spec("B6")
async def test_many_steps_from_both_sides_are_all_stored_and_in_order(pair: Pair) -> None:
    """Nobody waits in a circle, and nothing is refused that one writer alone would have stored."""
    keys = [SessionKey.named("main", f"s{number}") for number in range(6)]
    for key in keys:
        await pair.one.do(session(key))

    async def write(ledger: Ledger, name: str) -> None:
        async def one_session(key: SessionKey) -> None:
            for number in range(15):
                await ledger.do(Inject(key=key, entries=[says("x", f"{name}{number}")], at=1))

        async with anyio.create_task_group() as tasks:
            for key in keys:
                tasks.start_soon(one_session, key)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write, pair.one, "a")
        tasks.start_soon(write, pair.two, "b")

    for key in keys:
        entries = await pair.one.list_entries(f"id-of-{key.name}", limit=99)
        assert [entry.seq for entry in entries] == list(range(1, 31))
        for name in "ab":
            mine = [each.entry_id for each in entries if each.entry_id.startswith(name)]
            assert mine == [f"{name}{number}" for number in range(15)]


async def test_whoever_lost_a_run_does_not_end_the_waits_of_its_new_owner(pair: Pair) -> None:
    old = await begun(pair.one, "r1")
    await begun(pair.one, "r2", BEN)
    new = await _taken_over(pair)
    await pair.two.do(BeginWait(fence=new.fence, target_run_id="r2", at=6))

    await pair.one.do(ReleaseRun(fence=old.fence))

    assert [wait.run_id for wait in await pair.two.monitoring.waits()] == ["r1"]


async def both_in_one_order(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Two steps that touch the same two sessions. The first waits for the second of them, which somebody holds; so it
    is next there, whatever the other one has locked meanwhile."""
    monkeypatch.setattr(writer, "TRIES_MAX", 1)  # what the server ends is not tried again
    early, late = sorted((ANA, BEN), key=lambda key: locking._number(key.text))
    for key in (early, late):
        await pair.one.do(session(key))
    holder = PgWire(pair.url)
    holder.ask("SELECT pg_advisory_lock($1::bigint)", locking._number(late.text))
    failed: list[CrossclawError] = []

    async def write(ledger: Ledger, name: str) -> None:
        entries = [
            Inject(key=key, entries=[says("x", f"{name}-{key.name}")], at=1) for key in (ANA, BEN)
        ]
        try:
            await ledger.commit(*entries)
        except CrossclawError as error:
            failed.append(error)

    def wait_for(count: int) -> None:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while ask(pair.url, sql) != [(count,)]:
            pass

    async with anyio.create_task_group() as tasks:
        for number, (ledger, name) in enumerate(((pair.one, "one"), (pair.two, "two")), start=1):
            tasks.start_soon(write, ledger, name)
            await anyio.to_thread.run_sync(wait_for, number)
        await anyio.to_thread.run_sync(holder.close)
    return not failed


async def test_steps_that_touch_the_same_things_never_wait_in_a_circle(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await both_in_one_order(pair, monkeypatch)


async def test_locked_in_any_order_they_do(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = iter((False, False, True, False))  # two sessions, then the steps of both sides

    def in_turn(numbers: set[int]) -> list[int]:
        return sorted(numbers, reverse=len(numbers) > 1 and next(orders))

    monkeypatch.setattr(locking, "sorted", in_turn, raising=False)
    assert not await both_in_one_order(pair, monkeypatch)


async def test_what_runs_of_two_trees_have_cost_is_counted_in_any_order(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tree has an account, to which runs on both gateways add."""
    monkeypatch.setattr(writer, "TRIES_MAX", 1)  # what the server ends is not tried again
    a, b, c, d = (SessionKey.named("main", name) for name in "abcd")
    first, second = [await begun_with_budget(pair.one, f"r-{k.name}", k) for k in (a, b)]
    child = await begun_with_budget(pair.two, "r-c", c, by=second)
    other = await begun_with_budget(pair.two, "r-d", d, by=first)

    def costs(run: Run) -> Append:
        return Append(fence=run.fence, entries=[costly(100)], at=60_002)

    told = await pair.race(
        pair.one.commit(costs(first), costs(second)),
        pair.two.commit(costs(child), costs(other)),
        at="second account",
    )

    assert [answer for _, answer in told if isinstance(answer, CrossclawError)] == []
    assert [await held(pair.one, run.run_id) for run in (first, second)] == [(200, 0), (200, 0)]


async def passed_over(pair: Pair) -> bool:
    """A run is ended over the head of its gateway, which has its place and does not know of it."""
    mine = await begun(pair.one, "r1")
    await pair.two.do(EndOpenRun(run_id="r1", outcome=Outcome("aborted"), at=4))
    with suppress(Fenced):
        await pair.one.do(Append(fence=mine.fence, entries=[says("late", "late")], at=5))
    entries = await pair.two.list_entries("id-of-ana", limit=9)
    return "late" not in [entry.entry_id for entry in entries]


async def test_whoever_was_passed_over_writes_nothing(pair: Pair) -> None:
    assert await passed_over(pair)


async def test_without_its_fence_it_does(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def hold_anything(transaction: Any, fence: Any, *, progress: bool = False) -> Any:
        where = "SELECT agent_id, session_id, attempt, kind, plan FROM runs WHERE run_id = ?"
        return entries_rules.HeldRun(*transaction.get(where, (fence.run_id,)))

    monkeypatch.setattr(entries_rules, "hold", hold_anything)
    assert not await passed_over(pair)


# ── opening ────────────────────────────────────────────────────────────────────────────────────


async def test_a_gateway_of_its_own_and_those_that_share_keep_each_other_out(
    tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_PATIENCE_S", 0.1)
    monkeypatch.setattr(store, "SHARED_PATIENCE_S", 0.1)
    with pytest.raises(StoreLocked):
        open_ledger(tmp_path / "three" / "l.sqlite", url=pair.url)
    await pair.close()

    alone = open_ledger(tmp_path / "three" / "l.sqlite", url=pair.url)
    with pytest.raises(StoreLocked):
        open_ledger(tmp_path / "four" / "l.sqlite", url=pair.url, shared=True)
    await alone.close()


async def test_tables_are_changed_only_while_nobody_else_uses_them(
    tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_PATIENCE_S", 0.1)
    ask(pair.url, f"UPDATE {SCHEMA}.store SET version = version - 1")

    with pytest.raises(StoreLocked, match="other gateways are using them"):
        open_ledger(tmp_path / "three" / "l.sqlite", url=pair.url, shared=True)

    ask(pair.url, f"UPDATE {SCHEMA}.store SET version = version + 1")
    await open_ledger(tmp_path / "three" / "l.sqlite", url=pair.url, shared=True).close()


async def test_of_gateways_that_start_together_one_makes_the_tables(
    tmp_path: Path, pair: Pair
) -> None:
    await pair.close()
    ask(pair.url, f"DROP SCHEMA {SCHEMA} CASCADE")

    def start(name: str) -> None:
        DatabaseAddress(pair.url, shared=True).prepare().close()

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(anyio.to_thread.run_sync, start, name)

    assert ask(pair.url, f"SELECT version FROM {SCHEMA}.store") == [(VERSION,)]


# ── a gateway that has lost its place ──────────────────────────────────────────────────────────


async def test_a_gateway_that_lost_its_place_stores_nothing(pair: Pair) -> None:
    ask(pair.url, f"CREATE TABLE IF NOT EXISTS {SCHEMA}.places (name TEXT)")
    ask(pair.url, f"INSERT INTO {SCHEMA}.places VALUES ('one')")
    one = pair.one
    assert isinstance(one, PostgresLedger)
    one.guard("SELECT 1 FROM places WHERE name = $1 FOR KEY SHARE", "one")
    await submit(one, "r1")

    ask(pair.url, f"DELETE FROM {SCHEMA}.places")
    with pytest.raises(StoreFenced):
        await submit(one, "r2")
    with pytest.raises(StoreFenced):
        await one.do(Append(fence=(await claim(pair.two)).fence, entries=[says("x")], at=4))

    assert [run.run_id for run in await pair.two.list_open_runs(ANA)] == ["r1"]
    ask(pair.url, f"DROP TABLE {SCHEMA}.places")
