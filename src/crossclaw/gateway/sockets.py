"""Sockets: uvicorn's protocols with a limit on unauthenticated connections in front and a direct way to write.

What uvicorn leaves to its user is limited here: how long it may take from accept until a client is
authenticated, how long a request's headers may take and how large they may be, how many strangers there may be
and who of them goes, how large a frame may be before that. A client's frames are written straight to the
transport, whose buffer is the queue: what waits there is what a slow client has not read.
"""

import resource
from asyncio import (  # noqa: TID251  uvicorn's protocols are asyncio's
    AbstractEventLoop,
    TimerHandle,
    Transport,
)
from asyncio.sslproto import SSLProtocol  # noqa: TID251
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import State

from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.pauses import network_of

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class UnauthenticatedConnections:
    """The unauthenticated connections ("strangers"), in the order in which they came.

    Each has one deadline from accept until it is authenticated. When all places of an address are taken, its
    oldest goes for the next; when all are, the oldest of the address that has the most.
    """

    def __init__(self, limits: GatewayLimits, files_max: int | None = None) -> None:
        if files_max is None:
            files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.limits = limits
        self._places = limits.strangers_max
        if files_max != resource.RLIM_INFINITY:
            share = int(files_max * limits.strangers_share)
            self._places = max(1, min(limits.strangers_max, share))
        self._all: dict[PendingConnection, None] = {}
        self._by_network: dict[str, dict[PendingConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def enter(
        self, address: str, transport: Transport, loop: AbstractEventLoop
    ) -> "PendingConnection":
        network = network_of(address)
        mine = self._by_network.get(network, {})
        if len(mine) >= self.limits.strangers_per_address_max:
            next(iter(mine)).cut()
        elif len(self._all) >= self._places:
            most = max(self._by_network, key=lambda each: len(self._by_network[each]))
            next(iter(self._by_network[most])).cut()
        pending = PendingConnection(self, network, transport)
        pending.due = loop.call_later(self.limits.stranger_time_s, pending.cut)
        self._all[pending] = None
        self._by_network.setdefault(network, {})[pending] = None
        return pending

    def cut_all(self) -> None:
        for pending in tuple(self._all):
            pending.cut()

    def leave(self, pending: "PendingConnection") -> None:
        if pending not in self._all:
            return
        del self._all[pending]
        mine = self._by_network[pending.network]
        del mine[pending]
        if not mine:
            del self._by_network[pending.network]


class PendingConnection:
    """One connection's place among the unauthenticated, until it is authenticated or closed."""

    __slots__ = ("_transport", "_unauthenticated", "due", "is_known", "network")

    def __init__(
        self, unauthenticated: UnauthenticatedConnections, network: str, transport: Transport
    ) -> None:
        self._unauthenticated = unauthenticated
        self._transport = transport
        self._read(unauthenticated.limits.stranger_read_bytes)
        self.network = network
        self.due: TimerHandle | None = None
        self.is_known = False

    def secret_shown(self) -> None:
        """The right secret was shown: no newcomer takes this place any more. The deadline stays."""
        self._unauthenticated.leave(self)

    def known(self) -> None:
        """The connection is authenticated (or closed): it no longer counts as unauthenticated."""
        self.is_known = True
        self._read(self._unauthenticated.limits.read_bytes)
        self._unauthenticated.leave(self)
        if self.due is not None:
            self.due.cancel()
            self.due = None

    def _read(self, bytes_max: int) -> None:
        """Sets how much is taken from the socket in one turn of the loop. asyncio's transports have it as an
        attribute, and with TLS the protocol that reads from them."""
        self._transport.max_size = bytes_max  # type: ignore[attr-defined]
        if isinstance(reader := self._transport.get_protocol(), SSLProtocol):
            reader.max_size = bytes_max  # type: ignore[misc]

    def cut(self) -> None:
        """Cuts the connection at once: closing would wait for a peer that does not read."""
        self.known()
        self._transport.abort()


class WireConfig(Config):
    """uvicorn's config, with what our protocols need."""

    def __init__(self, app: Any, limits: GatewayLimits, *, http: Any = None) -> None:
        self.limits = limits
        self.unauthenticated = UnauthenticatedConnections(limits)
        super().__init__(
            app,
            http=http or GuardedHttp,
            ws=ClientSocket,
            ws_max_size=limits.handshake_bytes_max,
            ws_ping_interval=limits.ping_s,
            ws_ping_timeout=limits.ping_answer_s,
            # Costs 60 KiB a connection, and lets a stranger send little that becomes much.
            ws_per_message_deflate=False,
            backlog=limits.accepts_at_once,  # asyncio accepts so many in one turn; the kernel keeps more
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # uvicorn tells each connection's path, which may hold a secret
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )


class GuardedHttp(HttpToolsProtocol):
    config: WireConfig
    below: Transport | None = None
    """The transport of the encrypted bytes, where there is TLS."""
    _entered: PendingConnection | None = None

    def enter_below(self, transport: Transport) -> PendingConnection:
        """Takes a place before the TLS handshake: `connection_made` comes after it."""
        self.below = transport
        address = (get_remote_addr(transport) or ("",))[0]
        self._entered = self.config.unauthenticated.enter(address, transport, self.loop)
        return self._entered

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._header_bytes = 0
        self._headers_due: TimerHandle | None = None
        self.pending = self._entered or self._enter()
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_done()
        self.pending.known()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._headers_due is not None:  # still not all of them
            self._header_bytes += len(data)
            if self._header_bytes > self.config.limits.header_bytes_max:
                self._refuse_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self._expect_headers()

    def on_headers_complete(self) -> None:
        # An upgrade that announces a body is one only after it: until then its headers are not complete.
        if not (self.parser.should_upgrade() and self._should_upgrade()):
            self._headers_done()
        super().on_headers_complete()
        self.scope["crossclaw.pending"] = self.pending  # type: ignore[typeddict-unknown-key]
        if len(self.pipeline) > self.config.limits.pipelined_max:
            self.transport.abort()

    def handle_websocket_upgrade(self) -> None:
        self._headers_done()
        super().handle_websocket_upgrade()
        socket = self.transport.get_protocol()
        if isinstance(socket, ClientSocket):
            # Whoever upgrades shows its secret anew, also on a connection that a proxy keeps for many.
            socket.pending = self._enter() if self.pending.is_known else self.pending
            socket.below = self.below

    def _enter(self) -> PendingConnection:
        address = self.client[0] if self.client else ""
        return self.config.unauthenticated.enter(address, self.below or self.transport, self.loop)

    def _expect_headers(self) -> None:
        self._headers_done()
        self._headers_due = self.loop.call_later(
            self.config.limits.header_time_s, self.transport.close
        )

    def _headers_done(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _refuse_headers(self) -> None:
        self._headers_done()
        self.transport.write(_TOO_LARGE)
        self.transport.close()


class ClientSocket(WebSocketsSansIOProtocol):
    """A WebSocket that its owner writes to at once, from anywhere in the loop."""

    config: WireConfig
    pending: PendingConnection | None = None
    below: Transport | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.close_timeout = self.config.limits.close_s
        self._unwritten = 0
        self._pings = 0

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["crossclaw.socket"] = self  # type: ignore[typeddict-unknown-key]

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # refused is done too; uvicorn would log an error

    def connection_lost(self, exc: Exception | None) -> None:
        self.known()
        super().connection_lost(exc)

    def handle_ping(self) -> None:
        """Answers a ping; a client that reads no answers is cut off, and so is a stranger that does little else."""
        unread = self._unread_bytes > self.config.limits.pongs_bytes_max
        if unread or self._only_pings():
            self.transport.abort()
            return
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        if self._only_pings():
            self.transport.abort()
            return
        super().handle_pong(event)

    def _only_pings(self) -> bool:
        if self.pending is not None:
            self._pings += 1
        return self._pings > self.config.limits.stranger_pings_max

    def handle_cont(self, event: Frame) -> None:
        """Counts fragments: they may be empty, so a message's size does not limit their number."""
        if len(self.frames) >= self.config.limits.fragments_max:
            self.transport.abort()
            return
        super().handle_cont(event)

    def secret_shown(self) -> None:
        if self.pending is not None:
            self.pending.secret_shown()

    def known(self) -> None:
        """The client is authenticated (or gone)."""
        if self.pending is not None:
            self.pending.known()
            self.pending = None

    def drop(self) -> None:
        self.transport.abort()

    def allow_frames(self, bytes_max: int) -> None:
        self.conn.max_message_size = bytes_max

    @property
    def buffered_bytes(self) -> int:
        return self._unwritten + self._unread_bytes

    @property
    def _unread_bytes(self) -> int:
        """Bytes that the client has not read yet. With TLS, encrypted ones wait below."""
        if self.below is None:
            return self.transport.get_write_buffer_size()
        if self.transport.is_closing():  # asyncio's forgets its own buffer then
            return self.below.get_write_buffer_size()
        return self.transport.get_write_buffer_size() + self.below.get_write_buffer_size()

    def write(self, frame: bytes) -> None:
        """Writes a frame. Frames of one turn of the loop go out in one packet."""
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            return
        self.conn.send_text(frame)
        if not self._unwritten:
            self.loop.call_soon(self._write_out)
        self._unwritten += len(frame)

    def _write_out(self) -> None:
        self._unwritten = 0
        if not self.transport.is_closing():
            self.transport.write(b"".join(self.conn.data_to_send()))

    def close(self, code: int, reason: str) -> None:
        """Sends a close frame behind all that was written, and cuts the socket if it is not answered."""
        if self.close_sent or self.conn.state is not State.OPEN:
            return
        self.conn.send_close(code, reason)
        self._write_out()
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
