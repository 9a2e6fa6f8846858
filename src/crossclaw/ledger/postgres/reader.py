"""Reading on PostgreSQL: waiting reads share round trips, and long ones have connections of their
own."""

from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from crossclaw.domain.errors import Stopped
from crossclaw.ledger.database import Database
from crossclaw.ledger.postgres.errors import READ_TROUBLE, ConnectionLost, explain
from crossclaw.ledger.postgres.lockstep import PipelinedDatabase, RuleRun, read_alone, read_together
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.sqlite.reads import SCANS_AT_ONCE, ReadTable
from crossclaw.ledger.threads import QueueThread, StepSignal

T = TypeVar("T")
Connect = Callable[[], PgWire]

READS_TOGETHER_MAX = 256


class _PendingRead:
    """A read and the caller who waits for it."""

    __slots__ = ("done", "job")

    def __init__(self, job: RuleRun[Any], done: StepSignal) -> None:
        self.job = job
        self.done = done


class SharedReader(QueueThread[_PendingRead]):
    """A thread with one connection. All waiting reads advance together, with one round trip for
    all."""

    def __init__(self, connect: Connect, filename: str) -> None:
        self._connect = connect
        self._filename = filename
        self._wire: PgWire | None = None
        super().__init__("ledger reader")

    async def read(self, read: Callable[[PipelinedDatabase], T]) -> T:
        self._refuse_closed()
        pending = _PendingRead(RuleRun(read, self._filename), self._done())
        self._queue.put(pending)
        await pending.done.wait()
        if pending.job.error is not None:
            raise pending.job.error
        result: Any = pending.job.result  # of the read's own type: it has ended without an error
        return result  # type: ignore[no-any-return]

    def _serve(self) -> None:
        under_way: list[_PendingRead] = []
        while True:
            more = self._take(wait=not under_way)
            if more is None:
                break
            for pending in more:
                pending.job.advance()
            under_way = self._tell_those_over([*under_way, *more])
            if under_way:
                self._fly(under_way)
                under_way = self._tell_those_over(under_way)
        for pending in under_way:
            pending.job.fail(ConnectionLost("the ledger is closed"))
        self._tell_those_over(under_way)
        if self._wire is not None:
            self._wire.close()

    def _take(self, *, wait: bool) -> list[_PendingRead] | None:
        """The waiting reads; None if the thread is to end."""
        taken: list[_PendingRead] = []
        try:
            while len(taken) < READS_TOGETHER_MAX:
                pending = self._queue.get(block=wait and not taken)
                if pending is None:
                    return None
                taken.append(pending)
        except Empty:
            pass
        return taken

    def _fly(self, under_way: list[_PendingRead]) -> None:
        """Advances the reads by one round trip. If the connection was lost while nobody read, which
        only shows now, they start again."""
        jobs = [pending.job for pending in under_way]
        try:
            if self._wire is None:
                self._wire = self._connect()
            read_together(self._wire, jobs)
        except Exception as lost:  # noqa: BLE001  whoever has asked is told; without its thread nobody would be
            if self._wire is not None:
                self._wire.close()
                self._wire = None
            for job in jobs:
                if not job.is_over:
                    job.fail(lost)

    def _tell_those_over(self, under_way: list[_PendingRead]) -> list[_PendingRead]:
        over = [pending for pending in under_way if pending.job.is_over]
        if over:
            self._post(partial(_tell, over))
        return [pending for pending in under_way if not pending.job.is_over]


def _tell(over: list[_PendingRead]) -> None:
    for pending in over:
        pending.done.set()


class PostgresReads(ReadTable):
    def __init__(self, connect: Connect, filename: str, *, inline: bool) -> None:
        self._connect_reader = connect
        self._filename = filename
        self._inline_wire = connect() if inline else None
        self._reader = None if inline else SharedReader(connect, filename)
        self._scanners: list[PgWire] = []
        self._is_closed = False
        self._scans = anyio.CapacityLimiter(SCANS_AT_ONCE)

    async def look(self, read: Callable[..., T], args: tuple[Any, ...], named: dict[str, Any]) -> T:
        try:
            return await self._look(lambda db: read(db, *args, **named))
        except READ_TROUBLE as error:
            raise explain(error) from error

    async def _look(self, read: Callable[[Database], T]) -> T:
        self._refuse_when_closed()
        if self._reader is None:
            await anyio.lowlevel.checkpoint()
            return self._read_inline(read)
        try:
            return await self._reader.read(read)
        except ConnectionLost:  # it may have been lost long ago: once more, on another one
            return await self._reader.read(read)

    def _read_inline(self, read: Callable[[Database], T]) -> T:
        assert self._inline_wire is not None
        try:
            return read_alone(self._inline_wire, read, self._filename)
        except ConnectionLost:
            self._inline_wire.close()
            self._inline_wire = self._connect_reader()
            return read_alone(self._inline_wire, read, self._filename)

    async def scan(self, read: Callable[[Database], T]) -> T:
        try:
            if self._reader is None:
                return await self._look(read)
            self._refuse_when_closed()
            async with self._scans:
                return await anyio.to_thread.run_sync(self._scan, read)
        except READ_TROUBLE as error:
            raise explain(error) from error

    def _scan(self, read: Callable[[Database], T]) -> T:
        try:
            wire = self._scanners.pop()
        except IndexError:
            wire = self._connect_reader()
        try:
            found = read_alone(wire, read, self._filename)
        except ConnectionLost:
            wire.close()
            wire = self._connect_reader()
            found = read_alone(wire, read, self._filename)
        finally:
            self._scanners.append(wire)
        return found

    def _refuse_when_closed(self) -> None:
        """Raises if the ledger was closed; a lost connection is replaced."""
        if self._is_closed:
            raise Stopped("the ledger is closed")

    async def close_readers(self) -> None:
        self._is_closed = True
        if self._reader is not None:
            await self._reader.close()
        for wire in (*self._scanners, *([self._inline_wire] if self._inline_wire else [])):
            wire.close()
