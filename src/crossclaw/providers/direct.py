"""DirectTransport: one kept HTTP/1.1 connection below the HTTP client, whose answers are read by a parser in C.

The HTTP client (httpx2) goes on doing everything else: redirects, proxies, certificates, decoding, names of errors. Only
the bytes of a direct connection are ours: with the client's own transport, whose parser is written in Python, they were
half of what a call costs ([decision 31](../../../docs/decisions/0031-answers-of-models-are-read-by-a-parser-in-c.md)).

This module imports the HTTP client: it is loaded with it, by the first call.
"""

import select
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, NamedTuple

import anyio
import httpx2
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

READ_BYTES = 262_144
"""The most that is taken at once: as much as asyncio reads, since what it has read beyond is not seen at the socket any more."""
HEAD_BYTES_MAX = 100_000
"""The longest head of an answer: status and headers. Services send a few kilobytes."""
FRAMING_SHARE = 16
"""Bytes of framing that a byte of an answer pays for: a chunk of one byte has five of its own."""

_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class _Peer(NamedTuple):
    is_tls: bool
    host: str
    port: int


class DirectTransport(httpx2.AsyncBaseTransport):
    """Carries one request at a time over a connection that is kept for the next one to the same server."""

    def __init__(self, trust: ssl.SSLContext, kept_s: float) -> None:
        self._trust = trust
        self._kept_s = kept_s
        self._kept: _Connection | None = None
        self._since = 0.0
        self.is_reusing = False
        """Whether the last request went over a connection that had carried another, which the server may have closed."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits, peer = request.extensions.get("timeout", {}), _peer(request.url)
        connection = await self._take(peer)
        self.is_reusing = connection is not None
        if connection is None:
            connection = await self._connect(peer, limits.get("connect"))
        try:
            await connection.send(request, limits.get("write"))
            answer = await connection.receive_head(limits.get("read"))
        except BaseException:
            await connection.close()
            raise
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(self, connection, limits.get("read")),
        )

    async def aclose(self) -> None:
        connection, self._kept = self._kept, None
        if connection is not None:
            await connection.close()

    async def give_back(self, connection: "_Connection") -> None:
        """Takes a connection back after its answer, to keep it if another can follow."""
        if self._kept is None and connection.is_reusable:
            self._kept, self._since = connection, anyio.current_time()
        else:
            await connection.close()

    async def _take(self, peer: _Peer) -> "_Connection | None":
        connection, self._kept = self._kept, None
        if connection is None:
            return None
        is_fresh = anyio.current_time() - self._since < self._kept_s
        if is_fresh and connection.peer == peer and connection.is_quiet():
            return connection
        await connection.close()
        return None

    async def _connect(self, peer: _Peer, connect_s: float | None) -> "_Connection":
        try:
            with anyio.fail_after(connect_s):
                stream = await anyio.connect_tcp(peer.host, peer.port)
                if not peer.is_tls:
                    return _Connection(peer, stream)
                return _Connection(peer, await self._encrypt(stream, peer.host))
        except TimeoutError:
            raise httpx2.ConnectTimeout("no connection in time") from None
        except _BROKEN as error:
            raise httpx2.ConnectError(str(error)) from None

    async def _encrypt(self, stream: ByteStream, host: str) -> ByteStream:
        self._trust.set_alpn_protocols(["http/1.1"])
        try:
            return await _EncryptedStream.wrap(
                _UndividedStream(stream),
                hostname=host,
                ssl_context=self._trust,
                # Services hang up without the closing words of TLS; where an answer ends is told by HTTP.
                standard_compatible=False,
            )
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise


class _UndividedStream(ByteStream):
    """What TLS reads from: it takes all that asyncio has read at once, so that nothing is left between them unseen."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes


class _EncryptedStream(TLSStream):
    @property
    def has_unread(self) -> bool:
        """Whether something has come that nobody has read, be it decrypted or half of a record."""
        return bool(self._read_bio.pending or self._ssl_object.pending())


class _Answer:
    """An answer as far as it has arrived: what the parser reports of it."""

    def __init__(self, *, has_body: bool = True) -> None:
        self._has_body = has_body
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.bytes = 0
        self.has_head = self.is_complete = self.has_more = self._is_last = False
        self._parser = HttpResponseParser(self)
        # Servers of one's own and proxies before them are not strict. A lenient reading is a danger where others' requests
        # share a connection; here an answer whose end is in doubt is its connection's last (`_is_last`).
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_data_after_close=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._beside = 0
        """Bytes that are not the answer's words, as far as later words have not paid for them."""

    def feed(self, data: bytes) -> None:
        """Reads on. What comes behind the end of an answer is nobody's: the connection is not used again."""
        before = self.bytes
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.has_more = True
            if (
                not self.is_complete
            ):  # the same request again would be paid again, and read no better
                raise httpx2.DecodingError(f"no HTTP: {error}") from None
        # Words pay for framing up to the end of their block, never for what comes later: that is endless behind a long answer.
        beside = self._beside + len(data) - (1 + FRAMING_SHARE) * (self.bytes - before)
        self._beside = beside if beside > 0 else 0
        if beside > HEAD_BYTES_MAX and not self.is_complete:
            raise httpx2.DecodingError("too many bytes of HTTP headers and chunk framing")

    def end(self) -> None:
        """Notes that the server has hung up, which ends an answer that did not say how long it is."""
        if not self.has_head or self._lengths:
            raise httpx2.RemoteProtocolError("the server hung up within its answer")
        self.is_complete = self.has_more = True

    @property
    def is_reusable(self) -> bool:
        return self.is_complete and not self.has_more and not self._is_last

    @property
    def _lengths(self) -> set[bytes]:
        """The headers that say where the answer ends. Where both do, who passed it on may have read it otherwise."""
        return {name.lower() for name, _ in self.headers} & {
            b"content-length",
            b"transfer-encoding",
        }

    # What the parser calls.

    def on_message_begin(self) -> None:
        self.has_more = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # behind the words only others' headers follow, which nobody asks for
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.is_complete:
            return
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= 200
        if not self.has_head:  # "go on" and hints come before the answer
            self.headers.clear()
        elif (
            not self._has_body
        ):  # of which the parser knows nothing, so no other answer is read behind it
            self.is_complete = self._is_last = True

    def on_body(self, data: bytes) -> None:
        if not self.is_complete:
            self.bytes += len(data)
            self.pieces.append(data)

    def on_message_complete(self) -> None:
        if self.has_head and not self.is_complete:
            self.is_complete = True
            self._is_last = len(self._lengths) > 1 or not self._parser.should_keep_alive()


