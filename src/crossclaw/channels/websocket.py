"""A WebSocket to a chat platform, over anyio: the protocol is `websockets` without its sockets.

The client of `websockets` itself runs on asyncio alone; here the same code serves asyncio and trio, and a test
may hand over any stream of bytes in place of a connection.
"""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.abc

from crossclaw.domain.errors import CrossclawError

if TYPE_CHECKING:
    from websockets.client import ClientProtocol

OPEN_S_MAX = 20.0  # dial, TLS and handshake together; a platform that takes longer is away
CLOSE_S_MAX = 2.0  # a peer that does not answer our close keeps nobody waiting
READ_BYTES = 65_536
SHORT_S = 10.0  # a connection that ends sooner is followed by a pause

Dial = Callable[[str, int, bool], Awaitable[anyio.abc.ByteStream]]
"""(host, port, with TLS) → a connection."""


class SocketDown(CrossclawError):
    """The connection could not be made, or broke without a close."""


class SocketClosed(SocketDown):
    """The other side closed it and said why."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the platform closed the connection: {code} {reason}".rstrip())
        self.close_code = code
        self.reason = reason


async def dial(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
    if tls:
        return await anyio.connect_tcp(
            host, port, tls=True, ssl_context=ssl.create_default_context(), tls_hostname=host
        )
    return await anyio.connect_tcp(host, port)


async def pause_if_short(before: int, lasted_s: float) -> int:
    """Pauses after short connections: from the second in a row on, twice as long each time. Returns how many
    there were."""
    short = before + 1 if lasted_s < SHORT_S else 0
    if short > 1:
        await anyio.sleep(min(SHORT_S, 2.0 ** (short - 1)))
    return short


@asynccontextmanager
async def open_websocket(
    url: str, *, bytes_max: int, dial: Dial = dial, close_code: int = 1000
) -> AsyncGenerator["Websocket"]:
    """Opens a WebSocket. `close_code` is sent to the platform when we leave."""
    with anyio.move_on_after(OPEN_S_MAX) as patience:
        stream = await _connect(url, dial)
        socket = Websocket(stream, _protocol(url, bytes_max))
        try:
            await socket.shake_hands()
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
    if patience.cancelled_caught:
        raise SocketDown(f"{_host(url)} did not open a connection within {OPEN_S_MAX:g} s")
    try:
        yield socket
    finally:
        with anyio.move_on_after(CLOSE_S_MAX, shield=True):
            await socket.close(close_code)
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(stream)


async def _connect(url: str, dial: Dial) -> anyio.abc.ByteStream:
    parts = urlsplit(url)
    tls = parts.scheme == "wss"
    try:
        return await dial(parts.hostname or "", parts.port or (443 if tls else 80), tls)
    except (OSError, ssl.SSLError) as error:
        raise SocketDown(f"no connection to {_host(url)}: {error}") from None


def _host(url: str) -> str:
    """The host without path and query: some platforms put a ticket there."""
    return urlsplit(url).hostname or "nowhere"


def _protocol(url: str, bytes_max: int) -> "ClientProtocol":
    from websockets.client import ClientProtocol  # noqa: PLC0415  only when a channel is on
    from websockets.uri import parse_uri  # noqa: PLC0415

    return ClientProtocol(parse_uri(url), max_size=bytes_max)


class Websocket:
    """One connection: one task reads by `receive`, any may `send`."""

    def __init__(self, stream: anyio.abc.ByteStream, protocol: "ClientProtocol") -> None:
        self._stream = stream
        self._protocol = protocol
        self._sending = anyio.Lock()
        self.heard_at = anyio.current_time()
        """The time of the last bytes, pings included."""
        self._parts: list[bytes] = []
        self._waiting: list[bytes] = []

    async def shake_hands(self) -> None:
        self._protocol.send_request(self._protocol.connect())
        await self._flush()
        while self._protocol.handshake_exc is None and not self._is_open:
            await self._read()
        if self._protocol.handshake_exc is not None:
            raise SocketDown(f"no WebSocket there: {self._protocol.handshake_exc}")

    async def receive(self) -> bytes:
        """The next message, text or binary. Raises SocketClosed when the platform closed, SocketDown when it is gone."""
        while not self._waiting:
            self._raise_if_closed()
            await self._read()
        return self._waiting.pop(0)

    async def send(self, text: str) -> None:
        self._raise_if_closed()
        self._protocol.send_text(text.encode())
        await self._flush()

    async def close(self, code: int) -> None:
        """Sends a close; does not wait for the answer of a platform that may be gone."""
        from websockets.exceptions import InvalidState  # noqa: PLC0415

        try:
            self._protocol.send_close(code)
            await self._flush()
        except (InvalidState, SocketDown):
            pass

    @property
    def _is_open(self) -> bool:
        return self._protocol.state.name == "OPEN"

    def _raise_if_closed(self) -> None:
        if self._is_open:
            return
        if (closed := self._protocol.close_rcvd) is not None:
            raise SocketClosed(closed.code, closed.reason)
        raise SocketDown("the connection to the platform broke")

    async def _read(self) -> None:
        try:
            data = await self._stream.receive(READ_BYTES)
        except anyio.EndOfStream:
            self._protocol.receive_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise SocketDown("the connection to the platform broke") from None
        else:
            self.heard_at = anyio.current_time()
            self._protocol.receive_data(data)
        self._take_events()
        with suppress(SocketDown):  # our answer to a close or a ping; what was read counts first
            await self._flush()

    def _take_events(self) -> None:
        from websockets.frames import Frame, Opcode  # noqa: PLC0415

        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                continue  # the answer to our handshake
            if event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._parts.append(bytes(event.data))
                if event.fin:
                    self._waiting.append(b"".join(self._parts))
                    self._parts.clear()

    async def _flush(self) -> None:
        async with self._sending:
            for data in self._protocol.data_to_send():
                try:
                    if data:
                        await self._stream.send(data)
                    else:
                        await _send_eof(self._stream)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                    raise SocketDown("the connection to the platform broke") from None


async def _send_eof(stream: anyio.abc.ByteStream) -> None:
    """Ends our side of the stream. TLS has no half-closed connections; there the end comes with the close."""
    try:
        await stream.send_eof()
    except NotImplementedError:
        return
