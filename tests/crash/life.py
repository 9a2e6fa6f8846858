"""A life: one victim's process, from its birth in the nest to its end."""

import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import anyio
import anyio.abc
import msgspec

from tests.crash.victim import BYTES_MAX, Build, Opening

COMMAND = (sys.executable, "-m", "tests.crash.victim")
ROOT = Path(__file__).parents[2]

Line = dict[str, Any]
Hear = Callable[[Line], None]


class Gone(Exception):
    """The process ended before it answered."""


class HungUp(Gone):
    """The caller hung up before it was answered; the process lives."""


class Living(Protocol):
    """A process that is spoken with, however: by pipe, or by WebSocket."""

    ready: anyio.Event
    over: anyio.Event
    heard: Counter[str]

    async def ask(self, request: Line) -> Line: ...

    async def listen(self, hear: Hear) -> int: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...


class Cradle(Protocol):
    async def bear(self, folder: Path, build: Build) -> Living: ...


class Nest:
    """The process that victims are forked from; one at a time."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door

    async def bear(self, folder: Path, build: Build) -> "Life":
        requests, to_victim = os.pipe()
        from_victim, answers = os.pipe()
        opening = msgspec.json.encode(Opening(str(folder), build))
        socket.send_fds(self._door, [opening], [requests, answers])
        os.close(requests)
        os.close(answers)
        return Life(await self.hear(), to_victim, from_victim, self)

    async def hear(self) -> int:
        """The pid of the victim that was born, then the exit code with which it was buried."""
        await anyio.wait_readable(self._door)
        message = self._door.recv(BYTES_MAX)
        if not message:
            raise ChildProcessError("the nest is gone; its stderr says why")
        return int(message)


@asynccontextmanager
async def build_nest(complaints: IO[bytes]) -> AsyncGenerator[Nest]:
    door, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with door:
        process = await anyio.open_process(
            COMMAND, stdin=inside.fileno(), stdout=None, stderr=complaints, cwd=ROOT
        )
        inside.close()
        yield Nest(door)
    with anyio.CancelScope(shield=True):
        await process.wait()


class Life:
    def __init__(self, pid: int, to_victim: int, from_victim: int, nest: Nest) -> None:
        self._pid = pid
        self._to, self._from = to_victim, from_victim
        self._nest = nest
        self._answers: dict[int, Answer] = {}
        self._asked = 0
        self._alive = True
        self.ready = anyio.Event()
        self.over = anyio.Event()
        self.heard: Counter[str] = Counter()

    async def ask(self, request: Line) -> Line:
        if not self._alive:
            raise Gone
        self._asked += 1
        answer = self._answers[self._asked] = Answer()
        try:
            os.write(self._to, msgspec.json.encode({**request, "number": self._asked}) + b"\n")
        except BrokenPipeError:
            raise Gone from None
        await answer.come.wait()
        if answer.line is None:
            raise Gone
        return answer.line

    async def listen(self, hear: Hear) -> int:
        """Until the process is dead and all that it had said is heard. Answers its exit code."""
        rest = b""
        while chunk := await self._read():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hear(msgspec.json.decode(line), hear)
        self._alive = False
        for fd in (self._to, self._from):
            os.close(fd)
        # Its lock on the folder is free once it is buried, which is later than its last word.
        code = await self._nest.hear()
        for answer in self._answers.values():
            answer.come.set()
        self.over.set()
        return code

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self._alive:
            os.kill(self._pid, number)

    async def _read(self) -> bytes:
        await anyio.wait_readable(self._from)
        return os.read(self._from, BYTES_MAX)

    def _hear(self, line: Line, hear: Hear) -> None:
        told = line.get("told", "answered")
        self.heard[told] += 1
        if told == "ready":
            self.ready.set()
        if answer := self._answers.pop(line.get("number", 0), None):
            answer.line = line
            answer.come.set()
        hear(line)


class Answer:
    __slots__ = ("come", "line")

    def __init__(self) -> None:
        self.come = anyio.Event()
        self.line: Line | None = None
