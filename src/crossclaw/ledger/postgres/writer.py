"""The writer on PostgreSQL: one connection, one transaction for many waiting steps, shared round
trips.

Steps that share nothing advance in lockstep. If one of them cannot be stored after it has written
something, all is rolled back, and the steps run one by one, each with a savepoint of its own: what
fails then fails alone. A commit that was cut off has happened or not, and the server knows: each
transaction writes its number into the row of its writer, which is read as soon as the server can be
reached again.
"""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from crossclaw.domain.errors import StoreError, StoreFenced
from crossclaw.ledger.hints import ENTRIES
from crossclaw.ledger.postgres.dialect import PgStatement, translate
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.listener import CHANNEL, payload_of, without_claimed
from crossclaw.ledger.postgres.locking import locks_for
from crossclaw.ledger.postgres.lockstep import PendingRows, PipelinedDatabase, RuleRun
from crossclaw.ledger.postgres.sharing import Sharing
from crossclaw.ledger.postgres.store import WRITER_LOCKS
from crossclaw.ledger.postgres.wire import BoundStatement, PgWire, bound
from crossclaw.ledger.postgres.words import vector_of
from crossclaw.ledger.sqlite.figure_sums import CountedFigures, figure_writes
from crossclaw.ledger.sqlite.writer import OpHandler, Transaction
from crossclaw.ledger.writing import WriterStep

log = logging.getLogger(__name__)

PATIENCE_S = 8.0  # a server that restarts is back by then, and nobody has noticed
FATE_PATIENCE_S = 60.0  # nobody may be told "nothing was stored" before it is known
PAUSE_S = 0.1
TRIES_MAX = 5  # of a transaction that the server has ended, for the sake of another one or with the connection

SHARDS = 16  # of the rows of figures: gateways that share a store seldom wait for each other there

_WORDS = "INSERT INTO entries_words (id, words) VALUES (?, ?::tsvector)"
_WORDS_OF = (
    "INSERT INTO entries_words (id, words) "
    "SELECT id, ?::tsvector FROM entries WHERE session_id = ? AND seq = ?"
)
_NUMBERS = (
    "SELECT setval(pg_get_serial_sequence('entries', 'id'), "
    "nextval(pg_get_serial_sequence('entries', 'id')) + ? - 1) - ? + 1"
)


class PostgresTransaction(Transaction):
    """A step's transaction. It defers nothing to its end: a write whose result nobody reads costs
    no round trip."""

    def __init__(self, db: PipelinedDatabase) -> None:
        super().__init__(db)
        self.hints: set[tuple[str, str]] = set()

    def hint(self, kind: str, value: str) -> None:
        self.hints.add((kind, value))

    def index(self, session_id: str, seq: int, words: str) -> None:
        self.db.execute(_WORDS_OF, (vector_of(words), session_id, seq))

    def numbers_for(self, count: int) -> int:
        first: int = self.get(_NUMBERS, (count, count))[0]
        return first

    def index_numbered(self) -> None:
        for number, words in self.words:
            self.db.execute(_WORDS, (number, vector_of(words)))


class _StepResult(NamedTuple):
    results: list[Any]
    appended: set[str]
    hints: set[tuple[str, str]]
    counted: list[CountedFigures]


_FENCED = "this gateway has lost its place among those that share the database; nothing was stored"
_HALVED = (
    "the database had too little memory or too few locks for %d steps at once; they are stored in two transactions. "
    "If this happens often, raise max_locks_per_transaction there: %s"
)
# The connection before this one, which the server may not have noticed to be gone.
_END_FORMER = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid() "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND objsubid = 2 AND classid::bigint = $1 AND objid = ($2::int)::oid"
)


def _command(sql: bytes) -> BoundStatement:
    return BoundStatement(PgStatement(sql, writes=False))


_BEGIN, _COMMIT = _command(b"BEGIN"), _command(b"COMMIT")
_SIGN = PgStatement(
    b"INSERT INTO batches (number, writer) VALUES ($1, $2) "
    b"ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = now()",
    writes=True,
)
# It writes, so its answer waits for a synchronous standby, which then has all that was stored before it. A read would
# show what only the primary has: to end a connection that waits for the standby ends its waiting, not its transaction.
_FATE = "UPDATE batches SET at = now() WHERE writer = $1 RETURNING number"
_NOTIFY = PgStatement(f"SELECT pg_notify('{CHANNEL}', $1)".encode(), writes=False)
_SAVE, _UNDO, _KEEP = (
    _command(b"SAVEPOINT step"),
    _command(b"ROLLBACK TO SAVEPOINT step"),
    _command(b"RELEASE SAVEPOINT step"),
)


