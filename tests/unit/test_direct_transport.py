"""The connection below the HTTP client: what servers send, in whatever pieces, and what is kept for the next call."""

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import httpx2
import pytest
from anyio.streams.tls import TLSStream

from crossclaw.config import Paths
from crossclaw.config.gateway import Tls
from crossclaw.domain.errors import ProviderError
from crossclaw.domain.messages import Text
from crossclaw.gateway.certificate import open_certificate
from crossclaw.providers import kept_connections
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.providers.direct import DirectTransport
from crossclaw.providers.kept_connections import KeptConnections
from crossclaw.providers.openai import OpenAIProvider

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;why=not\r\nlo\r\n0\r\n\r\n"
Answers = Sequence[bytes]


class Server:
    """Answers the requests of each connection with the given bytes, one after the other, then hangs up."""

    def __init__(self, answers: Answers, *, hangs_up: bool) -> None:
        self._answers = list(answers)
        self._hangs_up = hangs_up
        self.connections = 0
        self.heard: list[bytes] = []

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        self.connections += 1
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while self._answers:
                    heard = b""
                    while b"\r\n\r\n" not in heard:
                        heard += await stream.receive()
                    self.heard.append(heard)
                    await stream.send(self._answers.pop(0))
                    if self._hangs_up:
                        return
                await anyio.sleep_forever()


@asynccontextmanager
async def served(
    *answers: bytes, hangs_up: bool = False, certificate: ssl.SSLContext | None = None
) -> AsyncGenerator[tuple[Server, str]]:
    server = Server(answers, hangs_up=hangs_up)

    async def serve(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            if certificate is None:
                await server.serve(stream)
                return
            with suppress(ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream):
                encrypted = await TLSStream.wrap(
                    stream, server_side=True, ssl_context=certificate, standard_compatible=False
                )
                await server.serve(encrypted)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield server, f"{'https' if certificate else 'http'}://127.0.0.1:{port}/v1/x?y=z"
        tasks.cancel_scope.cancel()


def client(trust: ssl.SSLContext | None = None, *, read_s: float = 5.0) -> httpx2.AsyncClient:
    transport = DirectTransport(trust or ssl.create_default_context(), kept_s=30.0)
    return httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(read_s))


@pytest.mark.parametrize(
    "answer",
    [
        HELLO,
        CHUNKED,
        b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO,
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + CHUNKED,
    ],
)
async def test_an_answer_that_says_where_it_ends_leaves_its_connection_for_the_next(
    answer: bytes,
) -> None:
    async with served(answer, answer) as (server, url), client() as http:
        for _ in range(2):
            response = await http.post(url, content=b"{}")
            assert (response.status_code, response.text) == (200, "hello")
            assert "link" not in response.headers
        assert server.connections == 1
        first = server.heard[0].split(b"\r\n")[0]
        assert first == b"POST /v1/x?y=z HTTP/1.1"


async def test_an_answer_may_come_byte_by_byte() -> None:
    async def trickle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            for at in range(len(CHUNKED)):
                await stream.send(CHUNKED[at : at + 1])

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
        client() as http,
    ):
        tasks.start_soon(listener.serve, trickle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        assert (await http.get(f"http://127.0.0.1:{port}")).text == "hello"
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "last",
    [
        OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        HELLO + b"and more",
        HELLO + bytes(150_000),
        HELLO + HELLO,
    ],
)
async def test_a_connection_that_has_had_its_last_answer_is_not_used_again(last: bytes) -> None:
    async with served(last, HELLO) as (server, url), client() as http:
        assert (await http.get(url)).text == "hello"
        assert (await http.get(url)).text == "hello"
        assert server.connections == 2


async def test_an_answer_without_a_length_ends_when_the_server_hangs_up() -> None:
    async with served(OK + b"\r\nhello", hangs_up=True) as (_, url), client() as http:
        assert (await http.get(url)).text == "hello"


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"HTTP/1.1 200",
        OK + b"content-length: 9\r\n\r\nhello",
        OK + b"transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n",
    ],
)
async def test_what_is_no_whole_answer_is_an_error(cut: bytes) -> None:
    async with served(cut, hangs_up=True) as (_, url), client() as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get(url)


