"""A peer: a gateway as its caller sees it. It is asked by `call` and listened to by `listen`.

A connection that comes back by itself (`line.py`) is one; the command line has another, which opens the
gateway's parts in its own process when no gateway runs.
"""

from collections import deque
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

import anyio

from crossclaw.client.errors import ClientError

READ, WRITE, ADMIN = "operator.read", "operator.write", "operator.admin"
EVENTS_MAX = (
    10_000  # a reply has a few hundred; whoever is that far behind reads the transcript instead
)
MISSED = "client.missed"


class Event(NamedTuple):
    """An event that the gateway sends without being asked. One named `MISSED` is the client's own: events may
    have been lost before it, so look at what is stored before you go on."""

    name: str
    payload: dict[str, Any]


class GatewayDefaults(NamedTuple):
    agent_id: str
    main_key: str


class EventQueue:
    """The events for one listener, in order. Iterating ends when the peer is closed."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = anyio.Event()
        self._ended = False
        self._why: ClientError | None = None

    def put(self, event: Event) -> None:
        if len(self._events) >= EVENTS_MAX:
            self._events.clear()
            event = Event(MISSED, {})
        self._events.append(event)
        self._changed.set()

    def end(self, why: ClientError | None = None) -> None:
        if not self._ended:
            self._ended, self._why = True, why
            self._changed.set()

    def __aiter__(self) -> "EventQueue":
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._why is not None:
                raise self._why
            if self._ended:
                raise StopAsyncIteration
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._events.popleft()


class GatewayPeer(Protocol):
    place: str
    """The address for people, or that it is embedded."""
    embedded: bool
    defaults: GatewayDefaults

    @property
    def is_away(self) -> bool:
        """Whether the connection is lost at the moment."""

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout_s: float = 30,
        final: bool = False,
        repeat: bool | None = None,
    ) -> Any:
        """Calls a method. `final` waits for the second answer of a method that answers twice. `repeat` says
        that the request may be sent again when the connection was lost before its answer came; without it,
        one with an `idempotencyKey` may, because the gateway acts on a key once."""

    def listen(self) -> AbstractContextManager[EventQueue]:
        """A queue of every event from now on."""


class Listeners:
    """The queues of all listeners: each gets every event from then on, and ends when the peer is closed."""

    def __init__(self) -> None:
        self._queues: list[EventQueue] = []
        self._closed = False

    @contextmanager
    def listen(self) -> Generator[EventQueue]:
        queue = EventQueue()
        if self._closed:
            queue.end()
        self._queues.append(queue)
        try:
            yield queue
        finally:
            self._queues.remove(queue)

    def put(self, event: Event) -> None:
        for queue in self._queues:
            queue.put(event)

    def end(self, why: ClientError) -> None:
        """Ends the queues of those who listen now; later ones may still succeed."""
        for queue in self._queues:
            queue.end(why)

    def close(self) -> None:
        self._closed = True
        for queue in self._queues:
            queue.end()