class NotTogether(Exception):
    """Raised if a step fails after its writes were sent: the others run again without it."""


class CommitLost(Exception):
    """Raised if the connection was cut while the commit was on its way."""


class BatchTransaction:
    """One transaction on the server, from its first statement to its commit."""

    def __init__(
        self,
        wire: PgWire,
        locks: Sequence[BoundStatement] = (),
        guard: BoundStatement | None = None,
    ) -> None:
        """Begins with the locks, then the guard: a statement that must return a row."""
        self._wire = wire
        self._ready: list[tuple[BoundStatement, PendingRows | None]] = [(_BEGIN, None)]
        self._ready += [(lock, None) for lock in locks]
        self._guard = PendingRows(PipelinedDatabase("")) if guard is not None else None
        if guard is not None:
            self._ready.append((guard, self._guard))

    def run_together(self, jobs: Sequence[RuleRun[Any]]) -> None:
        """Runs all to their end; their last writes are sent with the next round trip."""
        for job in jobs:
            job.advance()
        while True:
            for job in jobs:
                if job.error is not None:
                    _drop(job)
            under_way = [job for job in jobs if not job.is_over]
            if not under_way:
                break
            self._fly(self._waiting(jobs))
            for job in under_way:
                job.advance()
        self._ready += self._waiting(jobs)

    def run_alone(self, job: RuleRun[Any]) -> None:
        """Runs one behind a savepoint, so that its failure affects no other."""
        self._ready.append((_SAVE, None))
        job.advance()
        try:
            while not job.is_over:
                self._fly(self._waiting([job]))
                job.advance()
            if job.error is None:
                self._fly(self._waiting([job]))
        except ServerTrouble as trouble:
            if not trouble.of_one_step:
                raise
            job.fail(trouble.refusal)
        job.database.waiting.clear()
        self._ready.append((_UNDO if job.error is not None else _KEEP, None))

    def _waiting(
        self, jobs: Sequence[RuleRun[Any]]
    ) -> list[tuple[BoundStatement, PendingRows | None]]:
        return [each for job in jobs for each in job.database.take()]

    def _fly(self, statements: list[tuple[BoundStatement, PendingRows | None]]) -> None:
        sent, self._ready = self._ready + statements, []
        if not sent:
            return
        (fate,) = self._wire.run_pipelined([[each for each, _ in sent]])
        if isinstance(fate, ServerTrouble):
            raise fate
        for (_, rows), answer in zip(sent, fate, strict=True):
            if rows is not None:
                rows.resolve(answer)
        if self._guard is not None:
            guarded, self._guard = self._guard, None
            if not guarded.fetchall():
                raise StoreFenced(_FENCED)

    def add(self, statements: Sequence[BoundStatement]) -> None:
        """Queues writes whose result nobody reads, for the next round trip."""
        self._ready += [(each, None) for each in statements]

    def commit(self, sign: BoundStatement | None, notify: BoundStatement | None = None) -> None:
        """Commits, with this transaction's number if it has written anything. Others are notified
        after it, in the same round trip: inside it they would queue up for the one lock that
        notifications have, through every flush."""
        if self._guard is not None:
            self._fly([])
        end: list[tuple[BoundStatement, PendingRows | None]] = (
            [(sign, None)] if sign is not None else []
        )
        sent, self._ready = [*self._ready, *end, (_COMMIT, None)], []
        groups = [[each for each, _ in sent], *([[notify]] if notify is not None else [])]
        try:
            fate = self._wire.run_pipelined(groups)[0]
        except ConnectionLost as lost:
            raise CommitLost from lost
        if isinstance(fate, ServerTrouble):
            raise fate

    def roll_back(self) -> None:
        self._ready = []
        self._wire.run_pipelined([[_command(b"ROLLBACK")]])


def _drop(job: RuleRun[Any]) -> None:
    """Removes a step that was refused. If some of its writes were sent, the others must start again
    without it."""
    if job.database.has_written:
        raise NotTogether
    job.database.waiting.clear()


