"""The victim: a whole gateway in a process of its own, there to be killed.

Lines of JSON in and out. A submission is answered after it was committed. The other builds are the
controls: each breaks one promise, and the driver must find out.

    hasty      acknowledges before the commit
    forgetful  does not know a retried message again
    careless   carries out a tool with effects again after it was cut off
    pushing    sends a reply again after it was cut off, to a platform that shows it twice
    torn       leaves a transcript with half a line
    gossiping  tells a parent of its child's report before it stores that the child has reported
    impatient  counts a crash as an attempt of runs that only waited for others
    serial     lets suspects begin one by one

The others are of the real program, which wire.py starts:

    gateway    as it is
    eager      behind a proxy that acknowledges before it forwards
"""

import logging
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import inf
from pathlib import Path
from typing import Any, Literal, NoReturn

import anyio
import anyio.lowlevel
import msgspec

from crossclaw.app import Gateway, GatewayInputs, open_gateway
from crossclaw.config import Config, Paths
from crossclaw.disk.free_space import is_disk_full
from crossclaw.domain import suspects
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.clock import Clock, SystemClock
from crossclaw.domain.errors import CrossclawError, ProviderOverloaded
from crossclaw.domain.ids import RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.runs import Run
from crossclaw.domain.spawns import Spawn, SpawnReport
from crossclaw.domain.tools import ToolEffect
from crossclaw.ledger.operations import ASIDE_AFTER_MS, LANE_RUNS_MAX, Inject, Op
from crossclaw.ledger.sqlite import recovering
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.sessions.spawn_report import SpawnReports
from crossclaw.testing import submit
from tests.crash.furnishing import Ask, Chat, Fall, Look, Stamp, tell
from tests.stores import ON_SERVER

ONE_BY_ONE = {"queue": {"mode": "followup", "debounceMs": 0, "cap": LANE_RUNS_MAX}}
"""Each letter's words are a script for the one run that answers it."""

Build = Literal[
    "honest",
    "hasty",
    "forgetful",
    "careless",
    "pushing",
    "torn",
    "gossiping",
    "impatient",
    "serial",
    "gateway",
    "eager",
]

RUNS_AT_ONCE = 24  # fewer than the sessions, so that slots are fought for and given back
WAIT_S = 1.0  # a run that nobody knows must not be waited for until the end of days
BYTES_MAX = 65_536  # what a pipe holds
GOSSIP_S = 0.02  # between the two steps of the build that makes two of one


AWAY = "the rig has sent the model away"
TROUBLE = "trouble.json"


class Trouble(msgspec.Struct):
    """What a life has to do with, as the driver wrote it into the folder."""

    clock_ms: int = 0
    """How far the wall clock is wrong."""
    away_s: float = 0.0
    """How long the model cannot be reached."""
    runs_at_once: int = RUNS_AT_ONCE

    @classmethod
    def of(cls, folder: Path) -> "Trouble":
        file = folder / TROUBLE
        return msgspec.json.decode(file.read_bytes(), type=cls) if file.exists() else cls()


class WrongClock(SystemClock):
    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


class AwayModel(RehearsalProvider):
    def __init__(self, away_s: float) -> None:
        super().__init__()
        self._back_at = time.monotonic() + away_s

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        if time.monotonic() < self._back_at:
            raise ProviderOverloaded(AWAY)
        return await super().complete(request, tell)


class Opening(msgspec.Struct):
    folder: str
    build: Build


class Victim:
    def __init__(self, opening: Opening) -> None:
        self.is_ready = False
        self._build = opening.build
        self._folder = Path(opening.folder)
        self._chats = {
            "sure": Chat("sure", knows_key_s=inf),
            "loose": Chat("loose", knows_key_s=inf if opening.build == "pushing" else 0),
        }
        effect: ToolEffect = "once" if opening.build == "careless" else "effects"
        self._stamp = Stamp(self._folder, effect)
        self._ask = Ask()
        self._trouble = Trouble.of(self._folder)
        self._clock = WrongClock(self._trouble.clock_ms)
        if opening.build == "gossiping":
            _report_in_two_steps()
        elif opening.build == "impatient":
            recovering._only_waited = lambda db, run: False
        elif opening.build == "serial":
            suspects.divide = lambda runs, groups_max: tuple((run,) for run in runs)

    async def live(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_end_when_told, tasks.cancel_scope)
            async with open_gateway(
                _config(self._trouble), _paths(self._folder), self._outside()
            ) as gateway:
                self._ask.move_in(gateway)
                self.is_ready = True
                tell(told="ready")
                async with aclosing(_requests()) as requests:
                    async for request in requests:
                        tasks.start_soon(self._answer, gateway, request)
            tasks.cancel_scope.cancel()
        if self._build == "torn":
            _tear(self._folder)

    def _outside(self) -> GatewayInputs:
        tools = (Look(), self._stamp, self._ask, Fall("fall", "pure"), Fall("trip", "effects"))
        return GatewayInputs(
            environ=_environ(self._folder),
            clock=self._clock,
            providers={"rehearsal": AwayModel(self._trouble.away_s)},
            channels=tuple(self._chats.values()),
            tools=tools,
        )

    async def _answer(self, gateway: Gateway, request: dict[str, Any]) -> None:
        number = request.pop("number")
        request.pop("client", None)
        try:
            match request.pop("ask"):
                case "submit":
                    answer = await self._submit(gateway, number, **request)
                case "wait":
                    answer = await _wait(gateway, **request)
                case "verify":
                    answer = await _verify(gateway)
                case _:
                    answer = await _count_open(gateway, self._clock)
        except CrossclawError as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        if answer:
            tell(number=number, **answer)

    async def _submit(
        self, gateway: Gateway, number: int, token: str, place: dict[str, str], text: str
    ) -> dict[str, Any]:
        hasty = self._build == "hasty" and place["channel"] == "direct"
        if hasty:
            tell(number=number, run=f"run-{token}")
        name = RandomIds().new() if self._build == "forgetful" else token
        run_id = await self._hand_in(gateway, name, place, text)
        return {} if hasty else {"run": run_id}

    async def _hand_in(self, gateway: Gateway, name: str, place: dict[str, str], text: str) -> str:
        chat = self._chats.get(place["channel"])
        if chat is None:
            key = SessionKey.named("main", place["chat"])
            return (await submit(gateway, key, text, run_id=f"run-{name}")).run_id
        inbound = Inbound(
            address=Address(chat.name, place["chat"]),
            sender="ana",
            text=text,
            message_id=name,
            chat_type="group",
            chat_id=place["chat"],
        )
        received = await chat.host.receive(inbound)
        assert received.run_id is not None
        return received.run_id


