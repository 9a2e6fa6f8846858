"""A gateway's process, and the pipe to it."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc
import msgspec

from tests.faults.network import Link
from tests.faults.world import WorldFile

ASK_S = 3.0
ROOT = Path(__file__).parents[2]


class Unanswered(Exception):
    pass


class Trapped(NamedTuple):
    """Where the writer stands: the port of its connection, and the server's process at the other end."""

    port: int
    backend: int


class GatewayProcess:
    def __init__(
        self, world: Path, link: Link, name: str, url: str, build: str, clock: Path | None
    ) -> None:
        """`clock`: the library that lets it have a clock of its own."""
        self.link, self.name = link, name
        self._clock_file = world / f"{name}.clock"
        self.set_clock(0)
        faked = [] if clock is None else _faked(clock, self._clock_file)
        program = (sys.executable, "-m", "tests.faults.gateway", str(world), name, url, build)
        self._command = link.command("env", *faked, *program)
        self._log = world / f"{name}.stderr"
        self._opened = WorldFile(world / "opened.txt")
        self._process: anyio.abc.Process | None = None
        self._answers: dict[int, tuple[anyio.Event, list[Any]]] = {}
        self._count = 0
        self.ready, self.blocked = anyio.Event(), anyio.Event()
        self._trapped: tuple[anyio.Event, list[Trapped]] = (anyio.Event(), [])
        self.deaths = 0

    def set_clock(self, seconds: int) -> None:
        beside = self._clock_file.with_suffix(".new")
        beside.write_text(f"{seconds:+d}\n")
        os.replace(beside, self._clock_file)

    async def serve(self) -> None:
        """One life."""
        with self._log.open("ab") as log:
            process = await anyio.open_process(self._command, stderr=log, cwd=ROOT)
        self._process = process
        try:
            await self._listen(process)
        finally:
            self._process, self.ready = None, anyio.Event()
            with anyio.CancelScope(shield=True):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                await process.wait()
                await process.aclose()
            self._opened.write("end", f"{self.name}/{process.pid}", time.monotonic())
            self.deaths += 1

    async def _listen(self, process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        rest = b""
        async for chunk in process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hear(msgspec.json.decode(line))

    def _hear(self, line: dict[str, Any]) -> None:
        match line.get("told"):
            case "ready":
                self.ready.set()
            case "blocked":
                self.blocked.set()
            case "trapped":
                self._trapped[1].append(Trapped(line["port"], line["backend"]))
                self._trapped[0].set()
        if known := self._answers.pop(line.get("number", 0), None):
            known[1].append(line)
            known[0].set()

    async def ask(self, **request: Any) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None or not self.ready.is_set():
            raise Unanswered
        self._count += 1
        event, answer = self._answers[self._count] = (anyio.Event(), [])
        line = msgspec.json.encode({**request, "number": self._count}) + b"\n"
        with anyio.move_on_after(ASK_S):
            try:
                await process.stdin.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise Unanswered from None
            await event.wait()
        if not answer:
            raise Unanswered
        return dict(answer[0])

    async def set_trap(self, at: str) -> None:
        self._trapped, self.blocked = (anyio.Event(), []), anyio.Event()
        with suppress(Unanswered):
            await self.ask(ask="trap", at=at)

    async def trapped(self) -> Trapped:
        """Once its writer stands at that point."""
        await self._trapped[0].wait()
        return self._trapped[1][0]

    async def go_on(self) -> None:
        with suppress(Unanswered):
            await self.ask(ask="go")

    def signal(self, number: signal.Signals) -> None:
        """Not by the process object, which would look whether it has ended and take its end from whoever waits for it."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


def _faked(library: Path, clock: Path) -> list[str]:
    return [
        f"LD_PRELOAD={library}",
        f"FAKETIME_TIMESTAMP_FILE={clock}",
        "FAKETIME_CACHE_DURATION=1",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
        "DONT_FAKE_MONOTONIC=1",
    ]


def find_clock() -> Path | None:
    """libfaketime, where it is installed."""
    found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    found += Path("/usr/lib/faketime").glob("libfaketimeMT.so.1")
    return next(iter(found), None)
