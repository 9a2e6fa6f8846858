"""Many steps that advance together are stored as if they had come one after the other, and as SQLite stores them."""

import itertools
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crossclaw.domain.addresses import Address
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import Cause, NewRun, Outcome, Run
from crossclaw.domain.spawns import Spawn
from crossclaw.ledger.channels import ForgetHeard, HeardMessage, RememberHeard, SaveCursor
from crossclaw.ledger.operations import (
    Append,
    Audit,
    BeginWait,
    Claim,
    Claimed,
    Dedupe,
    EndOpenRun,
    EndRun,
    Inject,
    NewDelivery,
    Op,
    PutDelivery,
    PutExchange,
    PutSpawn,
    ReleaseRun,
    SettleDelivery,
    Submit,
    TakeDelivery,
)
from crossclaw.ledger.pieces import (
    BeginPreview,
    DeliveryPiece,
    DropPreview,
    NotePreview,
    SettlePiece,
    SplitDelivery,
    TakePiece,
)
from crossclaw.ledger.postgres.sharing import Sharing
from crossclaw.ledger.postgres.store import DatabaseAddress
from crossclaw.ledger.postgres.writer import PostgresWriter
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.movable import SqliteMovable
from crossclaw.ledger.sqlite.store import open_writer
from crossclaw.ledger.sqlite.writer import SqliteWriter
from crossclaw.ledger.writing import BatchWriter, WriterStep
from tests.databases import ServedStore, databases
from tests.ledger.making import says, session

KEYS = [SessionKey.named("main", name) for name in ("ana", "ben", "cho", "dan")]
WORDS = ["submit", "claim", "append", "end", "release", "inject", "say", "spawn", "send", "abort"]
WORDS += ["wait", "twice", "note", "void", "spawn", "send"]  # these reach beyond their own lane
plans = st.lists(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(KEYS)), min_size=1, max_size=14),
    min_size=1,
    max_size=4,
)

# What no constraint of a table would notice: two that begin to wait for each other, and one child too many.
CIRCLE = [[("submit", KEYS[0]), ("submit", KEYS[1])], [("wait", KEYS[0]), ("wait", KEYS[1])]]
CHILDREN = [[("submit", key) for key in KEYS], [("spawn", KEYS[0])] * 4]
NUMBERS = itertools.count(1)  # of all plans: an engine remembers whose lane a run's is


class Author:
    """Writes steps by what was claimed before, so that three engines get the same ones."""

    def __init__(self) -> None:
        self.claims: dict[SessionKey, Run] = {}

    def step(self, word: str, key: SessionKey) -> list[Op[Any]]:
        number, run = next(NUMBERS), self.claims.get(key)
        name = f"r{number}"
        match word:
            case "submit":
                return [session(key), self._submit(name, key, None), self._claim(key)]
            case "twice":  # the same request from several sides
                return [session(key), self._submit(name, key, Dedupe("chat", "k", key.text))]
            case "claim":
                return [self._claim(key)]
            case "inject":
                return [session(key), Inject(key=key, entries=[says(f"note {number}")], at=number)]
            case "say":
                new = NewDelivery(
                    delivery_key=f"d{number % 5}", key=key, address=Address("tg", "1"), text="hi"
                )
                return [session(key), PutDelivery(new=new, at=number, mirror=says("said"))]
            case "void":  # written, and then refused
                return [
                    session(key),
                    Submit(new=self._new(f"gone{number}", KEYS[0]), at=1),
                    self._lost(),
                ]
            case "note":
                return [Audit(at=1, agent_id="main", principal="p", action=name, target="t", allowed=True, reason="")]  # fmt: skip
            case "spawn" | "send":
                return self._reaching_out(word, name, key)
        return self._of_run(word, run, number)

    def _of_run(self, word: str, run: Run | None, number: int) -> list[Op[Any]]:
        if run is None:
            return [Audit(at=1, agent_id="main", principal="p", action="idle", target="t", allowed=True, reason="")]  # fmt: skip
        match word:
            case "append":
                return [Append(fence=run.fence, entries=[says(f"word {number}")], at=number)]
            case "end":
                said = Append(fence=run.fence, entries=[says("bye")], at=number)
                return [
                    said,
                    EndRun(fence=run.fence, outcome=Outcome("ok", reply="bye"), at=number),
                ]
            case "release":
                return [ReleaseRun(fence=run.fence)]
            case "wait":
                others = [each for each in self.claims.values() if each.key != run.key]
                return [
                    BeginWait(fence=run.fence, target_run_id=each.run_id, at=1) for each in others
                ]
        return [EndOpenRun(run_id=run.run_id, outcome=Outcome("aborted"), at=number)]

    def _reaching_out(self, word: str, name: str, key: SessionKey) -> list[Op[Any]]:
        other = KEYS[(KEYS.index(key) + 1 + int(name[1:]) % 3) % len(KEYS)]
        submit = Submit(new=self._new(name, other, Cause(chain=("root",), hops=1)), at=1)
        if word == "send":
            exchange = Exchange(
                exchange_id=name,
                agent_id="main",
                requester_key=key.text,
                target_key=other.text,
                run_id=name,
                request="?",
                turns_max=2,
                created_at=1,
                root="root",
            )
            return [session(other), submit, PutExchange(exchange=exchange, runs_max=2)]
        spawn = Spawn(
            child_key=f"{other.text}:{name}",
            agent_id="main",
            parent_key=key.text,
            run_id=name,
            task="t",
            cleanup="keep",
            created_at=1,
            root="root",
        )
        return [session(other), submit, PutSpawn(spawn=spawn, runs_max=2, children_max=2)]

    def _new(self, name: str, key: SessionKey, cause: Cause | None = None) -> NewRun:
        return NewRun(
            run_id=name, key=key, kind="chat", message=UserMessage(name), cause=cause or Cause()
        )

    def _submit(self, name: str, key: SessionKey, dedupe: Dedupe | None) -> Submit:
        return Submit(new=self._new(name, key), at=1, dedupe=dedupe)

    def _claim(self, key: SessionKey) -> Claim:
        return Claim(key=key, owner="me", at=2)

    def _lost(self) -> Op[Any]:
        return EndOpenRun(run_id="nobody", outcome=Outcome("aborted"), at=1, fenced=True)

    def learn(self, results: Sequence[Any]) -> None:
        for result in results:
            if isinstance(result, Claimed):
                self.claims[result.run.key] = result.run