async def _wait(gateway: Gateway, run: str) -> dict[str, Any]:
    found = await gateway.run_store.wait(run, WAIT_S)
    if found is None:
        return {"status": "unknown"}
    return {"status": found.status if found.ended else "open", "reply": found.reply}


async def _count_open(gateway: Gateway, clock: Clock) -> dict[str, Any]:
    deliveries = await gateway.ledger.list_open_deliveries(limit=1)
    soon = clock.now_ms() + ASIDE_AFTER_MS
    due = await gateway.ledger.list_timers(due_before=soon, limit=1)
    lanes = await gateway.ledger.lanes_with_work()
    return {"open": len(lanes) + len(deliveries) + len(due)}


async def _verify(gateway: Gateway) -> dict[str, Any]:
    """The gateway does so by itself, but not in the first seconds, and few victims grow so old."""
    await gateway.exporter.verify()
    return {"verify": 0}


def _report_in_two_steps() -> None:
    in_one_step = SpawnReports._report

    async def report(
        self: SpawnReports, spawn: Spawn, report: SpawnReport, run: Run
    ) -> list[Op[Any]]:
        ops = await in_one_step(self, spawn, report, run)
        await self._ledger.commit(*(op for op in ops if isinstance(op, Inject)))
        await anyio.sleep(GOSSIP_S)
        return [op for op in ops if not isinstance(op, Inject)]

    SpawnReports._report = report  # type: ignore[method-assign]


async def _requests() -> AsyncGenerator[dict[str, Any]]:
    rest = b""
    while chunk := await _read():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield msgspec.json.decode(line)


async def _read() -> bytes:
    await anyio.wait_readable(0)
    return os.read(0, BYTES_MAX)


async def _end_when_told(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


def _config(trouble: Trouble) -> Config:
    defaults = {"model": "rehearsal/rehearsal", "maxConcurrent": trouble.runs_at_once}
    return msgspec.convert({"agents": {"defaults": defaults}, "messages": ONE_BY_ONE}, Config)


def _environ(folder: Path) -> dict[str, str]:
    """On a run on PostgreSQL each folder has a database of its own."""
    if not ON_SERVER:
        return {}
    from tests.databases import url_of_folder  # noqa: PLC0415  an extra

    return {"CROSSCLAW_LEDGER_URL": url_of_folder(folder)}


def _paths(folder: Path) -> Paths:
    return Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")


def _tear(folder: Path) -> None:
    file = max((folder / "state" / "sessions").rglob("*.jsonl"))
    os.truncate(file, file.stat().st_size - 3)


async def warm_up() -> None:
    """Has the event loop imported as well."""
    await anyio.lowlevel.checkpoint()


def nest() -> None:
    """Victims are forks of one process that has imported everything and opened nothing: imports
    take longer than most victims live. The driver sends a folder and the ends of two pipes, and
    hears the victim's pid, then how it ended."""
    anyio.run(warm_up)
    with socket.socket(fileno=os.dup(0)) as door:
        while True:
            message, pipes, _, _ = socket.recv_fds(door, BYTES_MAX, 2)
            if not message:
                return
            pid = os.fork()
            if not pid:
                be_born(msgspec.json.decode(message, type=Opening), *pipes)
            for pipe in pipes:
                os.close(pipe)
            door.send(b"%d" % pid)
            door.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def be_born(opening: Opening, requests: int, answers: int) -> NoReturn:
    os.dup2(requests, 0)
    os.dup2(answers, 1)
    os.closerange(3, answers + 1)
    log = Path(opening.folder) / "victim.log"
    logging.basicConfig(filename=log, format="%(process)d %(levelname)s %(name)s %(message)s")
    try:
        while not _lived(opening):
            time.sleep(0.02)
    except BaseException:
        logging.critical("the victim ends", exc_info=True)
        os._exit(1)
    os._exit(0)


def _lived(opening: Opening) -> bool:
    """False: it did not start, because the disk is full. That is what it says then, and whoever started it does so again."""
    victim = Victim(opening)
    try:
        anyio.run(victim.live)
    except Exception as error:
        if victim.is_ready or not is_disk_full(error):
            raise
        return False
    return True


if __name__ == "__main__":
    nest()
