"""The WebSocket to chat platforms, against a server that is not ours: the protocol of `websockets` on the other side."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from crossclaw.channels.websocket import SocketClosed, SocketDown, Websocket, open_websocket
from tests.channels.fake_socket import (
    CutConnection,
    FakeSocket,
    SocketLeft,
    memory_dial,
    memory_pair,
)


class Echo:
    """Says everything back; `bye` closes, `drop` hangs up, `big` is more than the client takes."""

    def __init__(self) -> None:
        self.left: list[int | None] = []
        self.target = ""

    async def talk(self, target: str, socket: FakeSocket) -> None:
        self.target = target
        try:
            while (said := await socket.receive()) != "drop":
                if said == "bye":
                    await socket.close(4004, "Authentication failed.")
                await socket.send("x" * 5000 if said == "big" else said)
            raise CutConnection
        except SocketLeft as left:
            self.left.append(left.code)
            raise


@asynccontextmanager
async def connected(echo: Echo, *, close_code: int = 1000) -> AsyncGenerator[Websocket]:
    async with anyio.create_task_group() as tasks:
        dial = memory_dial(tasks, {"chat.example": echo})
        url = "wss://chat.example/?v=10"
        async with open_websocket(url, bytes_max=4096, dial=dial, close_code=close_code) as socket:
            yield socket


async def test_what_is_said_comes_back_and_the_goodbye_has_its_code() -> None:
    echo = Echo()
    async with connected(echo, close_code=4000) as socket:
        await socket.send('{"a": 1}')
        await socket.send('"second"')
        assert await socket.receive() == b'{"a":1}'
        assert await socket.receive() == b'"second"'
    assert echo.target == "/?v=10"
    assert echo.left == [4000]


async def test_a_close_of_the_platform_is_told_with_its_code_and_reason() -> None:
    async with connected(Echo()) as socket:
        await socket.send('"bye"')
        with pytest.raises(SocketClosed) as closed:
            await socket.receive()
    assert (closed.value.close_code, closed.value.reason) == (4004, "Authentication failed.")


@pytest.mark.parametrize("how", ["drop", "big"])
async def test_a_connection_that_breaks_or_says_too_much_is_down(how: str) -> None:
    async with connected(Echo()) as socket:
        await socket.send(f'"{how}"')
        with pytest.raises(SocketDown) as down:
            await socket.receive()
        assert not isinstance(down.value, SocketClosed)
        with pytest.raises(SocketDown):
            await socket.send('"still there?"')


async def test_what_is_no_websocket_and_who_does_not_answer_are_down_in_words() -> None:
    async def refuse(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
        raise OSError("Connection refused")

    here, there = memory_pair()

    async def silent(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
        return here

    for dial, words in ((refuse, "Connection refused"), (silent, "within 20 s")):
        with pytest.raises(SocketDown, match=words):
            async with open_websocket("wss://chat.example/?ticket=secret", bytes_max=9, dial=dial):
                pass
    await there.aclose()