def run(engine: BatchWriter, batch: Sequence[list[Op[Any]]], *, serially: bool) -> list[Any]:
    steps = [WriterStep(ops, anyio.Event()) for ops in batch]
    for part in [[step] for step in steps] if serially else [steps]:
        engine.run(part)
    return [
        msgspec.to_builtins(step.results) if not step.error else str(step.error) for step in steps
    ]


class Engines:
    """Lockstep and one by one on PostgreSQL, and SQLite: emptied, and not made anew, for each plan."""

    def __init__(self, folder: Path) -> None:
        self._urls = [databases().url(folder / name) for name in ("together", "alone")]
        addresses = [DatabaseAddress(url) for url in self._urls]
        self.served = [
            PostgresWriter(each.connect_writer, HANDLERS, "test", each.prepare())
            for each in addresses
        ]
        self._looks = [ServedStore(url) for url in self._urls]

    def contents(self, file: Path) -> list[dict[str, list[Any]]]:
        """Of each, all rows without the numbers that an engine gives; what is in a lane in its order."""
        store = SqliteMovable(file)
        tables = [(table.name, table.columns) for table in store.tables()]
        kept = [_rows_of(look.execute, tables) for look in self._looks]
        kept.append(store.run(lambda db: _rows_of(db.execute, tables)))
        store.close()
        return kept

    def empty(self) -> None:
        for look in self._looks:
            look.empty()

    def close(self) -> None:
        for engine in self.served:
            engine.close()
        for look in self._looks:
            look.close()