@pytest.mark.parametrize(
    "garbled",
    [
        b"not at all HTTP\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\nzz\r\nhello",
        OK + b"content-length: 5\r\ncontent-length: 7\r\n\r\nhello",
        OK + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
        OK + b"content-length: 5, 5\r\n\r\nhello",
    ],
)
async def test_what_is_no_http_is_an_error_for_which_nobody_pays_twice(garbled: bytes) -> None:
    async with served(*[garbled] * 5, hangs_up=True) as (server, url), client() as http:
        with pytest.raises(httpx2.DecodingError):
            await http.get(url)
        provider = OpenAIProvider("own", url.removesuffix("/v1/x?y=z"), "key", retries=2)
        request = ModelRequest("m", "", [UserTurn([], [Text("hi")])])
        with pytest.raises(ProviderError, match="does not speak"):
            await provider.complete(request, lambda piece: None)
        await provider.close()
        assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello", True),
        (OK + b"x: a\r\n b\r\ncontent-length: 5\r\n\r\nhello", True),
        (OK + b"x: a\x01b\r\ncontent-length: 5\r\n\r\nhello", True),
        (OK + b"transfer-encoding: chunked\r\n\r\n5  \r\nhello\r\n0\r\n\r\n", True),
        (
            OK + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            False,
        ),
    ],
)
async def test_servers_that_are_not_strict_are_read_all_the_same(
    answer: bytes, is_kept: bool
) -> None:
    async with served(answer, answer) as (server, url), client() as http:
        for _ in range(2):
            assert (await http.get(url)).text == "hello"
        assert server.connections == (1 if is_kept else 2)


@pytest.mark.parametrize(
    "endless",
    [
        OK + b"x: y\r\n" * 100_000,
        OK + b"x: " + b"y" * 1_000_000,
        OK + b"transfer-encoding: chunked\r\n\r\n1;" + b"y" * 1_000_000,
        b"HTTP/1.1 102 Processing\r\n\r\n" * 100_000,
    ],
)
async def test_an_answer_that_never_comes_to_its_words_is_given_up(endless: bytes) -> None:
    async with served(endless) as (_, url), client() as http:
        with (
            anyio.fail_after(5),
            pytest.raises(httpx2.DecodingError, match="HTTP headers and chunk framing"),
        ):
            await http.get(url)


LONG = OK + b"transfer-encoding: chunked\r\n\r\n" + b"186a0\r\n%b\r\n" % bytes(100_000) * 20


@pytest.mark.parametrize(
    "endless",
    [
        LONG + b"0\r\n" + b"x: y\r\n" * 200_000,
        LONG + b"0\r\nx: " + b"y" * 1_000_000,
        LONG + b"1\r\na\r\n0\r\n" + b"x: y\r\n" * 200_000,
        LONG + (b"1;" + b"y" * 90_000 + b"\r\na\r\n") * 20,
    ],
    ids=["trailers", "one trailer", "trailers behind a little word", "framing of little words"],
)
async def test_a_long_answer_is_no_licence_for_what_is_no_part_of_it(endless: bytes) -> None:
    async with served(endless + b"\r\n\r\n") as (_, url), client() as http:
        with (
            anyio.fail_after(5),
            pytest.raises(httpx2.DecodingError, match="too many bytes of HTTP headers"),
        ):
            await http.get(url)


async def test_words_in_the_smallest_chunks_are_read_as_any_others() -> None:
    answer = OK + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 200_000
    async with served(answer + b"0\r\n\r\n") as (_, url), client() as http:
        assert (await http.get(url)).content == b"a" * 200_000


async def test_what_stands_behind_an_answer_is_none_of_its_headers() -> None:
    answer = CHUNKED.removesuffix(b"\r\n") + b"content-type: text/x\r\nset-cookie: a=b\r\n\r\n"
    async with served(answer, HELLO) as (server, url), client() as http:
        async with http.stream("GET", url) as response:
            assert await response.aread() == b"hello"
            assert list(response.headers) == ["transfer-encoding"]
        assert (await http.get(url)).text == "hello"
        assert server.connections == 1


async def test_silence_is_an_error_after_its_time() -> None:
    async with served(OK + b"content-length: 5\r\n\r\nhel") as (_, url), client(read_s=0.1) as http:
        with pytest.raises(httpx2.ReadTimeout):
            await http.get(url)


async def test_nobody_there_is_told_as_such() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with client() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(f"http://127.0.0.1:{port}")


async def test_a_connection_that_is_left_in_the_middle_of_an_answer_is_not_used_again() -> None:
    async with served(HELLO[:-1], HELLO) as (server, url), client() as http:
        async with http.stream("GET", url) as response:
            assert response.status_code == 200
        assert (await http.get(url)).text == "hello"
        assert server.connections == 2


async def test_a_kept_connection_that_the_server_has_closed_is_not_used() -> None:
    async with served(HELLO, HELLO, hangs_up=True) as (server, url), client() as http:
        assert (await http.get(url)).text == "hello"
        await anyio.sleep(0.05)  # its goodbye arrives
        assert (await http.get(url)).text == "hello"
        assert server.connections == 2


