"""The writer: one connection, many waiting steps, one fsync.

Each of several steps in a transaction has a savepoint of its own, so that one that fails does not
affect the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from crossclaw.domain.errors import StoreError, StoreFull
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite.errors import OF_ONE_STEP
from crossclaw.ledger.sqlite.figure_sums import CountedFigures, figure_writes
from crossclaw.ledger.sqlite.words import put_words
from crossclaw.ledger.writing import WriterStep


class Transaction(ABC):
    """What a step's operations work on: the connection, and what must be done at the end of the
    batch."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.words: list[tuple[int, str]] = []
        """Words for the search index, by the number of their entry."""
        self.appended: set[str] = set()
        self.kept: set[str] = set()
        """Hashes of what the step under way has brought along: its messages may name them."""
        self.counted: list[CountedFigures] = []
        """What is added to the figures (`figures.py`) with the commit."""
        self.models: dict[str, str] = {}
        """The model that last answered a run, by run id."""

    def get(self, sql: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The one row that a statement must return."""
        row: tuple[Any, ...] | None = self.db.execute(sql, values).fetchone()
        if row is None:
            raise StoreError(f"the ledger misses a row: {sql.split(' WHERE')[0]}")
        return row

    def hint(self, kind: str, value: str) -> None:  # noqa: B027  a file has one gateway
        """Sends a hint to other gateways on this ledger (`ledger/hints.py`), after the commit."""

    @abstractmethod
    def index(self, session_id: str, seq: int, words: str) -> None:
        """Adds the words of the entry that was just stored to the search index."""

    @abstractmethod
    def numbers_for(self, count: int) -> int:
        """The first of so many consecutive numbers for new entries."""


class SqliteTransaction(Transaction):
    """A transaction on SQLite. Words are indexed last, because the index flushes itself at every
    savepoint."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._connection = connection

    def index(self, session_id: str, seq: int, words: str) -> None:
        self.words.append((self._connection.last_insert_rowid(), words))

    def numbers_for(self, count: int) -> int:
        last: int = self.get("SELECT coalesce(max(id), 0) FROM entries", ())[0]
        return last + 1


OpHandler = Callable[[Transaction, Any], Any]


def run_batch(
    db: apsw.Connection, handlers: dict[type, OpHandler], steps: Sequence[WriterStep]
) -> set[str]:
    """Runs all these steps in one transaction. Returns the session ids that got entries."""
    transaction = SqliteTransaction(db)
    try:
        db.execute("BEGIN IMMEDIATE")
        if len(steps) > 1:
            for step in steps:
                _run_beside(transaction, db, handlers, step)
        elif not _run(transaction, handlers, steps[0]):
            db.execute("ROLLBACK")  # a step that is alone needs no savepoint
            return set()
        if transaction.words:
            put_words(db, transaction.words)
        if transaction.counted:
            for sql, values in figure_writes(transaction.counted):
                db.execute(sql, values)
        db.execute("COMMIT")
    except (apsw.Error, MemoryError) as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        failure = _failure(error)
        failure.__cause__ = error
        for step in steps:
            step.error = failure
        return set()
    return transaction.appended


def _run_beside(
    transaction: Transaction, db: apsw.Connection, handlers: dict[type, OpHandler], step: WriterStep
) -> None:
    words_before, counted_before = len(transaction.words), len(transaction.counted)
    if transaction.kept:
        transaction.kept = set()
    db.execute("SAVEPOINT step")
    if not _run(transaction, handlers, step):
        db.execute("ROLLBACK TO step")
        del transaction.words[words_before:], transaction.counted[counted_before:]
    db.execute("RELEASE step")


def _run(transaction: Transaction, handlers: dict[type, OpHandler], step: WriterStep) -> bool:
    """Runs a step's operations. False if it was refused: then nothing of it may stay."""
    try:
        step.results = [handlers[type(op)](transaction, op) for op in step.ops]
    except Exception as error:
        if isinstance(error, apsw.Error) and not isinstance(error, OF_ONE_STEP):
            raise  # the disk's trouble is everybody's; the batch is rolled back as a whole
        # Whatever else went wrong (a refusal, a text that no encoding takes) is this step's own.
        step.error = _refused(error) if isinstance(error, apsw.Error) else error
        return False
    return True


def _failure(error: apsw.Error | MemoryError) -> StoreError:
    if isinstance(error, apsw.FullError):
        return StoreFull("the disk is full: nothing was stored; make room on it and try again")
    return StoreError(f"the ledger could not write: {error}; nothing was stored")


def _refused(error: apsw.Error) -> StoreError:
    return StoreError(f"the ledger does not take this: {error}; nothing was stored")


class SqliteWriter:
    """The writing connection and what it does with each batch."""

    def __init__(
        self, db: apsw.Connection, handlers: dict[type, OpHandler], *, inline: bool
    ) -> None:
        self._db, self._handlers, self._inline = db, handlers, inline

    def run(self, steps: Sequence[WriterStep]) -> set[str]:
        appended = run_batch(self._db, self._handlers, steps)
        if not self._inline:
            _end_process_if_disk_lies(steps)
        return appended

    def close(self) -> None:
        self._db.close()


def _end_process_if_disk_lies(steps: Sequence[WriterStep]) -> None:
    """Ends the process after a failed write or fsync: nobody knows what is on disk, and only a
    restart reads it. A full disk is different: SQLite rolls back cleanly, and space may return."""
    error = steps[0].error
    cause = error.__cause__ if isinstance(error, StoreError) else None
    if isinstance(cause, apsw.Error) and not isinstance(cause, apsw.FullError | apsw.BusyError):
        raise cause