class PostgresWriter:
    """Keeps a connection that may write, and opens another one when it is lost."""

    def __init__(
        self,
        connect: Callable[[], PgWire],
        handlers: dict[type, OpHandler],
        filename: str,
        wire: PgWire | None = None,
        *,
        shared: bool = False,
    ) -> None:
        self._connect = connect
        self._shared = shared
        self._guard: BoundStatement | None = None
        self._handlers = handlers
        self._filename = filename
        self._sharing = Sharing()
        self.name = secrets.token_hex(8)
        self._number = 0
        self._wire = wire
        if wire is not None:
            self._sign_in(wire)
        self._lost_at: float | None = None
        self._appended: set[str] = set()

    def guard_by(self, statement: BoundStatement) -> None:
        """A transaction is stored only while this answers a row."""
        self._guard = statement

    def run(self, steps: Sequence[WriterStep]) -> set[str]:
        try:
            return self._stored(steps)
        except ServerTrouble as trouble:
            if trouble.is_too_much and len(steps) > 1:
                log.info(_HALVED, len(steps), trouble)
                half = len(steps) // 2
                return self.run(steps[:half]) | self.run(steps[half:])
            return _fail(steps, trouble.failure)
        except ConnectionLost as lost:
            return _fail(
                steps,
                StoreError(f"the database cannot be reached: {lost}; nothing was stored"),
            )
        except (
            StoreError
        ) as error:  # fenced, or another gateway has it, or nobody knows what became of a commit
            _fail(steps, error)
            return self._appended  # which may be stored: whoever holds such a session looks again

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()

    def _stored(self, steps: Sequence[WriterStep]) -> set[str]:
        together, tries = True, 0
        while True:
            try:
                return self._attempt(self._connected(), steps, together=together)
            except NotTogether:
                together = False
            except ServerTrouble as trouble:
                tries += 1
                if together and trouble.of_one_step:
                    together = False
                elif trouble.is_too_much and len(steps) == 1 and tries < TRIES_MAX:
                    time.sleep(PAUSE_S)  # others have the room
                elif not trouble.may_work_again or tries >= TRIES_MAX:
                    raise
            except CommitLost:
                self._lose()
                if self._has_committed():
                    self._notify_late()
                    return self._appended
            except ConnectionLost as lost:
                self._lose()
                tries += 1
                if tries >= TRIES_MAX:  # what ends the connection each time is in these steps
                    raise
                log.warning("the database was lost and is looked for again: %s", lost)

    def _attempt(self, wire: PgWire, steps: Sequence[WriterStep], *, together: bool) -> set[str]:
        touched = self._sharing.touched(steps)
        locks = locks_for(touched) if self._shared else ()
        transaction = BatchTransaction(wire, locks, self._guard)
        self._appended = set()
        self._notification: BoundStatement | None = None
        jobs: list[tuple[WriterStep, RuleRun[_StepResult]]] = []
        rounds = self._sharing.rounds(steps, touched) if together else [[step] for step in steps]
        try:
            for each in rounds:
                made = [(step, self._job(step)) for step in each]
                jobs += made
                if together:
                    transaction.run_together([job for _, job in made])
                else:
                    transaction.run_alone(made[0][1])
            self._take_answers(jobs)
            transaction.add(self._figures(jobs))
            self._notification = self._notify(jobs)
            transaction.commit(self._sign(jobs), self._notification)
        except (ServerTrouble, NotTogether, StoreFenced):
            transaction.roll_back()
            raise
        for step in steps:
            self._sharing.learn(step)
        return self._appended

    def _sign(
        self, jobs: Sequence[tuple[WriterStep, RuleRun[_StepResult]]]
    ) -> BoundStatement | None:
        if not any(job.database.has_written for _, job in jobs):
            return None
        self._number += 1
        return bound(_SIGN, (self._number, self.name))

    def _figures(
        self, jobs: Sequence[tuple[WriterStep, RuleRun[_StepResult]]]
    ) -> list[BoundStatement]:
        """The statements that add up what the steps have counted; they are sent with the commit."""
        ended = [job.result for _, job in jobs if job.result is not None and job.error is None]
        counted = [each for done in ended for each in done.counted]
        shard = crc32(self.name.encode()) % SHARDS if self._shared else 0
        return [bound(translate(sql), values) for sql, values in figure_writes(counted, shard)]

    def _notify(
        self, jobs: Sequence[tuple[WriterStep, RuleRun[_StepResult]]]
    ) -> BoundStatement | None:
        if not self._shared:
            return None
        done = [job.result for _, job in jobs if job.result is not None and job.error is None]
        hints = {hint for each in done for hint in each.hints}
        hints |= {(ENTRIES, session_id) for session_id in self._appended}
        return bound(_NOTIFY, (payload_of(self.name, hints).decode(),)) if hints else None

    def _notify_late(self) -> None:
        """Notifies others of a commit that was cut off. If this is lost too, they look each
        second."""
        if self._notification is None:
            return
        try:
            self._connected().run_pipelined([[self._notification]])
        except (ConnectionLost, StoreError) as error:
            self._lose()
            log.debug("the other gateways are not notified: %s", error)

    def _take_answers(self, jobs: Sequence[tuple[WriterStep, RuleRun[_StepResult]]]) -> None:
        for step, job in jobs:
            step.error, step.results = job.error, []
            if job.result is not None and job.error is None:
                step.results = job.result.results
                self._appended |= job.result.appended

    def _job(self, step: WriterStep) -> RuleRun[_StepResult]:
        def work(database: PipelinedDatabase) -> _StepResult:
            transaction = PostgresTransaction(database)
            results = [self._handlers[type(op)](transaction, op) for op in step.ops]
            transaction.index_numbered()
            hints = without_claimed(transaction.hints, results)
            return _StepResult(results, transaction.appended, hints, transaction.counted)

        return RuleRun(work, self._filename)

    # ── the connection ─────────────────────────────────────────────────────────────────────────

    def _lose(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._lost_at is None:
            self._lost_at = time.monotonic()

    def _sign_in(self, wire: PgWire) -> None:
        """Takes the lock of this writer: once it has it, the connection before this one has ended.
        Removes rows of writers that ended long ago."""
        self._lock_own(wire)
        wire.ask(
            "DELETE FROM batches WHERE writer <> $1 AND (NOT $2::bool OR at < now() - interval '1 day')",
            self.name,
            self._shared,
        )

    def _lock_own(self, wire: PgWire) -> None:
        own = (WRITER_LOCKS, int.from_bytes(bytes.fromhex(self.name)[:4], signed=True))
        until = time.monotonic() + PATIENCE_S
        while wire.ask("SELECT pg_try_advisory_lock($1::int, $2::int)", *own) != [(True,)]:
            if time.monotonic() > until:
                wire.close()
                raise StoreError("the connection before this one has not ended yet")
            wire.ask(_END_FORMER, *own)
            time.sleep(PAUSE_S / 2)

    def _connected(self, patience_s: float = PATIENCE_S) -> PgWire:
        while self._wire is None:
            try:
                wire = self._connect()
                self._sign_in(wire)
                self._wire = wire
            except (ConnectionLost, StoreError) as error:
                began = self._lost_at or time.monotonic()
                if time.monotonic() - began > patience_s:
                    raise StoreError(
                        f"the database cannot be reached: {error}; nothing was stored"
                    ) from error
                time.sleep(PAUSE_S)
        self._lost_at = None
        return self._wire

    def _has_committed(self) -> bool:
        """Whether a commit whose answer was cut off has happened. The lock of this writer is ours
        again before the question, so the connection that sent it has ended. A transaction that
        wrote nothing has no number, and may run again."""
        until = time.monotonic() + FATE_PATIENCE_S
        while True:
            try:
                stored = self._connected(FATE_PATIENCE_S).ask(_FATE, self.name)
            except ConnectionLost as lost:
                self._lose()
                if time.monotonic() > until:
                    raise _unknown_fate(lost) from lost
            except (ServerTrouble, StoreError) as error:
                raise _unknown_fate(error) from error
            else:
                committed = stored == [(self._number,)]
                fate = "stored" if committed else "not stored"
                log.warning("a commit was cut off: it was %s", fate)
                return committed


def _unknown_fate(error: Exception) -> StoreError:
    return StoreError(
        "the connection to the database was lost during a commit, and it has not come back: nobody "
        f"knows yet whether this was stored ({error})"
    )


def _fail(steps: Sequence[WriterStep], error: StoreError) -> set[str]:
    for step in steps:
        step.error, step.results = error, []
    return set()