async def test_another_server_gets_a_connection_of_its_own() -> None:
    async with (
        served(HELLO) as (first, one),
        served(HELLO) as (second, other),
        client() as http,
    ):
        assert (await http.get(one)).text == (await http.get(other)).text == "hello"
        assert (first.connections, second.connections) == (1, 1)


@pytest.mark.parametrize("header", [{"x-own": "a\r\nx-other: b"}, {"x-own\r\n": "a"}])
async def test_a_line_break_in_a_header_leaves_nothing_of_it_on_the_wire(
    header: dict[str, str],
) -> None:
    async with served(HELLO) as (server, url), client() as http:
        with pytest.raises(httpx2.LocalProtocolError):
            await http.get(url, headers=header)
        assert not server.heard


@pytest.mark.parametrize("is_in_pieces", [True, False])
async def test_a_body_without_a_length_says_where_it_ends(is_in_pieces: bool) -> None:
    """Its pieces are chunks: what it holds is no framing, and the next request is not read as a part of it."""

    async def pieces() -> AsyncGenerator[bytes]:
        for piece in (b"0\r\n\r\n", b"", b"world"):
            yield piece

    if is_in_pieces:
        body: bytes | AsyncGenerator[bytes] = pieces()
        header: dict[str, str] = {}
        wanted = b"5\r\n0\r\n\r\n\r\n5\r\nworld\r\n0\r\n\r\n"
    else:
        body, header = b"hello", {"transfer-encoding": "Chunked"}
        wanted = b"5\r\nhello\r\n0\r\n\r\n"
    heard = b""

    async def listen(stream: anyio.abc.SocketStream) -> None:
        nonlocal heard
        async with stream:
            while not heard.endswith(wanted):
                heard += await stream.receive()
            await stream.send(HELLO)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
        client(read_s=1.0) as http,
    ):
        tasks.start_soon(listener.serve, listen)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        response = await http.post(f"http://127.0.0.1:{port}", content=body, headers=header)
        assert response.text == "hello"
        tasks.cancel_scope.cancel()
    assert heard.partition(b"\r\n\r\n")[2] == wanted


@pytest.mark.parametrize(
    "header",
    [
        {"content-length": "3"},
        {"content-length": "7"},
        {"content-length": "five"},
        {"content-length": "5", "transfer-encoding": "chunked"},
        {"transfer-encoding": "gzip"},
    ],
)
async def test_a_body_that_is_not_as_long_as_its_head_says_is_not_sent(
    header: dict[str, str],
) -> None:
    async with served(HELLO) as (server, url), client(read_s=1.0) as http:
        with pytest.raises(httpx2.LocalProtocolError):
            await http.post(url, content=b"hello", headers=header)
        assert not server.heard


@pytest.mark.parametrize("length", [b"content-length: 5", b"transfer-encoding: chunked", b"x: y"])
async def test_an_answer_about_the_head_alone_has_no_body(length: bytes) -> None:
    async with served(OK + length + b"\r\n\r\n", HELLO) as (_, url), client(read_s=1.0) as http:
        response = await http.head(url)
        assert (response.status_code, response.content) == (200, b"")
        assert (await http.get(url)).text == "hello"


async def test_a_server_that_answers_before_it_has_read_everything_is_heard() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nno!"
    body = bytes(8_000_000)

    async def pieces() -> AsyncGenerator[bytes]:
        for at in range(0, len(body), 65_536):
            yield body[at : at + 65_536]

    async with served(refusal, hangs_up=True) as (_, url), client() as http:
        response = None
        with suppress(httpx2.ReadError):  # a reset may overtake what was sent before it
            response = await http.post(url, content=pieces())
        assert response is None or response.status_code == 413


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_with_tls_only_who_is_trusted_is_asked(tmp_path: Path, is_trusted: bool) -> None:
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    made = open_certificate(Tls(enabled=True), paths, "127.0.0.1")
    assert made is not None
    authority = str(paths.certificate_dir / "gateway-cert.pem") if is_trusted else None
    trust = ssl.create_default_context(cafile=authority)
    async with (
        served(HELLO, HELLO, certificate=made.context) as (server, url),
        client(trust) as http,
    ):
        if is_trusted:
            assert (await http.get(url)).text == (await http.get(url)).text == "hello"
            assert server.connections == 1
        else:
            with pytest.raises(httpx2.ConnectError):
                await http.get(url)