class _Connection:
    def __init__(self, peer: _Peer, stream: ByteStream) -> None:
        self.peer = peer
        self.answer = _Answer()
        self._stream = stream
        self._socket = stream.extra(SocketAttribute.raw_socket)
        self._incoming = select.poll()
        self._incoming.register(self._socket, select.POLLIN)
        self._was_read = True

    @property
    def is_reusable(self) -> bool:
        return self._was_read and self.answer.is_reusable

    def is_quiet(self) -> bool:
        """Whether nothing has come since the last answer. A server that hangs up is to be heard too."""
        if self._socket.fileno() < 0 or self._incoming.poll(0):
            return False
        return not (isinstance(self._stream, _EncryptedStream) and self._stream.has_unread)

    async def send(self, request: httpx2.Request, write_s: float | None) -> None:
        """Sends the request. A server that stops reading may have answered before: then the answer says why."""
        self.answer = _Answer(has_body=request.method != "HEAD")
        head, length = _head(request)
        pieces, framing = [head], _Framing(length)
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        body = aiter(request.stream)
        assert isinstance(body, AsyncGenerator)
        try:
            with _named(httpx2.WriteError, httpx2.WriteTimeout):
                async with aclosing(body):
                    async for piece in body:
                        pieces.append(framing.put(piece))
                        if len(pieces) > 2:  # all but a body in one piece goes out as it comes
                            await self._write(pieces, write_s)
                pieces.append(framing.end())
                await self._write(pieces, write_s)
        except httpx2.WriteError:
            self._was_read = False

    async def _write(self, pieces: list[bytes], write_s: float | None) -> None:
        data = b"".join(pieces)
        pieces.clear()
        with anyio.fail_after(write_s):
            await self._stream.send(data)

    async def receive_head(self, read_s: float | None) -> _Answer:
        while not self.answer.has_head:
            await self.receive(read_s)
        return self.answer

    async def receive(self, read_s: float | None) -> None:
        with _named(httpx2.ReadError, httpx2.ReadTimeout), anyio.fail_after(read_s):
            try:
                data = await self._stream.receive(READ_BYTES)
            except anyio.EndOfStream:
                data = b""
        if data:
            self.answer.feed(data)
        else:
            self.answer.end()

    async def close(self) -> None:
        with anyio.CancelScope(
            shield=True
        ):  # a call that is stopped leaves no socket behind; nobody is waited for
            await self._stream.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(
        self, transport: DirectTransport, connection: _Connection, read_s: float | None
    ) -> None:
        self._transport, self._connection = transport, connection
        self._read_s = read_s
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        answer = self._connection.answer
        while True:
            pieces, answer.pieces = answer.pieces, []
            if pieces:
                yield b"".join(pieces)
            if answer.is_complete:
                return
            await self._connection.receive(self._read_s)

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._transport.give_back(self._connection)


@contextmanager
def _named(
    broken: type[httpx2.NetworkError], late: type[httpx2.TimeoutException]
) -> Iterator[None]:
    """Gives errors of the connection the HTTP client's names, without the words of others."""
    try:
        yield
    except TimeoutError:
        raise late("nothing in time") from None
    except _BROKEN:
        raise broken("the connection broke") from None


def _peer(url: httpx2.URL) -> _Peer:
    is_tls = url.scheme == "https"
    return _Peer(is_tls, url.raw_host.decode("ascii"), url.port or (443 if is_tls else 80))


def _head(request: httpx2.Request) -> tuple[bytes, int | None]:
    """The head of a request, and the length of the body that it announces."""
    headers = request.headers.raw
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in headers]
    head = b"\r\n".join((*lines, b"", b""))
    ends = len(lines) + 1
    if head.count(b"\r") != ends or head.count(b"\n") != ends or b"\0" in head:
        raise httpx2.LocalProtocolError("a header holds a line break")
    return head, _length({name.lower(): value for name, value in headers})


def _length(headers: dict[bytes, bytes]) -> int | None:
    """How many bytes the body is to have; None, if it goes out in chunks."""
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if coding is None and (length is None or length.isdigit()):
        return int(length or 0)
    if length is None and coding is not None and coding.lower() == b"chunked":
        return None
    raise httpx2.LocalProtocolError("a header says wrongly how long the request is")


class _Framing:
    """Gives the body of a request the form that its head announces: a server reads what is beyond as another request."""

    def __init__(self, length: int | None) -> None:
        self._left = length

    def put(self, piece: bytes) -> bytes:
        if self._left is None:  # a chunk of no bytes would be the last
            return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
        self._left -= len(piece)
        if self._left < 0:
            raise httpx2.LocalProtocolError("the request is longer than its head says")
        return piece

    def end(self) -> bytes:
        if self._left:
            raise httpx2.LocalProtocolError("the request is shorter than its head says")
        return b"0\r\n\r\n" if self._left is None else b""
