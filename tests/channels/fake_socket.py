"""Fake WebSockets: the platform's side of one, over memory instead of a network, so that tests run in virtual time.

    dial = memory_dial(tasks, {"gateway.example": fake})

A fake is `talk(asked, socket)`. Raising `CutConnection` there breaks the connection without a word.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import anyio
import anyio.abc
import msgspec
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as UpgradeRequest
from websockets.server import ServerProtocol

from crossclaw.channels.websocket import Dial

READ_BYTES = 65_536


class CutConnection(Exception):
    """The fake hangs up here."""


class SocketLeft(Exception):
    """The client closed the WebSocket, or is gone. The code is None where it did not say one."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the client left: {code}")
        self.code = code


class TalkingFake(Protocol):
    async def talk(self, target: str, socket: "FakeSocket") -> None:
        """`target` is the path and query that the client asked for."""
        ...


def memory_dial(tasks: anyio.abc.TaskGroup, fakes: Mapping[str, TalkingFake]) -> Dial:
    """Connections go to the fake of that host; others cannot be reached."""

    async def dial(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
        if host not in fakes or not tls:
            raise OSError(f"no such host: {host}")
        here, there = memory_pair()
        tasks.start_soon(serve_stream, there, fakes[host])
        return here

    return dial


class SocketPlatform:
    """For drivers of the contract: sockets that live as long as the platform beside one start of the gateway."""

    def __init__(self) -> None:
        super().__init__()
        self._here = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None

    def is_connected(self) -> bool:
        raise NotImplementedError

    @asynccontextmanager
    async def platform(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as self._tasks:
            self._here.set()
            with anyio.fail_after(600):
                while not self.is_connected():  # noqa: ASYNC110  time is virtual
                    await anyio.sleep(0.05)
            yield
            self._here = anyio.Event()
            self._tasks.cancel_scope.cancel()

    def dial(self, fakes: Mapping[str, TalkingFake]) -> Dial:
        async def dial(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
            if not self._here.is_set() or self._tasks is None:
                raise OSError("the platform is not there yet")
            return await memory_dial(self._tasks, fakes)(host, port, tls)

        return dial


async def serve_stream(stream: anyio.abc.ByteStream, fake: TalkingFake) -> None:
    try:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive(READ_BYTES)
            await _upgrade(stream, head, fake)
    except (CutConnection, SocketLeft):
        await anyio.aclose_forcefully(stream)
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


async def _upgrade(stream: anyio.abc.ByteStream, head: bytes, fake: TalkingFake) -> None:
    protocol = ServerProtocol(max_size=1 << 20)
    protocol.receive_data(head)
    [upgrade] = protocol.events_received()
    assert isinstance(upgrade, UpgradeRequest)
    protocol.send_response(protocol.accept(upgrade))
    socket = FakeSocket(stream, protocol)
    await socket.flush()
    await fake.talk(upgrade.path, socket)


class FakeSocket:
    """The server's side of a WebSocket."""

    def __init__(self, stream: anyio.abc.ByteStream, protocol: ServerProtocol) -> None:
        self._stream = stream
        self._protocol = protocol
        self._sending = anyio.Lock()
        self._waiting: list[str] = []

    async def send(self, message: object) -> None:
        text = message if isinstance(message, bytes) else msgspec.json.encode(message)
        self._protocol.send_text(text)
        await self.flush()

    async def receive(self) -> Any:
        """The next message as JSON."""
        while not self._waiting:
            if (closed := self._protocol.close_rcvd) is not None:
                raise SocketLeft(closed.code)
            try:
                self._protocol.receive_data(await self._stream.receive(READ_BYTES))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise SocketLeft(None) from None
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    self._waiting.append(bytes(event.data).decode())
            await self.flush()
        return msgspec.json.decode(self._waiting.pop(0))

    async def ping(self) -> None:
        self._protocol.send_ping(b"?")
        await self.flush()

    async def close(self, code: int, reason: str = "") -> None:
        """As a platform closes: it says why, and hangs up."""
        self._protocol.send_close(code, reason)
        await self.flush()
        raise CutConnection

    async def flush(self) -> None:
        async with self._sending:
            for data in self._protocol.data_to_send():
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._stream.send(data)  # who is gone is noticed by `receive`


class MemoryStream(anyio.abc.ByteStream):
    """One end of a connection that never leaves the process, so that virtual time stays exact."""

    def __init__(
        self,
        out: anyio.abc.ObjectSendStream[bytes],
        into: anyio.abc.ObjectReceiveStream[bytes],
    ) -> None:
        self._out = out
        self._into = into
        self._rest = b""

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        data = self._rest or await self._into.receive()
        self._rest = data[max_bytes:]
        return data[:max_bytes]

    async def send(self, item: bytes) -> None:
        await self._out.send(bytes(item))

    async def send_eof(self) -> None:
        await self._out.aclose()

    async def aclose(self) -> None:
        await self._out.aclose()
        await self._into.aclose()


def memory_pair() -> tuple[MemoryStream, MemoryStream]:
    one_out, other_in = anyio.create_memory_object_stream[bytes](1000)
    other_out, one_in = anyio.create_memory_object_stream[bytes](1000)
    return MemoryStream(one_out, one_in), MemoryStream(other_out, other_in)
