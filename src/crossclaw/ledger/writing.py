"""Writing: many waiting steps in one transaction, whatever the engine.

Steps queue up while the store works; the next transaction takes them all. A caller is answered
after the commit.
"""

import logging
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import anyio
import anyio.lowlevel

from crossclaw.domain.errors import Busy, StoreError
from crossclaw.ledger.contract import Appended
from crossclaw.ledger.hints import HearHints, HintBoard
from crossclaw.ledger.operations import Op
from crossclaw.ledger.threads import QueueThread, StepSignal

log = logging.getLogger(__name__)

BATCH_STEPS_MAX = 256  # one transaction stays under some 20 ms, so nobody waits long for the disk
QUEUE_STEPS_MAX = (
    20_000  # at 10,000 steps/s two seconds of work; beyond that callers must slow down
)

R = TypeVar("R")


class WriterStep:
    """A caller's operations, and where its result goes."""

    __slots__ = ("done", "error", "ops", "results")

    def __init__(self, ops: Sequence[Op[Any]], done: StepSignal) -> None:
        self.ops = ops
        self.done = done
        self.results: list[Any] = []
        self.error: Exception | None = None


class BatchWriter(Protocol):
    """The engine's part of writing. It works in whatever thread it is called from, one call at a
    time."""

    def run(self, steps: Sequence[WriterStep]) -> set[str]:
        """Runs all these steps in one transaction. Returns the session ids that got entries. An
        exception here ends the process."""
        ...

    def close(self) -> None: ...


class InlineWriter:
    """Writes each step in its own transaction, at once, in the caller's task: for virtual time,
    where a pending thread would look like idleness."""

    def __init__(self, engine: BatchWriter, on_appended: Appended) -> None:
        self._engine, self._on_appended = engine, on_appended

    async def commit(self, ops: Sequence[Op[Any]]) -> list[Any]:
        await anyio.lowlevel.checkpoint()
        step = WriterStep(ops, anyio.Event())
        appended = self._engine.run([step])
        if appended:
            self._on_appended(appended)
        if step.error is not None:
            raise step.error
        return step.results

    async def close(self) -> None:
        self._engine.close()


class ThreadWriter(QueueThread[WriterStep]):
    """Writes in a thread of its own: many steps a commit, and the results posted back once a
    batch."""

    def __init__(self, engine: BatchWriter, on_appended: Appended) -> None:
        self._engine, self._on_appended = engine, on_appended
        super().__init__("ledger writer")

    async def commit(self, ops: Sequence[Op[Any]]) -> list[Any]:
        self._refuse_closed()
        if self._queue.qsize() >= QUEUE_STEPS_MAX:
            raise Busy("the ledger has too much to write; try again in a moment")
        step = WriterStep(ops, self._done())
        self._queue.put(step)
        await step.done.wait()
        if step.error is not None:
            raise step.error
        return step.results

    def _serve(self) -> None:
        try:
            while steps := self._take():
                try:
                    appended = self._engine.run(steps)
                except BaseException:
                    self._post(_AfterCommit(steps, set(), self._on_appended))
                    raise
                self._post(_AfterCommit(steps, appended, self._on_appended))
            self._engine.close()
        except BaseException:
            # Without its writer the gateway would accept what it cannot keep. The next start recovers.
            log.critical("the ledger's writer failed; the gateway ends now", exc_info=True)
            os._exit(70)

    def _take(self) -> list[WriterStep]:
        """The waiting steps, at least one; none if closed."""
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


class _AfterCommit:
    """Runs in the event loop after a commit: wakes the callers, then reports the new entries."""

    __slots__ = ("_appended", "_on_appended", "_steps")

    def __init__(
        self, steps: Sequence[WriterStep], appended: set[str], on_appended: Appended
    ) -> None:
        self._steps, self._appended, self._on_appended = steps, appended, on_appended

    def __call__(self) -> None:
        for step in self._steps:
            step.done.set()
        if self._appended:
            self._on_appended(self._appended)


class LedgerWrites:
    """The writing half of a ledger: the same for every engine, which says what its own errors are
    called."""

    trouble: ClassVar[tuple[type[Exception], ...]]
    explain: Callable[[Exception], StoreError]

    def begin_writing(self, engine: BatchWriter, *, inline: bool) -> None:
        self.owner = secrets.token_hex(8)
        self._listeners: list[Appended] = []
        self._hints = HintBoard()
        self._writer = (InlineWriter if inline else ThreadWriter)(engine, self._tell)

    async def commit(self, *ops: Op[Any]) -> list[Any]:
        try:
            return await self._writer.commit(ops)
        except self.trouble as error:
            raise self.explain(error) from error

    async def do(self, op: Op[R]) -> R:
        result: R = (await self.commit(op))[0]
        return result

    def on_append(self, listener: Appended) -> None:
        self._listeners.append(listener)

    def on_hint(self, kind: str, callback: HearHints) -> None:
        self._hints.add(kind, callback)

    def _tell(self, session_ids: set[str]) -> None:
        for listener in self._listeners:
            listener(session_ids)

    async def end_writing(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._writer.close()
