"""Threads that work for the event loop: how one is called, answers, and is closed."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import Stopped

log = logging.getLogger(__name__)

Q = TypeVar("Q")


class StepSignal(Protocol):
    """How a caller waits for its step, and how it is woken."""

    def set(self) -> None: ...

    async def wait(self) -> None: ...


class _Future:
    """An event on asyncio, at a third of the cost of anyio's; every step needs one."""

    __slots__ = ("_future",)

    def __init__(self, loop: Any) -> None:
        self._future = loop.create_future()

    def set(self) -> None:
        if not self._future.done():  # whoever waited may have been cancelled
            self._future.set_result(None)

    async def wait(self) -> None:
        await self._future


class QueueThread(ABC, Generic[Q]):
    """A thread that handles what is put into its queue, until that is a None. It starts at once, so
    a subclass sets what it needs before it calls this constructor."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[Q | None] = SimpleQueue()
        self._post = loop_poster()
        self._done = signal_maker()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @abstractmethod
    def _serve(self) -> None: ...

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Stopped("the ledger is closed")

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            await anyio.to_thread.run_sync(self._thread.join)


def signal_maker() -> Callable[[], StepSignal]:
    loop: Any = anyio.lowlevel.current_token().native_token
    return partial(_Future, loop) if hasattr(loop, "create_future") else anyio.Event


def loop_poster() -> Callable[[Callback], None]:
    """A function with which another thread hands a callable to this event loop, on asyncio and on
    trio."""
    loop: Any = anyio.lowlevel.current_token().native_token
    call_soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    def post(callback: Callback) -> None:
        try:
            call_soon(callback)
        except RuntimeError:
            log.debug("the event loop has ended before the ledger's last answer")

    return post
