"""Lockstep: many handlers advance together, and their statements share round trips.

A handler is a plain function that executes one statement after the other. Here each runs in a
greenlet: its writes are only queued, and when it reads rows it pauses until the next one has
brought them. So the rules are the same lines that SQLite runs, one round trip serves all that wait, and a
write whose result nobody reads costs no round trip.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

from crossclaw.ledger.postgres.dialect import translate
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.wire import BoundStatement, PgWire, StatementResult, bound
from crossclaw.ledger.postgres.words import query_of

T = TypeVar("T")


class PendingRows:
    """The rows of a statement that was sent, or still has to be."""

    __slots__ = ("_answer", "_database", "_next")

    def __init__(self, database: "PipelinedDatabase") -> None:
        self._database = database
        self._answer: StatementResult | None = None
        self._next = 0

    def resolve(self, answer: StatementResult) -> None:
        self._answer = answer

    @property
    def answer(self) -> StatementResult:
        while self._answer is None:
            self._database.wait_for_rows()
        return self._answer

    def fetchone(self) -> Any:
        rows = self.answer.rows
        if self._next >= len(rows):
            return None
        self._next += 1
        return rows[self._next - 1]

    def fetchall(self) -> list[Any]:
        rest = self.answer.rows[self._next :]
        self._next += len(rest)
        return rest

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())

    @property
    def get(self) -> Any:
        row = self.fetchone()
        return row[0] if row is not None and len(row) == 1 else row


class PipelinedDatabase:
    """A `Database` over the network, for one handler."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.waiting: list[tuple[BoundStatement, PendingRows]] = []
        self.has_written = False
        """Whether some of its writes were sent, which a rollback would have to undo."""
        self._last: PendingRows | None = None

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> PendingRows:
        rows = self._last = PendingRows(self)
        statement = translate(sql)
        if statement.searches:
            values = (query_of(values[0]), *values[1:])
        self.waiting.append((bound(statement, values), rows))
        return rows

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        for values in rows:
            self.execute(sql, values)

    def changes(self) -> int:
        return self._last.answer.changes if self._last is not None else 0

    def wait_for_rows(self) -> None:
        """Pauses the handler until the next round trip is done."""
        getcurrent().parent.switch()

    def take(self) -> list[tuple[BoundStatement, PendingRows]]:
        taken, self.waiting = self.waiting, []
        if not self.has_written:
            self.has_written = any(each.statement.writes for each, _ in taken)
        return taken


class RuleRun(Generic[T]):
    """A handler or read under way."""

    def __init__(self, work: Callable[[PipelinedDatabase], T], filename: str) -> None:
        self.database = PipelinedDatabase(filename)
        self.result: T | None = None
        self.error: Exception | None = None
        self._work = work
        self._greenlet: greenlet | None = None

    @property
    def is_over(self) -> bool:
        return self._greenlet is not None and self._greenlet.dead

    def advance(self) -> None:
        """Runs it until it needs rows that are not there yet, or to its end."""
        if self._greenlet is None:  # it belongs to the thread in which it begins
            self._greenlet = greenlet(self._run)
        self._greenlet.switch()

    def fail(self, error: Exception) -> None:
        """Raises an error in it, because its rows cannot be read."""
        self.database.waiting.clear()
        if self._greenlet is None or self._greenlet.dead:
            self.error = error
        else:
            self._greenlet.throw(error)

    def _run(self) -> None:
        try:
            self.result = self._work(self.database)
        except Exception as error:  # noqa: BLE001  told to whoever has asked
            self.error = error


def read_together(wire: PgWire, jobs: Sequence[RuleRun[Any]]) -> None:
    """One round trip for several reads, after which each advances. If one fails, the others do
    not."""
    sent = [(job, job.database.take()) for job in jobs]
    try:
        fates = wire.run_pipelined([[each for each, _ in taken] for _, taken in sent])
    except ConnectionLost as lost:
        for job in jobs:
            job.fail(lost)
        raise
    for (job, taken), fate in zip(sent, fates, strict=True):
        if isinstance(fate, ServerTrouble):
            job.fail(fate)
            continue
        for (_, rows), answer in zip(taken, fate, strict=True):
            rows.resolve(answer)
        job.advance()


def read_alone(wire: PgWire, read: Callable[[PipelinedDatabase], T], filename: str) -> T:
    job = RuleRun(read, filename)
    job.advance()
    while not job.is_over:
        read_together(wire, [job])
    if job.error is not None:
        raise job.error
    result: Any = job.result  # of the read's own type: it has ended without an error
    return result  # type: ignore[no-any-return]