@pytest.mark.parametrize(
    ("answer_bytes", "foreign_bytes"),
    [(65_000, 20_000), (3 * 16_384, 16_384), (2 * 16_384, 16_384), (16_384, 100)],
)
@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_what_came_behind_an_answer_is_not_read_as_the_next(
    tmp_path: Path, is_encrypted: bool, answer_bytes: int, foreign_bytes: int
) -> None:
    """Also where it was read from the socket already, or is encrypted: records of TLS hold 16,384 bytes, and asyncio reads
    across them."""
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    made = open_certificate(Tls(enabled=True), paths, "127.0.0.1")
    assert made is not None
    trust = ssl.create_default_context(cafile=str(paths.certificate_dir / "gateway-cert.pem"))
    both = answer_of(answer_bytes) + answer_of(foreign_bytes)
    certificate = made.context if is_encrypted else None
    async with (
        served(both, HELLO, certificate=certificate) as (server, url),
        client(trust) as http,
    ):
        async with http.stream("GET", url) as response:
            await anyio.sleep(0.05)  # all of it is there
            await response.aread()
        assert (await http.get(url)).text == "hello"
        assert server.connections == 2


async def test_half_of_a_record_behind_an_answer_is_heard_too(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    made = open_certificate(Tls(enabled=True), paths, "127.0.0.1")
    assert made is not None
    trust = ssl.create_default_context(cafile=str(paths.certificate_dir / "gateway-cert.pem"))
    connections = 0

    async def serve(stream: anyio.abc.SocketStream) -> None:
        nonlocal connections
        connections += 1
        came, gone = ssl.MemoryBIO(), ssl.MemoryBIO()
        encrypted = made.context.wrap_bio(came, gone, server_side=True)
        async with stream:
            for step in (encrypted.do_handshake, encrypted.read):
                while True:
                    with suppress(ssl.SSLWantReadError):
                        step()
                        break
                    await stream.send(gone.read())
                    came.write(await stream.receive())
            for answer in (HELLO, HELLO):
                encrypted.write(answer)
            await stream.send(gone.read()[:-1])
            await anyio.sleep_forever()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
        client(trust, read_s=1.0) as http,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        for _ in range(2):
            assert (await http.get(f"https://127.0.0.1:{port}")).text == "hello"
        tasks.cancel_scope.cancel()
    assert connections == 2


def answer_of(whole_bytes: int) -> bytes:
    """An answer that has so many bytes with its head."""
    length = whole_bytes - len(OK + b"content-length: 000000\r\n\r\n")
    return OK + b"content-length: %06d\r\n\r\n" % length + b"x" * length


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
async def test_a_proxy_that_the_environment_names_is_used(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in ("http_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(known, raising=False)
    async with served(HELLO) as (proxy, url):
        monkeypatch.setenv(name, url.removesuffix("/v1/x?y=z"))
        connections = KeptConnections(5.0, 5.0)
        async with connections.hold() as http:
            assert (await http.get("http://models.example/v1")).text == "hello"
        assert proxy.heard[0].startswith(b"GET http://models.example/v1 HTTP/1.1\r\n")
        await connections.close()


async def test_without_a_proxy_the_connection_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(known, raising=False)
    async with served(HELLO) as (_, url):
        connections = KeptConnections(5.0, 5.0)
        async with connections.hold() as http:
            response = await http.get(url)
        await connections.close()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    assert "network_stream" not in response.extensions  # which the client's own transport hands out


async def test_a_request_over_a_new_connection_is_not_sent_again_by_itself() -> None:
    """Only one over a kept connection is: the server had closed that one. What breaks a new one may have been paid for."""
    event = b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
    last = OK + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(event) + event
    async with served(last, b"", HELLO, hangs_up=True) as (server, url):
        provider = OpenAIProvider("own", url.removesuffix("/v1/x?y=z"), "key", retries=0)
        request = ModelRequest("m", "", [UserTurn([], [Text("hi")])])
        assert (await provider.complete(request, lambda piece: None)).text == "hi"
        with pytest.raises(ProviderError):
            await provider.complete(request, lambda piece: None)
        await provider.close()
        assert server.connections == 2


async def test_clients_that_rested_are_closed_while_another_takes_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_connections, "KEPT_S", 0.05)
    connections = KeptConnections(5.0, 5.0)
    async with served(*[HELLO] * 6) as (_, url):

        async def call(hold_s: float) -> None:
            async with connections.hold() as http:
                await http.get(url)
                await anyio.sleep(hold_s)

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(call, 0.02)
        await anyio.sleep(0.1)  # both have rested for too long
        is_answered = anyio.Event()

        async def first() -> None:
            async with connections.hold() as http:
                await http.get(url)
                is_answered.set()  # the next one begins while this one closes the other client

        async def second() -> None:
            await is_answered.wait()
            await call(0.0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second)
            tasks.start_soon(first)
        await connections.close()
