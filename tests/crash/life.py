"""A life: one victim's process, from its warm start to its end."""

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from tests.crash.victim import Build, Opening

COMMAND = (sys.executable, "-m", "tests.crash.victim")
ROOT = Path(__file__).parents[2]

Line = dict[str, Any]


class Gone(Exception):
    """The process ended before it answered."""


class Life:
    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._answers: dict[int, _Answer] = {}
        self._asked = 0
        self._alive = True
        self.ready = anyio.Event()
        self.over = anyio.Event()
        self.heard: Counter[str] = Counter()

    @classmethod
    async def begin(cls, complaints: Any) -> "Life":
        """A process that has imported everything and waits for a house."""
        life = cls(await anyio.open_process(COMMAND, stderr=complaints, cwd=ROOT))
        assert life._process.stdout is not None
        await life._process.stdout.receive()
        return life

    async def open(self, folder: Path, build: Build) -> None:
        await self._write(msgspec.json.encode(Opening(str(folder), build)) + b"\n")

    async def ask(self, request: Line) -> Line:
        if not self._alive:
            raise Gone
        self._asked += 1
        answer = self._answers[self._asked] = _Answer()
        await self._write(msgspec.json.encode({**request, "number": self._asked}) + b"\n")
        await answer.come.wait()
        if answer.line is None:
            raise Gone
        return answer.line

    async def listen(self, hear: Callable[[Line], None]) -> int | None:
        """Until the process is dead and all that it had said is read. Answers its exit code."""
        assert self._process.stdout is not None
        rest = b""
        async for chunk in self._process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hear(msgspec.json.decode(line), hear)
        self._alive = False
        # Its lock on the folder is free once it is buried, which is later than its last word.
        code = await self._process.wait()
        for answer in self._answers.values():
            answer.come.set()
        await self._process.aclose()
        self.over.set()
        return code

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self._alive:
            self._process.send_signal(number)

    def _hear(self, line: Line, hear: Callable[[Line], None]) -> None:
        if "number" in line:
            answer = self._answers.pop(line["number"], None)
            if answer is not None:
                answer.line = line
                answer.come.set()
            self.heard["answered"] += 1
        else:
            self.heard[line["told"]] += 1
            if line["told"] == "ready":
                self.ready.set()
        hear(line)

    async def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(line)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise Gone from None


class _Answer:
    __slots__ = ("come", "line")

    def __init__(self) -> None:
        self.come = anyio.Event()
        self.line: Line | None = None


class Bench:
    """Has the next victim warm, because imports take longer than most victims live."""

    def __init__(self, complaints: Any) -> None:
        self._complaints = complaints
        self._send, self._receive = anyio.create_memory_object_stream[Life](0)

    async def serve(self) -> None:
        with self._send, self._receive:
            while True:
                life = await Life.begin(self._complaints)
                try:
                    await self._send.send(life)
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        life.kill()
                        await life.listen(lambda line: None)
                    raise

    async def take(self) -> Life:
        return await self._receive.receive()
