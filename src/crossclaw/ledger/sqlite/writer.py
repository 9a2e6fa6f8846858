"""The writer: one connection, many waiting steps, one fsync.

Steps queue up while the disk works; the next transaction takes them all, each in a savepoint of its
own, so that one that fails takes nobody with it. A caller is told after the commit.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import apsw

from crossclaw.domain.errors import Busy, Stopped, StoreError, StoreFull
from crossclaw.ledger.operations import Op
from crossclaw.ledger.sqlite.errors import OF_ONE_STEP
from crossclaw.ledger.sqlite.words import put_words

log = logging.getLogger(__name__)

BATCH_STEPS_MAX = 256  # one transaction stays under some 20 ms, so nobody waits long for the disk
QUEUE_STEPS_MAX = (
    20_000  # at 10,000 steps/s two seconds of work; beyond that callers must slow down
)

Told = Callable[[set[str]], None]


class Transaction:
    """What a step's operations work on: the connection, and what must be done at the end of the
    batch. Words are indexed last, because the index flushes itself at every savepoint."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.words: list[tuple[int, str]] = []
        self.appended: set[str] = set()
        self.kept: set[str] = set()
        """Hashes of what the step under way has brought along: its messages may name them."""

    def get(self, sql: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The one row that a statement must answer."""
        row: tuple[Any, ...] | None = self.db.execute(sql, values).fetchone()
        if row is None:
            raise StoreError(f"the ledger misses a row: {sql.split(' WHERE')[0]}")
        return row


Handle = Callable[[Transaction, Any], Any]


class StepSignal(Protocol):
    """How a caller waits for its step, and how it is told."""

    def set(self) -> None: ...

    async def wait(self) -> None: ...


class _Future:
    """An event on asyncio, at a third of the price of anyio's; every step needs one."""

    __slots__ = ("_future",)

    def __init__(self, loop: Any) -> None:
        self._future = loop.create_future()

    def set(self) -> None:
        if not self._future.done():  # whoever waited may have been cancelled
            self._future.set_result(None)

    async def wait(self) -> None:
        await self._future


class WriterStep:
    """A caller's operations, and where its answer goes."""

    __slots__ = ("done", "error", "ops", "results")

    def __init__(self, ops: Sequence[Op[Any]], done: StepSignal) -> None:
        self.ops = ops
        self.done = done
        self.results: list[Any] = []
        self.error: Exception | None = None


def run_batch(
    db: apsw.Connection, handlers: dict[type, Handle], steps: Sequence[WriterStep]
) -> set[str]:
    """One transaction for all these steps. Answers the session ids that got entries."""
    transaction = Transaction(db)
    try:
        db.execute("BEGIN IMMEDIATE")
        for step in steps:
            _run_step(transaction, handlers, step)
        if transaction.words:
            put_words(db, transaction.words)
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


def _run_step(transaction: Transaction, handlers: dict[type, Handle], step: WriterStep) -> None:
    db, words_before = transaction.db, len(transaction.words)
    if transaction.kept:
        transaction.kept = set()
    db.execute("SAVEPOINT step")
    try:
        step.results = [handlers[type(op)](transaction, op) for op in step.ops]
    except Exception as error:
        if isinstance(error, apsw.Error) and not isinstance(error, OF_ONE_STEP):
            raise  # the disk's trouble is everybody's; the batch is rolled back as a whole
        # Whatever else went wrong (a refusal, a text that no encoding takes) is this step's own.
        db.execute("ROLLBACK TO step")
        del transaction.words[words_before:]
        step.error = _refused(error) if isinstance(error, apsw.Error) else error
    db.execute("RELEASE step")


def _failure(error: apsw.Error | MemoryError) -> StoreError:
    if isinstance(error, apsw.FullError):
        return StoreFull("the disk is full: nothing was stored; make room on it and try again")
    return StoreError(f"the ledger could not write: {error}; nothing was stored")


def _refused(error: apsw.Error) -> StoreError:
    return StoreError(f"the ledger does not take this: {error}; nothing was stored")


class InlineWriter:
    """Each step is its own transaction, at once, in the caller's task: for virtual time, where a
    pending thread would look like idleness."""

    def __init__(self, db: apsw.Connection, handlers: dict[type, Handle], told: Told) -> None:
        self._db, self._handlers, self._told = db, handlers, told

    async def commit(self, ops: Sequence[Op[Any]]) -> list[Any]:
        await anyio.lowlevel.checkpoint()
        step = WriterStep(ops, anyio.Event())
        appended = run_batch(self._db, self._handlers, [step])
        if appended:
            self._told(appended)
        if step.error is not None:
            raise step.error
        return step.results

    async def close(self) -> None:
        self._db.close()


class ThreadWriter:
    """The real one: a thread of its own, group commit, answers posted back once a batch."""

    def __init__(self, db: apsw.Connection, handlers: dict[type, Handle], told: Told) -> None:
        self._db, self._handlers, self._told = db, handlers, told
        self._queue: SimpleQueue[WriterStep | None] = SimpleQueue()
        self._post = _poster()
        self._done = _done_maker()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="ledger writer", daemon=True)
        self._thread.start()

    async def commit(self, ops: Sequence[Op[Any]]) -> list[Any]:
        if self._closed:
            raise Stopped("the ledger is closed")
        if self._queue.qsize() >= QUEUE_STEPS_MAX:
            raise Busy("the ledger has too much to write; try again in a moment")
        step = WriterStep(ops, self._done())
        self._queue.put(step)
        await step.done.wait()
        if step.error is not None:
            raise step.error
        return step.results

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            await anyio.to_thread.run_sync(self._thread.join)

    def _serve(self) -> None:
        try:
            while steps := self._take():
                appended = run_batch(self._db, self._handlers, steps)
                self._post(_Telling(steps, appended, self._told))
                _end_process_if_disk_lies(steps)
            self._db.close()
        except BaseException:
            # Without its writer the house would accept what it cannot keep. The next start recovers.
            log.critical("the ledger's writer failed; the gateway ends now", exc_info=True)
            os._exit(70)

    def _take(self) -> list[WriterStep]:
        """The waiting steps, at least one; none when closed."""
        first = self._queue.get()
        if first is None:
            return []
        steps = [first]
        while len(steps) < BATCH_STEPS_MAX and not self._queue.empty():
            step = self._queue.get()
            if step is None:
                self._queue.put(None)
                break
            steps.append(step)
        return steps