def _rows_of(execute: Callable[[str], Any], tables: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, columns in tables:
        names = ", ".join(column for column in columns if column != "id")
        sql = f"SELECT {names} FROM {name} ORDER BY {'key, id' if name == 'runs' else '1'}"
        rows = [table_row(row) for row in list(execute(sql))]
        found[name] = rows if name == "runs" else sorted(rows, key=repr)
    return found


def table_row(row: Sequence[Any]) -> list[Any]:
    return [round(value, 6) if isinstance(value, float) else value for value in row]


@pytest.fixture
def engines(tmp_path: Path) -> Generator[Engines]:
    made = Engines(tmp_path)
    yield made
    made.close()


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(plan=plans)
@example(plan=CIRCLE)
@example(plan=CHILDREN)
@pytest.mark.spec("B6")
def test_lockstep_equals_serial_execution_and_sqlite(
    engines: Engines, plan: list[list[tuple[str, SessionKey]]]
) -> None:
    engines.empty()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "l.sqlite"
        sqlite = SqliteWriter(open_writer(file), HANDLERS, inline=True)
        author = Author()
        for part in plan:
            batch = [author.step(word, key) for word, key in part]
            answers = [run(engines.served[0], batch, serially=False)]
            answers += [run(each, batch, serially=True) for each in (engines.served[1], sqlite)]
            assert answers[0] == answers[1] == answers[2]
            for each in (run_results(sqlite, key) for key in KEYS):
                author.claims.update(each)
        sqlite.close()
        kept = engines.contents(file)

    assert kept[0] == kept[1] == kept[2]


SENDING = ["take", "take", "split", "take piece", "settle piece", "settle", "show", "note", "drop"]
SENDING += ["put", "change session", "hear", "forget", "cursor"]
deliveries = st.lists(
    st.lists(st.tuples(st.sampled_from(SENDING), st.integers(1, 4)), min_size=1, max_size=14),
    min_size=1,
    max_size=4,
)
# What a delivery is taken with is read from its session and from what was shown of it.
TAKEN = [[("show", 1), ("take", 2), ("change session", 2), ("put", 1)]]
TAKEN += [[("change session", 2), ("take", 2), ("note", 1), ("take", 1), ("settle", 1)]]


def sending(word: str, number: int) -> list[Op[Any]]:
    """One step on the delivery of this number; each has a session of its own."""
    key, mine, at = KEYS[number - 1], f"s{number}", next(NUMBERS)
    pieces = tuple(
        DeliveryPiece(delivery_id=number, number=each, of=2, text="t", formatted="t")
        for each in (1, 2)
    )
    match word:
        case "take":
            return [TakeDelivery(delivery_id=number, at=at, key=key.text, delivery_key=mine)]
        case "split":
            return [SplitDelivery(delivery_id=number, pieces=pieces)]
        case "take piece":
            return [TakePiece(delivery_id=number, number=1, at=at)]
        case "settle piece":
            return [SettlePiece(delivery_id=number, number=1, state="failed")]
        case "settle":
            return [SettleDelivery(delivery_id=number, state="delivered", at=at)]
        case "show":  # of one that is not there yet
            return [BeginPreview(delivery_key=f"late{number}", at=at)]
        case "note":
            return [NotePreview(delivery_key=f"late{number}", platform_id=f"m{at}")]
        case "drop":
            return [DropPreview(delivery_key=f"late{number}")]
        case "put":
            new = NewDelivery(
                delivery_key=f"late{number}", key=key, address=Address("tg", "1"), text="hi"
            )
            return [PutDelivery(new=new, at=at)]
        case "change session":
            return [Inject(key=key, entries=[says(f"note {at}")], at=at)]
    return chatting(word, number, at)


def chatting(word: str, number: int, at: int) -> list[Op[Any]]:
    chat = {"channel": "tg", "account_id": "", "chat": f"s{number}", "thread_id": ""}
    match word:
        case "hear":
            which = f"h{at % 3}"
            heard = HeardMessage(**chat, message_id=which, sender="s", text=f"t{at}", at=at)
            once = Dedupe("inbound", f"s{number}:{which}", "")
            return [RememberHeard(heard=heard, keep=2, dedupe=once, at=at)]
        case "forget":
            return [ForgetHeard(**chat, message_ids=("h0", "h1"))]
    return [SaveCursor(channel="tg", account_id=str(number % 2), name="o", value=f"{at}", at=at)]


@settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
@given(plan=deliveries)
@example(plan=TAKEN)
@pytest.mark.spec("B6", "B2")
def test_deliveries_that_advance_together_are_as_if_one_by_one(
    engines: Engines, plan: list[list[tuple[str, int]]]
) -> None:
    engines.empty()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "l.sqlite"
        sqlite = SqliteWriter(open_writer(file), HANDLERS, inline=True)
        writers: list[BatchWriter] = [*engines.served, sqlite]
        first: list[list[Op[Any]]] = [
            [
                session(key),
                PutDelivery(
                    new=NewDelivery(
                        delivery_key=f"s{number}", key=key, address=Address("tg", "1"), text="hi"
                    ),
                    at=1,
                ),
            ]
            for number, key in enumerate(KEYS, 1)
        ]
        for each in writers:
            run(each, first, serially=True)
        for part in plan:
            batch = [sending(word, number) for word, number in part]
            answers = [run(engines.served[0], batch, serially=False)]
            answers += [run(each, batch, serially=True) for each in (engines.served[1], sqlite)]
            assert answers[0] == answers[1] == answers[2]
        sqlite.close()
        kept = engines.contents(file)

    assert kept[0] == kept[1] == kept[2]


def test_a_delivery_on_its_way_holds_up_nobody_else() -> None:
    """What is not known to be apart goes alone, and locks all of the store for all gateways."""
    sharing = Sharing()
    batch = [sending(word, number) for word in SENDING for number in (1, 2)]
    touched = sharing.touched([WriterStep(ops, anyio.Event()) for ops in batch])
    assert None not in touched
    alone = TakeDelivery(delivery_id=1, at=1)  # whose session it is was not said
    assert sharing.touched([WriterStep([alone], anyio.Event())]) == [None]


def run_results(engine: BatchWriter, key: SessionKey) -> dict[SessionKey, Run]:
    """The run that is under way in a lane, as the last batch has left it."""
    from crossclaw.ledger.sqlite.runs import list_open_runs  # noqa: PLC0415

    assert isinstance(engine, SqliteWriter)
    held = [each for each in list_open_runs(engine._db, key) if each.status != "queued"]
    return {key: held[0]} if held else {}
