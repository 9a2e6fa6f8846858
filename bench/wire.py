"""Wire: a client of the gateway that reads no more of a frame than it must, as it has half of a small machine
for itself."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar
from uuid import uuid4

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from bench.served import TOKEN, Served
from bench.work import Stopwatch

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Chat(msgspec.Struct, rename="camel"):
    """A `chat` event, as far as it tells whether it is the end."""

    run_id: str
    state: str
    error_message: str = ""


class Frame(msgspec.Struct):
    type: str
    id: str = ""
    ok: bool = True
    event: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    error: Any = None


_frame = msgspec.json.Decoder(Frame).decode
_chat = msgspec.json.Decoder(Chat).decode


class Awaited(Generic[T]):
    """A value that somebody waits for."""

    __slots__ = ("_came", "_value")

    def __init__(self) -> None:
        self._came = anyio.Event()
        self._value: T | None = None

    def came(self, value: T) -> None:
        self._value = value
        self._came.set()

    async def wait(self) -> T:
        await self._came.wait()
        assert self._value is not None
        return self._value


class Wire:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._answers: dict[str, Awaited[Frame]] = {}
        self._ends: dict[str, Awaited[Chat]] = {}
        self._report = Awaited[Chat]()
        self._count = 0
        self.answered_ms: list[float] = []
        """The times from each `chat.send` to its first answer: the message is on disk."""

    async def serve(self) -> None:
        async for data in self._socket:
            frame = _frame(data)
            if frame.type == "res":
                self._answers.pop(frame.id).came(frame)
            elif frame.event == "chat":
                self._take(_chat(frame.payload))

    def _take(self, chat: Chat) -> None:
        if chat.state in ("final", "error", "aborted") and chat.run_id in self._ends:
            self._ends.pop(chat.run_id).came(chat)
        elif chat.run_id.startswith("inject-"):
            self._report.came(chat)

    async def ask(self, method: str, params: dict[str, Any]) -> msgspec.Raw:
        self._count += 1
        request_id = str(self._count)
        answer = self._answers[request_id] = Awaited[Frame]()
        frame = {"type": "req", "id": request_id, "method": method, "params": params}
        await self._socket.send(_encode(frame), text=True)
        got = await answer.wait()
        if not got.ok:
            raise RuntimeError(f"{method} was refused: {got.error}")
        return got.payload

    async def refused(self, text: str, request_id: str) -> None:
        """Sends an invalid request and waits until it is refused under its id."""
        answer = self._answers[request_id] = Awaited[Frame]()
        await self._socket.send(text, text=True)
        if (await answer.wait()).ok:
            raise RuntimeError("what is no request was answered")

    async def turn(self, key: str, text: str) -> None:
        run_id = uuid4().hex
        end = self._ends[run_id] = Awaited[Chat]()
        params = {"sessionKey": key, "message": text, "idempotencyKey": run_id}
        began = time.perf_counter()
        await self.ask("chat.send", params)
        self.answered_ms.append((time.perf_counter() - began) * 1_000)
        if (chat := await end.wait()).state != "final":
            raise RuntimeError(f"a turn failed, and none may: {chat.error_message or chat.state}")

    async def spawn(self, key: str, task: str, answered: Stopwatch) -> None:
        """Spawns a child and waits until its report has come. The caller follows the session already."""
        self._report = Awaited[Chat]()
        with answered.piece():
            await self.ask("sessions.spawn", {"sessionKey": key, "task": task})
        await self._report.wait()

    async def talk(self, keys: Sequence[str], turns_each: int, text: str, watch: Stopwatch) -> None:
        """Talks in all sessions at once; each takes its next turn when it has its answer."""

        async def talk_in(key: str) -> None:
            for _ in range(turns_each):
                with watch.piece():
                    await self.turn(key, text)

        async with anyio.create_task_group() as tasks:
            for key in keys:
                tasks.start_soon(talk_in, key)


@asynccontextmanager
async def wired(gateway: Served) -> AsyncGenerator[Wire]:
    async with _connected(gateway) as socket, anyio.create_task_group() as tasks:
        wire = Wire(socket)
        tasks.start_soon(wire.serve)
        await wire.ask("connect", _introduction())
        yield wire
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _connected(gateway: Served) -> AsyncGenerator[ClientConnection]:
    """A connection. The challenge is read and needs no answer of ours: the token is enough on loopback."""
    async with connect(gateway.url, proxy=None, compression=None, max_size=None) as socket:
        await socket.recv()
        yield socket


async def idle_connection(gateway: Served) -> ClientConnection:
    """A connection that is let in, and then silent."""
    socket = await connect(gateway.url, proxy=None, compression=None, ping_interval=None)
    await socket.recv()
    frame = {"type": "req", "id": "0", "method": "connect", "params": _introduction()}
    await socket.send(_encode(frame), text=True)
    if not _frame(await socket.recv()).ok:
        raise RuntimeError("a connection was refused")
    return socket


def _introduction() -> dict[str, Any]:
    return {
        "minProtocol": 4,
        "maxProtocol": 4,
        "client": {"id": "cli", "mode": "cli", "version": "1", "platform": "linux"},
        "role": "operator",
        "scopes": ["operator.admin"],
        "caps": [],
        "auth": {"token": TOKEN},
    }
