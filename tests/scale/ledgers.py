"""The ledger of a gateway that shares the stand-in: its writer takes what waits into one transaction, as the real one does."""

import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec

from crossclaw.domain.aliases import Hints
from crossclaw.domain.errors import StoreError, StoreFenced
from crossclaw.ledger.gateways import TakeOver, TellGateways
from crossclaw.ledger.hints import HintBoard
from crossclaw.ledger.operations import Op
from crossclaw.ledger.postgres.listener import payload_of, without_claimed
from crossclaw.ledger.postgres.membership import IS_HERE, PostgresMembership
from crossclaw.ledger.postgres.taking_over import take_over, tell_gateways
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.sqlite.errors import READ_TROUBLE, explain
from crossclaw.ledger.sqlite.figure_sums import figure_writes
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.reads import ReadTable
from crossclaw.ledger.sqlite.words import put_words
from crossclaw.ledger.sqlite.writer import SqliteTransaction
from crossclaw.ledger.writing import BATCH_STEPS_MAX, LedgerWrites, WriterStep
from tests.scale.standing_in import StandIn

T = TypeVar("T")

Publish = Callable[[str, Mapping[str, Hints] | None], None]
_ALL = HANDLERS | {TakeOver: take_over, TellGateways: tell_gateways}


class HintingTransaction(SqliteTransaction):
    def __init__(self, store: StandIn) -> None:
        super().__init__(store.db)
        self.db = store
        self.hints: set[tuple[str, str]] = set()
        """Of the step under way."""
        self.told: set[tuple[str, str]] = set()

    def hint(self, kind: str, value: str) -> None:
        self.hints.add((kind, value))


class SharedWriter:
    """Steps that wait for the one before go together, each with its own fate."""

    def __init__(self, store: StandIn, publish: Publish) -> None:
        self.owner = secrets.token_hex(8)
        self._store, self._publish = store, publish
        self._waiting: deque[WriterStep] = deque()
        self._is_writing = self.is_dead = False

    async def commit(self, ops: Sequence[Op[Any]]) -> list[Any]:
        step = WriterStep(ops, anyio.Event())
        self._waiting.append(step)
        if self._is_writing:
            await step.done.wait()
        else:
            await self._write_all()
        if step.error is not None:
            raise step.error
        return step.results

    async def close(self) -> None: ...

    async def _write_all(self) -> None:
        """Whoever comes first writes for those that come meanwhile, whatever becomes of itself."""
        self._is_writing = True
        with anyio.CancelScope(shield=True):
            while self._waiting:
                steps = [
                    self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_STEPS_MAX))
                ]
                if self.is_dead:
                    _fail(steps, StoreError("this gateway was killed"))
                else:
                    run = partial(self._run, steps)
                    await self._store.server.carry_out(name_of(steps), run, commits=True)
                for step in steps:
                    step.done.set()
        self._is_writing = False

    def _run(self, steps: Sequence[WriterStep]) -> None:
        db = self._store.db
        transaction = HintingTransaction(self._store)
        db.execute("BEGIN IMMEDIATE")
        if not self._store.ask(IS_HERE, self.owner):
            db.execute("ROLLBACK")
            _fail(steps, StoreFenced("this gateway has lost its place"))
            return
        for step in steps:
            self._run_step(transaction, step)
        if transaction.words:
            put_words(db, transaction.words)
        for sql, values in figure_writes(transaction.counted):
            db.execute(sql, values)
        db.execute("COMMIT")
        if transaction.told:
            self._publish(self.owner, _hints_in(payload_of(self.owner, transaction.told)))

    def _run_step(self, transaction: HintingTransaction, step: WriterStep) -> None:
        self._store.db.execute("SAVEPOINT step")
        try:
            transaction.hints = set()
            step.results = [_ALL[type(op)](transaction, op) for op in step.ops]
            transaction.told |= without_claimed(transaction.hints, step.results)
        except Exception as error:  # noqa: BLE001  told to whoever has asked
            self._store.db.execute("ROLLBACK TO step")
            step.error = error
        self._store.db.execute("RELEASE step")


def _hints_in(payload: bytes) -> Mapping[str, Hints] | None:
    """As the listener of another gateway reads them; None: there were too many for a notification."""
    hints = msgspec.json.decode(payload)["hints"]
    return hints and {kind: frozenset(values) for kind, values in hints.items()}


def name_of(steps: Sequence[WriterStep]) -> str:
    return (
        "take-overs"
        if any(type(op) is TakeOver for step in steps for op in step.ops)
        else "steps of runs"
    )


def _fail(steps: Sequence[WriterStep], error: Exception) -> None:
    for step in steps:
        step.error = error


class TimedMembership(PostgresMembership):
    """The real one; each call takes as long as the server would."""

    def __init__(self, store: StandIn, incarnation: str) -> None:
        connect: Any = lambda: store  # noqa: E731  it asks and closes as a wire does
        super().__init__(connect, incarnation, lambda: None, inline=True)
        self._server = store.server
        self.is_dead = False

    async def _call(self, work: Callable[[PgWire], T]) -> T:
        if self.is_dead:
            raise StoreError("this gateway was killed")
        return await self._server.carry_out(
            "gateways among themselves", lambda: self._on_wire(work)
        )


class SharedLedger(LedgerWrites, ReadTable):
    """What lanes, leases and the sweep ask of a ledger."""

    trouble = READ_TROUBLE
    explain = staticmethod(explain)

    def __init__(self, store: StandIn, publish: Publish) -> None:
        self._store = store
        self._listeners = []
        self._hints = HintBoard()
        self.writer = SharedWriter(store, publish)
        self._writer: Any = self.writer
        self.owner, self.shared = self.writer.owner, True
        self.gateways = TimedMembership(store, self.owner)

    @property
    def hints(self) -> HintBoard:
        return self._hints

    async def look(self, read: Callable[..., T], args: tuple[Any, ...], named: dict[str, Any]) -> T:
        return await self._store.server.carry_out(
            "reads", lambda: read(self._store, *args, **named)
        )

    async def scan(self, read: Callable[[Any], T]) -> T:
        return await self._store.server.carry_out("reads", lambda: read(self._store))

    def kill(self) -> None:
        self.writer.is_dead = self.gateways.is_dead = True