def _end_process_if_disk_lies(steps: Sequence[WriterStep]) -> None:
    """After a failed write or fsync nobody knows what is on disk: only a restart reads the truth.
    A full disk is different: SQLite rolls back cleanly, and space may return."""
    error = steps[0].error
    cause = error.__cause__ if isinstance(error, StoreError) else None
    if isinstance(cause, apsw.Error) and not isinstance(cause, apsw.FullError | apsw.BusyError):
        raise cause


class _Telling:
    """Runs in the event loop after a commit: wakes the callers, then tells of the new entries."""

    __slots__ = ("_appended", "_steps", "_told")

    def __init__(self, steps: Sequence[WriterStep], appended: set[str], told: Told) -> None:
        self._steps, self._appended, self._told = steps, appended, told

    def __call__(self) -> None:
        for step in self._steps:
            step.done.set()
        if self._appended:
            self._told(self._appended)


def _done_maker() -> Callable[[], StepSignal]:
    loop: Any = anyio.lowlevel.current_token().native_token
    return partial(_Future, loop) if hasattr(loop, "create_future") else anyio.Event


def _poster() -> Callable[[Callable[[], None]], None]:
    """How another thread hands a callable to this event loop, on asyncio and on trio."""
    loop: Any = anyio.lowlevel.current_token().native_token
    call_soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    def post(callback: Callable[[], None]) -> None:
        try:
            call_soon(callback)
        except RuntimeError:
            log.debug("the event loop has ended before the ledger's last answer")

    return post
