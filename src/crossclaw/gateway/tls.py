"""TLS before HTTP: an unauthenticated connection has its place and its deadline from accept on, not only
after the handshake. asyncio's own server would show us a connection when its handshake is done, and wait a
minute for that."""

import math
import ssl
from asyncio import BaseTransport, Protocol, Transport  # noqa: TID251  uvicorn's protocols are asyncio's
from asyncio.sslproto import SSLProtocol  # noqa: TID251
from typing import Any

from crossclaw.gateway.sockets import GuardedHttp, PendingConnection, WireConfig

_HANDSHAKE = 0x16  # the first byte of every TLS connection
_TEXT = b"This gateway speaks TLS: ask by https:// or wss://\n"
_PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nx-crossclaw-tls: required\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b"
) % (len(_TEXT), _TEXT)


class TlsWireConfig(WireConfig):
    """The wire's config with TLS."""

    def __init__(self, app: Any, limits: Any, context: ssl.SSLContext) -> None:
        super().__init__(app, limits, http=_enter)
        self.context = context


class TlsEntrance(Protocol):
    """A connection until its first bytes: then it is a handshake, or a client that does not know that this is TLS."""

    def __init__(self, http: GuardedHttp) -> None:
        self._http = http

    def connection_made(self, transport: BaseTransport) -> None:
        assert isinstance(transport, Transport)
        self._transport = transport
        self._pending = self._http.enter_below(transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self._pending.known()

    def data_received(self, data: bytes) -> None:
        if data[0] == _HANDSHAKE:
            TlsConnection(self._http, self._pending).begin(self._transport, data)
        elif data[:1].isalpha():
            self._transport.write(_PLAIN)
            self._transport.close()
        else:
            self._transport.abort()


class TlsConnection(SSLProtocol):
    """asyncio's TLS protocol, reading at once only as much as a stranger's or a client's socket may."""

    max_size = 4096  # a stranger's; asyncio's own is a buffer of 256 KiB for everybody who comes

    def __init__(self, http: GuardedHttp, pending: PendingConnection) -> None:
        config = http.config
        assert isinstance(config, TlsWireConfig)
        super().__init__(
            http.loop,
            http,
            config.context,
            None,  # type: ignore[arg-type]  # nobody waits
            server_side=True,
            ssl_handshake_timeout=math.ceil(config.limits.stranger_time_s),
            ssl_shutdown_timeout=config.limits.close_s,
        )
        self._pending = pending

    def begin(self, transport: Transport, data: bytes) -> None:
        transport.set_protocol(self)
        self.connection_made(transport)
        for start in range(0, len(data), self.max_size):
            piece = data[start : start + self.max_size]
            self.get_buffer(len(piece))[: len(piece)] = piece
            self.buffer_updated(len(piece))

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._pending.known()  # where the handshake failed, nobody else says so


def _enter(**given: Any) -> TlsEntrance:
    return TlsEntrance(GuardedHttp(**given))
