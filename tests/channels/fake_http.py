"""FakeHttpService: what all own fakes of HTTP platforms have in common.

The fake answers in the same process by `FakeTransport` (no sockets, so tests run in virtual time), or over real TCP
by `serve_fake`, for tests that kill a gateway. Both break a connection on demand, before or after the effect, and
both raise or cause what a client really sees then.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

import anyio
import anyio.abc
import anyio.lowlevel
import h11
import httpx2
import msgspec
from starlette.datastructures import Headers, QueryParams

_READ_BYTES = 65_536


class AskedOfFake(msgspec.Struct, frozen=True):
    """One request."""

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body) if self.body else {}


class FakeAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


def json_of(value: Any, status: int = 200, **headers: str) -> FakeAnswer:
    return FakeAnswer(status, msgspec.json.encode(value), headers=headers)


class Cut(msgspec.Struct, frozen=True):
    """The connection breaks at the next request whose path ends so: before anything was sent, after the request was
    read and before it had an effect (`read`), or after its effect and before the answer."""

    path_end: str
    when: Literal["before", "read", "after"]


class FakeHttpService:
    """Subclasses implement `handle`. What a client did wrong that the real service would let pass unnoticed goes into
    `complaints`; a test ends with none."""

    def __init__(self) -> None:
        self.cuts: deque[Cut] = deque()
        self.answers: deque[tuple[str, FakeAnswer]] = deque()
        """Given in place of the real one to the next request whose path ends so; nothing happens then."""
        self.effects: deque[tuple[str, Callable[[], None]]] = deque()
        """Called after the next request whose path ends so had its effect, before it is answered."""
        self.requests: list[AskedOfFake] = []
        self.complaints: list[str] = []
        self.away = False
        """Nobody listens: every connection is refused."""

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        raise NotImplementedError

    def cut(self, path_end: str, when: Literal["before", "read", "after"]) -> None:
        self.cuts.append(Cut(path_end, when))

    def refuse(self, path_end: str, answer: FakeAnswer) -> None:
        self.answers.append((path_end, answer))

    def due_cut(self, path: str) -> str | None:
        if self.away:
            return "before"
        if self.cuts and path.endswith(self.cuts[0].path_end):
            return self.cuts.popleft().when
        return None

    async def respond(self, asked: AskedOfFake) -> FakeAnswer:
        self.requests.append(asked)
        if self.answers and asked.path.endswith(self.answers[0][0]):
            return self.answers.popleft()[1]
        answer = await self.handle(asked)
        if self.effects and answer.status < 300 and asked.path.endswith(self.effects[0][0]):
            self.effects.popleft()[1]()
        return answer


class FakeTransport(httpx2.AsyncBaseTransport):
    """Stands for the network of a client: hosts that it does not know cannot be reached."""

    def __init__(self, services: Mapping[str, FakeHttpService]) -> None:
        self._services = services

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        service = self._services.get(request.url.host)
        await anyio.lowlevel.checkpoint()
        if service is None:
            raise httpx2.ConnectError(f"no such host: {request.url.host}", request=request)
        cut = service.due_cut(request.url.path)
        if cut == "before":
            raise httpx2.ConnectError("connection refused", request=request)
        asked = AskedOfFake(
            request.method,
            request.url.host,
            request.url.path,
            dict(request.url.params),
            {name.lower(): value for name, value in request.headers.items()},
            await request.aread(),
        )
        if cut == "read":
            raise httpx2.ReadError("connection reset", request=request)
        timeout_s = request.extensions.get("timeout", {}).get("read")
        try:
            with anyio.fail_after(timeout_s):
                answer = await service.respond(asked)
        except TimeoutError:
            raise httpx2.ReadTimeout("no answer in time", request=request) from None
        if cut == "after":
            raise httpx2.RemoteProtocolError("server disconnected", request=request)
        return httpx2.Response(
            answer.status,
            headers={"content-type": answer.content_type, **answer.headers},
            content=answer.body,
            request=request,
        )


@asynccontextmanager
async def serve_fake(service: FakeHttpService, port: int = 0) -> AsyncGenerator[str]:
    """The same over TCP. Yields the address."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    bound = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, lambda stream: _converse(service, stream))
        yield f"http://127.0.0.1:{bound}"
        tasks.cancel_scope.cancel()


async def _converse(service: FakeHttpService, stream: anyio.abc.SocketStream) -> None:
    async with stream:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, h11.RemoteProtocolError):
            line = h11.Connection(h11.SERVER)
            while (asked := await _read(line, stream)) is not None:
                cut = service.due_cut(asked.path)
                if cut in ("before", "read"):
                    return
                answer = await service.respond(asked)
                if cut == "after":
                    return
                await _write(line, stream, answer)
                line.start_next_cycle()


async def _next(line: h11.Connection, stream: anyio.abc.SocketStream) -> Any:
    while (event := line.next_event()) is h11.NEED_DATA:
        try:
            line.receive_data(await stream.receive(_READ_BYTES))
        except anyio.EndOfStream:
            line.receive_data(b"")
    return event


async def _read(line: h11.Connection, stream: anyio.abc.SocketStream) -> AskedOfFake | None:
    head = await _next(line, stream)
    if not isinstance(head, h11.Request):
        return None
    body = bytearray()
    while isinstance(event := await _next(line, stream), h11.Data):
        body += event.data
    path, _, query = head.target.decode().partition("?")
    headers = Headers(raw=[(bytes(name), bytes(value)) for name, value in head.headers])
    return AskedOfFake(
        head.method.decode(),
        headers.get("host", ""),
        httpx2.URL(f"http://x{path}").path,
        dict(QueryParams(query)),
        dict(headers),
        bytes(body),
    )


async def _write(line: h11.Connection, stream: anyio.abc.SocketStream, answer: FakeAnswer) -> None:
    headers = {
        "content-type": answer.content_type,
        "content-length": str(len(answer.body)),
        **answer.headers,
    }
    head = h11.Response(status_code=answer.status, headers=list(headers.items()))
    for event in (head, h11.Data(data=answer.body), h11.EndOfMessage()):
        if data := line.send(event):
            await stream.send(data)
