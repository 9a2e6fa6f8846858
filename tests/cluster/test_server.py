"""What a server does that a file does not: it is down, it restarts, it cuts a commit off, it belongs to somebody else."""

import signal
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from crossclaw.domain.errors import StoreError, StoreLocked, StoreTooNew
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.sessions import NewEntry
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import ArmTimer, Inject, Submit, Timer
from crossclaw.ledger.postgres import store, writer
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.migrate import SCHEMA
from crossclaw.ledger.postgres.wire import Fate, PgWire, StatementGroup
from crossclaw.ledger.sqlite.migrate import VERSION
from tests.cluster.server import Server, free_port, serving
from tests.ledger.making import ANA, BEN, begun, run, says, session, submit


@pytest.fixture
async def ledger(tmp_path: Path, url: str) -> AsyncGenerator[Ledger]:
    opened = open_ledger(tmp_path / "l.sqlite", url=url)
    yield opened
    await opened.close()


def ask(url: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    wire = PgWire(url)
    try:
        return wire.ask(sql, *values)
    finally:
        wire.close()


def end_connections(url: str) -> None:
    """As a restart, a failover or an administrator does it."""
    ask(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


# ── opening ────────────────────────────────────────────────────────────────────────────────────


async def test_one_gateway_at_a_time_has_a_database(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_PATIENCE_S", 0.1)
    ledger = open_ledger(tmp_path / "l.sqlite", url=url)

    with pytest.raises(
        StoreLocked, match=r"another gateway is using the database.*ledger\.shared: true"
    ):
        open_ledger(tmp_path / "other folder" / "l.sqlite", url=url)

    await ledger.close()
    await open_ledger(tmp_path / "other folder" / "l.sqlite", url=url).close()


async def test_a_store_of_a_newer_release_is_refused_unchanged(tmp_path: Path, url: str) -> None:
    await open_ledger(tmp_path / "l.sqlite", url=url).close()
    ask(url, f"UPDATE {SCHEMA}.store SET version = {VERSION + 1}")

    with pytest.raises(StoreTooNew, match=f"has version {VERSION + 1}, this Crossclaw knows"):
        open_ledger(tmp_path / "l.sqlite", url=url)

    ask(url, f"UPDATE {SCHEMA}.store SET version = {VERSION}")
    await open_ledger(tmp_path / "l.sqlite", url=url).close()


async def test_a_database_that_can_only_be_read_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(StoreError, match=r"can only be read .*default_transaction_read_only"):
        open_ledger(
            tmp_path / "l.sqlite", url=f"{url}?options=-cdefault_transaction_read_only%3Don"
        )


async def test_a_server_that_is_too_old_is_refused(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PgWire, "server_version", property(lambda wire: 130_021))

    with pytest.raises(StoreError, match="is PostgreSQL 13; Crossclaw needs 14 or newer"):
        open_ledger(tmp_path / "l.sqlite", url=url)


async def test_a_schema_of_somebody_else_is_refused(tmp_path: Path, url: str) -> None:
    """Its owner could put triggers on tables that the gateway trusts, and they would run as the gateway."""
    name = url.rpartition("/")[2]
    gate, other = f"gate_of_{name}", f"other_of_{name}"
    theirs = url.replace("//crossclaw@", f"//{gate}@")
    ask(url, f"DROP SCHEMA {SCHEMA} CASCADE")
    for role in (gate, other):
        ask(url, f"CREATE ROLE {role} LOGIN")
    ask(url, f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {other}")
    ask(url, f"GRANT ALL ON SCHEMA {SCHEMA} TO {gate}")
    try:
        with pytest.raises(StoreError, match=f"belongs to {other}"):
            open_ledger(tmp_path / "l.sqlite", url=theirs)
        ask(url, f"ALTER SCHEMA {SCHEMA} OWNER TO {gate}")
        await open_ledger(tmp_path / "l.sqlite", url=theirs).close()
    finally:
        ask(url, f"DROP SCHEMA {SCHEMA} CASCADE")
        for role in (gate, other):
            ask(url, f"DROP ROLE {role}")
        await open_ledger(tmp_path / "l.sqlite", url=url).close()


async def test_a_user_without_the_right_to_make_tables_is_told_so(tmp_path: Path, url: str) -> None:
    name = url.rpartition("/")[2]
    ask(url, f"DROP SCHEMA {SCHEMA} CASCADE")
    ask(url, f"CREATE ROLE guest_of_{name} LOGIN")
    try:
        with pytest.raises(StoreError, match=r"permission denied .*needs the right to create"):
            open_ledger(
                tmp_path / "l.sqlite", url=url.replace("//crossclaw@", f"//guest_of_{name}@")
            )
    finally:
        ask(url, f"DROP ROLE guest_of_{name}")
        await open_ledger(tmp_path / "l.sqlite", url=url).close()


class FailingWire(PgWire):
    """Loses the connection after so many statements."""

    left = 0

    def script(self, sql: str) -> None:
        self._count()
        super().script(sql)

    def run_pipelined(self, groups: Sequence[StatementGroup]) -> list[Fate]:
        self._count()
        return super().run_pipelined(groups)

    def _count(self) -> None:
        FailingWire.left -= 1
        if FailingWire.left < 0:
            self.close()
            raise ConnectionLost("cut")


@pytest.mark.parametrize("shared", [False, True])
async def test_a_start_whose_connection_is_lost_leaves_nothing_in_the_way_of_the_next(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setattr(store, "PgWire", FailingWire)
    told: list[str] = []
    while True:
        FailingWire.left = len(told)
        try:
            ledger = open_ledger(tmp_path / "l.sqlite", url=url, shared=shared)
        except StoreError as error:
            told.append(str(error))
        else:
            break
    assert len(told) > 5
    assert all("cannot be reached: cut" in each for each in told)
    FailingWire.left = 1_000
    await submit(ledger, "r1")
    await ledger.close()


# ── losing the connection ──────────────────────────────────────────────────────────────────────


async def test_connections_that_were_ended_are_made_anew_and_nobody_notices(
    url: str, ledger: Ledger
) -> None:
    await submit(ledger, "r1")
    await ledger.find_run("r1")
    await ledger.count_sessions(sight=EVERYTHING)

    end_connections(url)

    assert await ledger.find_run("r1") is not None
    assert await ledger.count_sessions(sight=EVERYTHING) == 1
    end_connections(url)
    await submit(ledger, "r2")
    assert [each.run_id for each in await ledger.list_open_runs(ANA)] == ["r1", "r2"]


@pytest.fixture(scope="module")
def own_server() -> Generator[Server]:
    with serving({"fsync": "on"}) as server:
        ask(f"{server.url}/postgres", "CREATE DATABASE restarted")
        yield server


@pytest.mark.spec("B6")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
async def test_a_server_that_restarts_in_between_loses_nothing_that_was_acknowledged(
    tmp_path: Path, own_server: Server, how: signal.Signals
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", url=f"{own_server.url}/restarted")
    key = SessionKey.named("main", how.name)
    stored: list[str] = []
    some_stored = anyio.Event()

    async def write() -> None:
        await ledger.do(session(key))
        for number in range(60):
            name = f"{how.name}-{number}"
            await ledger.commit(Inject(key=key, entries=[says(name, name)], at=number))
            stored.append(name)
            if len(stored) == 10:
                some_stored.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await some_stored.wait()
        await anyio.to_thread.run_sync(own_server.stop, how)
        await anyio.to_thread.run_sync(own_server.start)

    entries = await ledger.list_entries(f"id-of-{key.name}", limit=100)
    assert [entry.entry_id for entry in entries] == [f"{how.name}-{n}" for n in range(60)]
    await ledger.close()


async def test_while_the_server_is_down_callers_are_told_and_then_served_again(
    tmp_path: Path, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.PostgresWriter._connected, "__defaults__", (0.2,))
    ledger = open_ledger(tmp_path / "l.sqlite", url=f"{own_server.url}/restarted")
    await ledger.do(session(BEN))
    await anyio.to_thread.run_sync(own_server.stop)

    with pytest.raises(StoreError, match=r"cannot be reached: .*nothing was stored"):
        await ledger.do(Inject(key=BEN, entries=[says("lost")], at=1))
    with pytest.raises(StoreError, match="cannot be reached"):
        await ledger.find_session(BEN)
    await anyio.to_thread.run_sync(own_server.start)

    await ledger.do(Inject(key=BEN, entries=[says("kept")], at=1))
    (entry,) = await ledger.list_entries("id-of-ben", limit=9)
    assert entry.message is not None
    assert entry.message.text == "kept"  # type: ignore[union-attr]
    await ledger.close()


# ── the fate of a commit ───────────────────────────────────────────────────────────────────────


class CutWire(PgWire):
    """Loses the connection at the next commit: before it was sent, or after the server has done it."""

    cut: str | None = None

    def run_pipelined(self, groups: Sequence[StatementGroup]) -> list[Fate]:
        commits = groups[-1][-1].statement.sql == b"COMMIT"
        if not commits or CutWire.cut is None:
            return super().run_pipelined(groups)
        how, CutWire.cut = CutWire.cut, None
        if how == "after":
            super().run_pipelined(groups)
        self.close()
        raise ConnectionLost("cut")


@pytest.mark.spec("B6")
@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_commit_that_was_cut_off_is_stored_once_whatever_became_of_it(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    monkeypatch.setattr(store, "PgWire", CutWire)
    ledger = open_ledger(tmp_path / "l.sqlite", url=url)
    await ledger.do(session(ANA))

    CutWire.cut = cut
    answers = await ledger.commit(
        Submit(new=run("r1"), at=1), Inject(key=ANA, entries=[says("once")], at=1)
    )

    assert answers[0].run_id == "r1"
    assert [entry.seq for entry in await ledger.list_entries("id-of-ana", limit=9)] == [1]
    assert [each.run_id for each in await ledger.list_open_runs(ANA)] == ["r1"]
    assert vars(CutWire)["cut"] is None  # it was cut
    await ledger.close()


class HastyWire(PgWire):
    """Loses the connection right after the next commit was sent: the server may still be busy with it."""

    cut = False

    def _send(self) -> None:
        super()._send()
        if HastyWire.cut and self._ends:
            HastyWire.cut = False
            self.close()
            raise ConnectionLost("cut")

    def run_pipelined(self, groups: Sequence[StatementGroup]) -> list[Fate]:
        self._ends = groups[0][-1].statement.sql == b"COMMIT"
        return super().run_pipelined(groups)


@pytest.mark.spec("B6")
async def test_a_commit_that_was_cut_off_counts_only_once_the_standby_has_it(
    tmp_path: Path, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the primary alone has is lost with it, though it can be read there."""
    admin = f"{own_server.url}/postgres"

    def need_standby(name: str) -> None:
        ask(admin, f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        ask(admin, "SELECT pg_reload_conf()")
        while ask(admin, "SHOW synchronous_standby_names") != [(name,)]:
            pass

    def is_asking() -> bool:
        sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'UPDATE batches%'"
        return bool(ask(admin, sql))

    monkeypatch.setattr(store, "PgWire", HastyWire)
    ledger = open_ledger(tmp_path / "l.sqlite", url=f"{own_server.url}/restarted", shared=True)
    key = SessionKey.named("main", "standby")
    await ledger.do(session(key))
    stored: list[str] = []

    async def write() -> None:
        await ledger.do(Inject(key=key, entries=[says("once", "once")], at=1))
        stored.append("once")

    try:
        await anyio.to_thread.run_sync(need_standby, "somebody")
        HastyWire.cut = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            with anyio.fail_after(30):
                while not stored and not await anyio.to_thread.run_sync(is_asking):  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            assert not stored, "no standby has it"
            await anyio.to_thread.run_sync(need_standby, "")
    finally:
        need_standby("")
    assert stored
    assert len(await ledger.list_entries("id-of-standby", limit=9)) == 1
    await ledger.close()


# ── waiting ────────────────────────────────────────────────────────────────────────────────────


async def test_while_the_server_takes_its_time_the_process_goes_on(url: str) -> None:
    """libpq waits with Python's lock held; whoever could end the waiting would never get to it."""
    holder, waiter = PgWire(url), PgWire(url)
    holder.ask("SELECT pg_advisory_lock(1)")
    waiter.script("SET lock_timeout TO '5s'")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, waiter.ask, "SELECT pg_advisory_lock(1)")
        waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not holder.ask(waits):
            await anyio.lowlevel.checkpoint()
        holder.ask("SELECT pg_advisory_unlock(1)")

    holder.close()
    waiter.close()


async def test_readers_are_told_when_a_connection_can_be_made_and_not_used(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(wire: PgWire, sql: str) -> None:
        raise ServerTrouble("42501", "permission denied")

    monkeypatch.setattr(PgWire, "script", refuse)
    with pytest.raises(StoreError, match="permission denied"):
        await ledger.find_run("r1")
    monkeypatch.undo()

    assert await ledger.find_run("r1") is None


# ── steps and reads together ───────────────────────────────────────────────────────────────────


async def test_what_one_step_cannot_store_is_refused_alone(ledger: Ledger) -> None:
    """In one transaction with others, after it has written something."""
    outcomes: dict[int, str] = {}

    async def one(number: int) -> None:
        key = SessionKey.named("main", f"s{number}")
        due_at = 2**70 if number % 3 == 0 else 1
        timer = Timer(timer_key=f"t{number}", agent_id="main", kind="k", due_at=due_at)
        try:
            await ledger.commit(session(key), ArmTimer(timer=timer))
            outcomes[number] = "stored"
        except StoreError:
            outcomes[number] = "refused"

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)

    assert outcomes == {n: "refused" if n % 3 == 0 else "stored" for n in range(30)}
    assert await ledger.count_sessions(sight=EVERYTHING) == 20
    assert await ledger.count_timers() == {"k": 20}


async def test_reads_that_wait_share_a_flight(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        await submit(ledger, f"r{number}", SessionKey.named("main", f"s{number}"))
    flights: list[int] = []
    run_pipelined = PgWire.run_pipelined

    def counted(wire: PgWire, groups: Sequence[StatementGroup]) -> list[Fate]:
        flights.append(len(groups))
        return run_pipelined(wire, groups)

    monkeypatch.setattr(PgWire, "run_pipelined", counted)
    found: list[str] = []

    async def find(number: int) -> None:
        each = await ledger.find_run(f"r{number}")
        assert each is not None
        found.append(each.run_id)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(find, number)

    assert sorted(found) == sorted(f"r{number}" for number in range(20))
    assert sum(flights) == 20
    assert len(flights) < 10


async def test_of_several_servers_the_one_that_answers_is_used(tmp_path: Path, url: str) -> None:
    """The first has ended; nobody is at its port."""
    ledger = open_ledger(tmp_path / "l.sqlite", url=url.replace("@", f"@127.0.0.1:{free_port()},"))
    try:
        await submit(ledger, "r1")
        assert await ledger.find_run("r1") is not None
    finally:
        await ledger.close()


async def test_every_text_comes_back_as_it_was(ledger: Ledger) -> None:
    odd = ["nul \0 in it", "\uffff", "\uffff0", "\uffff1\0", "ünï 🙂", "'; DROP TABLE runs; --"]
    for number, text in enumerate(odd):
        key = SessionKey.named("main", f"s{number}")
        new = run(f"r{number}", key)
        await ledger.commit(session(key), Submit(new=new, at=1))
        await ledger.do(
            Inject(key=key, entries=[NewEntry(entry_id=text, message=UserMessage(text))], at=1)
        )
        (entry,) = await ledger.list_entries(f"id-of-s{number}", limit=9)
        assert (entry.entry_id, entry.message) == (text, UserMessage(text))


async def test_a_search_finds_what_sqlite_finds(ledger: Ledger, tmp_path: Path) -> None:
    said = ["the grey heron", "Résumé for the HERON", "foo-bar baz", "foo bar", "bar foo", "日本語"]
    tries = [
        "heron",
        "resume",
        "her",
        "foo-bar",
        "the heron",
        "grey the",
        "日本",
        "nothing",
        "r\u00e9sum",
    ]
    from crossclaw.ledger.sqlite.ledger import SqliteLedger  # noqa: PLC0415

    file = SqliteLedger(tmp_path / "beside" / "l.sqlite")
    found: list[list[list[str]]] = []
    for each in (ledger, file):
        begun_run = await begun(each, "r1")
        assert begun_run.run_id == "r1"
        for number, text in enumerate(said):
            await each.do(Inject(key=ANA, entries=[says(text, f"e{number}")], at=1))
        found.append(
            [
                [hit.entry.entry_id for hit in await each.search(words, limit=9, sight=EVERYTHING)]
                for words in tries
            ]
        )
    await file.close()

    assert found[0] == found[1]
    assert found[0][:3] == [["e1", "e0"], ["e1"], ["e1", "e0"]]
