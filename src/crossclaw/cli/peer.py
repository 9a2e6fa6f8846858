"""Peers: the gateway as a command sees it. Over the wire, or a house opened for this one call.

Both are asked by `call` and listened to by `listen`; a command does not know which one it has.
"""

import contextlib
from collections.abc import AsyncGenerator, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.finding import GatewayAddress, Wanted, find_gateway, is_taken, served_port
from crossclaw.cli.place import StateLocation
from crossclaw.cli.say import note
from crossclaw.domain.errors import StoreLocked

EVENTS_MAX = 10_000  # a reply has a few hundred; who does not read for that long has gone
READ, WRITE, ADMIN = "operator.read", "operator.write", "operator.admin"
LOCKED_S_MAX = 20.0  # a neighbour's call without a gateway is over by then, or it is none
_LOOK_AGAIN_S = 0.2


class Event(NamedTuple):
    name: str
    payload: dict[str, Any]


class CallRefused(CommandFailed):
    """The gateway said no to a call."""

    def __init__(self, message: str, code: str, details: Any = None) -> None:
        forbidden = code in ("FORBIDDEN", "NOT_PAIRED") or message.startswith("missing scope")
        super().__init__(message, Exit.UNAUTHORIZED if forbidden else Exit.FAILED)
        self.code = code
        self.details = details


class Unreachable(CommandFailed):
    """Nobody listens there."""

    def __init__(self, text: str, *, hint: str | None = None) -> None:
        super().__init__(text, Exit.UNREACHABLE, hint=hint)


class NobodyListens(Exception):
    """The connection was refused: no gateway runs at that address."""


class Defaults(NamedTuple):
    agent_id: str
    main_key: str


class GatewayPeer(Protocol):
    place: str
    """An address, or that it is embedded: for people."""
    embedded: bool
    defaults: Defaults

    async def call(
        self, method: str, params: dict[str, Any], *, timeout_s: float = 30, final: bool = False
    ) -> Any:
        """`final` waits for the second answer of a method that answers twice."""

    def listen(
        self,
    ) -> AbstractContextManager[MemoryObjectReceiveStream[Event]]: ...


class Listeners:
    """Whoever listens gets every event from then on; when the peer goes, their streams end."""

    def __init__(self) -> None:
        self._streams: list[MemoryObjectSendStream[Event]] = []
        self._closed = False

    @contextmanager
    def listen(self) -> Generator[MemoryObjectReceiveStream[Event]]:
        send, receive = anyio.create_memory_object_stream[Event](EVENTS_MAX)
        self._streams.append(send)
        if self._closed:
            send.close()
        with receive:
            try:
                yield receive
            finally:
                self._streams.remove(send)
                send.close()

    def tell(self, event: Event) -> None:
        for stream in self._streams:
            with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError):
                stream.send_nowait(event)

    def close(self) -> None:
        self._closed = True
        for stream in self._streams:
            stream.close()


@asynccontextmanager
async def connect_peer(
    wanted: Wanted, place: StateLocation, *scopes: str, embed: bool = True
) -> AsyncGenerator[GatewayPeer]:
    """The gateway that was asked for. When the local one does not run and `embed` allows it, a
    house is opened for this call, in this process."""
    address = find_gateway(wanted, place)
    if address.is_open_line:
        note(f"the token goes to {address.url} unencrypted; wss:// would protect it")
    with plain_errors():
        async with AsyncExitStack() as stack:
            yield await _reach(stack, wanted, place, scopes, embed and not place.unread)


async def _reach(
    stack: AsyncExitStack,
    wanted: Wanted,
    place: StateLocation,
    scopes: tuple[str, ...],
    embed: bool,
) -> GatewayPeer:
    locked_until = anyio.current_time() + LOCKED_S_MAX
    while True:
        address = find_gateway(wanted, place)
        try:
            with plain_errors():
                return await stack.enter_async_context(_open_wire(address, place, scopes))
        except NobodyListens as error:
            why: CommandFailed = Unreachable(str(error), hint=how_to_start(address))
        except CommandFailed as failed:
            if not (address.is_unnamed and failed.exit_code == Exit.UNAUTHORIZED):
                raise
            why = failed  # of a gateway that was killed, the port may be another's by now
        if not (embed and address.is_local):
            raise why from None
        try:
            return await stack.enter_async_context(_open_embedded(place, address))
        except StoreLocked as error:
            if why.exit_code == Exit.UNAUTHORIZED:
                raise why from None
            if anyio.current_time() > locked_until:
                raise Unreachable(f"{why}, and {error}") from None
        await anyio.sleep(_LOOK_AGAIN_S)


def _open_wire(
    address: GatewayAddress, place: StateLocation, scopes: tuple[str, ...]
) -> AbstractAsyncContextManager[GatewayPeer]:
    refuse_stranger(address, place)
    from crossclaw.cli.wire import open_wire  # noqa: PLC0415  brings websockets, 100 ms

    return open_wire(address, scopes)


def refuse_stranger(address: GatewayAddress, place: StateLocation) -> None:
    """A gateway of this folder would say where it listens. Whoever else does is not to get our token."""
    if address.is_unnamed and served_port(place) is None:
        raise NobodyListens(_nobody(address) or f"no gateway answers at {address.url}")


def _open_embedded(
    place: StateLocation, address: GatewayAddress
) -> AbstractAsyncContextManager[GatewayPeer]:
    from crossclaw.cli.embedded import open_embedded  # noqa: PLC0415  brings the whole house

    return open_embedded(place, _nobody(address))


def _nobody(address: GatewayAddress) -> str | None:
    """Of the port where a gateway of this folder would be, when another has it."""
    number = urlsplit(address.url).port
    if not (address.is_unnamed and number and is_taken(number)):
        return None
    return f"no gateway of this state folder runs, and another program has port {number}"


def how_to_start(address: GatewayAddress) -> str | None:
    if not address.is_local:
        return None
    elsewhere = " --port 0 (a free one; or set gateway.port)" if _nobody(address) else ""
    return f"Start it with: crossclaw gateway{elsewhere}"


@contextmanager
def plain_errors() -> Generator[None]:
    """A task group wraps what went wrong; a person is told the first thing that did."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
