"""FakeIrc: a small IRC server over memory, by RFC 2812: registration, PING, PRIVMSG, 401, 403 and 404; lines of 512 bytes."""

from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.channels.fake_socket import memory_pair


class FakeIrc:
    """People are outside of it: `say` puts their words in, `shown` is what they saw."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.people = {"ann", "beep"}
        self.channels = {"#workshop"}
        self.complaints: list[str] = []
        self.effects: list[Callable[[], None]] = []
        self.failures: list[str] = []
        self.nick: str | None = None
        self._burst: str | None = None
        """To whom the lines of one message go; a PING ends it."""
        self._stream: anyio.abc.ByteStream | None = None

    @property
    def is_connected(self) -> bool:
        return self._stream is not None

    async def accept(self, tasks: anyio.abc.TaskGroup) -> anyio.abc.ByteStream:
        here, there = memory_pair()
        tasks.start_soon(self._serve, there)
        return here

    async def put(self, line: str) -> None:
        assert self._stream is not None
        await self._stream.send(f"{line}\r\n".encode())

    async def say(self, nick: str, target: str, text: str) -> None:
        await self.put(f":{nick}!~{nick}@host.example PRIVMSG {target} :{text}")

    async def _serve(self, stream: anyio.abc.ByteStream) -> None:
        lines = BufferedByteReceiveStream(stream)
        try:
            while await self._take(stream, (await lines.receive_until(b"\n", 9000)).decode()):
                pass
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            pass
        finally:
            self._stream = self._burst = None
            await anyio.aclose_forcefully(stream)

    async def _take(self, stream: anyio.abc.ByteStream, line: str) -> bool:
        if len(line.encode()) > 512 or not line.endswith("\r"):
            self.complaints.append(f"not a line of IRC: {line!r}")
        command, _, rest = line.rstrip("\r").partition(" ")
        match command:
            case "NICK":
                self.nick = rest
            case "USER":
                await stream.send(f":srv 001 {self.nick} :Welcome\r\n".encode())
                self._stream = stream
            case "PING":
                self._burst = None
                await stream.send(f":srv PONG srv {rest}\r\n".encode())
            case "PRIVMSG":
                return await self._said(stream, *rest.split(" :", 1))
        return True

    async def _said(self, stream: anyio.abc.ByteStream, target: str, text: str) -> bool:
        failure = self.failures.pop(0) if self.failures and self._burst is None else None
        if failure == "lost before":
            return False
        number = {"gone": "401", "never": "404"}.get(failure or "")
        if number is None and target not in self.people | self.channels:
            number = "403" if target.startswith("#") else "401"
        if number is not None:
            await stream.send(f":srv {number} {self.nick} {target} :No\r\n".encode())
            return True
        if self._burst == target:
            self.shown[-1] = (target, f"{self.shown[-1][1]}\n{text}")
            return True
        self._burst = target
        self.shown.append((target, text))
        if self.effects:
            self.effects.pop()()
        return failure != "lost after"


def hostile() -> list[Any]:
    return [
        "",
        ":",
        ":x",
        "PRIVMSG",
        ":a!b@c PRIVMSG claw",
        ":no-mask PRIVMSG claw :x",
        ":a!b@c PRIVMSG claw :\x01VERSION\x01",
        "@t=1;x :srv 999",
        ":srv PONG",
        "\x00\u202e" * 50,
    ]
