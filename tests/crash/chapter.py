"""A chapter: one state folder, many kills under load, a poisonous message, and a quiet end."""

import os
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import anyio

from tests.crash.clients import (
    IN_PROCESS_LOAD,
    PLAIN,
    POISON,
    TRIP,
    Client,
    Door,
    Load,
    make_clients,
)
from tests.crash.life import Cradle, Line, Living
from tests.crash.patience import see_through
from tests.crash.record import Death, Letter, Outcome, Place, Record, Sending
from tests.crash.store import HELD, find_runs
from tests.crash.victim import AWAY, Build

READY_S_MAX = (
    30.0  # a start takes a third of a second, and five where twenty others compute beside it
)
STILL_S_MAX = 30.0  # nothing ends, falls or is sent for so long: then it is stuck, and not slow
STOP_S_MAX = 5.0
LET_LIVE_S = 3600.0
LOOK_AGAIN_S = 0.01
LINE_S_MAX = 0.5  # a line that does not come must not keep its victim alive

LOAD_S = (0.05, 0.35)
CHANCE_STOP = 0.06  # of a graceful stop in the middle of the load
CHANCE_HURRY = 0.06  # of a graceful stop that is not waited for
HURRY_S_MAX = 0.03
CHANCE_TEAR = 0.2  # of a transcript that has lost its end, as a power cut leaves it
TEAR_BYTES_MAX = 400

POISONED, TRIPPED = Place("sure", "poisoned"), Place("loose", "tripped")
BEHIND_POISON = 3


At = Literal["start", "ready", "sent", "stamped", "answered", "stop", "hurry", "never"]


@dataclass(frozen=True, slots=True)
class Plan:
    """When a victim ends: so long after its start, after it was ready, or at a line it says."""

    at: At
    after_s: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """What the victims of a chapter are, and how they are spoken with."""

    cradle: Cradle
    load: Load
    early_s_max: float
    """From before the ledger is open until recovered runs are under way."""
    lines: tuple[At, ...]
    tears: bool = False
    """Whether transcripts lose their ends. The gateway repairs them by itself, but in its own time, so
    the victim must be able to be asked for it."""
    poison: bool = False
    prepare: Callable[[Path, Random, bool], None] = lambda folder, dice, last: None
    """Before each life; True: from now on all is well."""
    disturb: Callable[[Path, Random], Coroutine[Any, Any, None]] | None = None
    """While a victim lives that will be killed."""
    excuses: tuple[str, ...] = ()


def in_process_scene(cradle: Cradle, build: Build) -> Scene:
    lines: tuple[At, ...] = ("sent", "stamped", "answered")
    return Scene(cradle, IN_PROCESS_LOAD, 0.2, lines, tears=True, poison=build == "honest")


def make_plans(dice: Random, kills: int, scene: Scene) -> list[Plan]:
    plans: list[Plan] = []
    while kills > 0:
        plans.append(_late(dice) if dice.random() < 0.5 else _early(dice, scene))
        kills -= plans[-1].at != "stop"
    return plans


def _late(dice: Random) -> Plan:
    lot = dice.random()
    at: At = "ready"
    if lot < CHANCE_STOP + CHANCE_HURRY:
        at = "stop" if lot < CHANCE_STOP else "hurry"
    return Plan(at, dice.uniform(*LOAD_S))


def _early(dice: Random, scene: Scene) -> Plan:
    if dice.random() < 0.4:
        return Plan("start", dice.uniform(0, scene.early_s_max))
    return Plan(dice.choice(scene.lines), LINE_S_MAX, dice.randint(1, 25))


class Chapter:
    def __init__(self, folder: Path, seed: str, build: Build, scene: Scene) -> None:
        self.folder = folder
        self.record = Record(excuses=scene.excuses)
        self._build = build
        self._scene = scene
        self._dice = Random(seed)
        self._door = Door()
        self._clients = make_clients(scene.load, seed, self._door, self.record)
        self._closing = anyio.Event()
        self._load_over = anyio.Event()
        self._life: Living | None = None
        self._end_expected = False
        self._over = False

    async def play(self, kills: int, until: float) -> Record:
        """So many kills, or fewer when the time (of `time.monotonic`) is over."""
        self.folder.mkdir(parents=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._load)
            for plan in make_plans(self._dice, kills, self._scene):
                if time.monotonic() < until:
                    await self._live(plan)
            async with anyio.create_task_group() as last:
                last.start_soon(self._live_on)
                if not await see_through(self._settle, self._progress, STILL_S_MAX):
                    self.record.drain_s = None
                await self._stop_at_last()
            tasks.cancel_scope.cancel()
        given_up = find_runs(self.folder, "error LIKE 'given up after %'")
        self.record.given_up = given_up - self.record.poison
        self.record.failed = find_runs(self.folder, f"error LIKE '%{AWAY}%'")
        return self.record

    async def _load(self) -> None:
        async with anyio.create_task_group() as tasks:
            for client in self._clients:
                tasks.start_soon(client.serve, self._closing)
        self._load_over.set()

    # ── one life ───────────────────────────────────────────────────────────────────────────────

    async def _live(self, plan: Plan) -> None:
        self._scene.prepare(self.folder, self._dice, plan.at == "never")
        life = self._life = await self._scene.cradle.bear(self.folder, self._build)
        self._end_expected = False
        if self._over:
            self._kill(life)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end, life, plan)
                if self._scene.disturb is not None and plan.at != "never":
                    tasks.start_soon(self._scene.disturb, self.folder, self._dice)
                code = await life.listen(lambda line: self._hear(line, life, plan))
                tasks.cancel_scope.cancel()
        finally:
            life.kill()
        self._account_for(plan, code)
        self._look_at_what_is_left(code)
        if plan.at != "never" and self._scene.tears and self._dice.random() < CHANCE_TEAR:
            self._tear()

    def _look_at_what_is_left(self, code: int) -> None:
        held = find_runs(self.folder, HELD)
        if code == 0 and held:
            self.record.fallen.append(f"a graceful stop left {len(held)} runs that it had claimed")
        if code != 0:
            at_work = find_runs(self.folder, f"{HELD} AND status = 'running' AND attempt > 0")
            self.record.deaths.append(Death(at_work, from_outside=self._end_expected))

    async def _end(self, life: Living, plan: Plan) -> None:
        if plan.at != "start" and not await self._got_ready(life):
            return self._kill(life)
        await anyio.sleep(LET_LIVE_S if plan.at == "never" else plan.after_s)
        if plan.at == "stop":
            return await self._stop(life)
        if plan.at == "hurry":
            life.stop()
            await anyio.sleep(self._dice.uniform(0, HURRY_S_MAX))
        return self._kill(life)

    async def _got_ready(self, life: Living) -> bool:
        began = time.monotonic()
        with anyio.move_on_after(READY_S_MAX):
            await life.ready.wait()
        self.record.ready_s = max(self.record.ready_s, time.monotonic() - began)
        if not life.ready.is_set():
            self.record.fallen.append(f"a victim was not ready after {READY_S_MAX:.0f} s")
        return life.ready.is_set()

    def _hear(self, line: Line, life: Living, plan: Plan) -> None:
        told = line.pop("told", "answered")
        if told == "ready":
            self._door.open(life)
        elif told == "sent":
            self.record.sendings.append(Sending(**line))
        elif told == "ended":
            self.record.outcomes.append(Outcome(**line))
        elif told == "trouble":
            self.record.fallen.append(line["text"])
        if told == plan.at and life.heard[told] == plan.count:
            self._kill(life)

    def _kill(self, life: Living) -> None:
        self._end_expected = True
        life.kill()

    async def _stop(self, life: Living) -> None:
        began = time.monotonic()
        self._end_expected = True
        life.stop()
        with anyio.CancelScope(shield=True), anyio.move_on_after(2 * STOP_S_MAX) as patience:
            await life.over.wait()
        self.record.stops_s.append(time.monotonic() - began)
        if patience.cancelled_caught:
            life.kill()

    def _account_for(self, plan: Plan, code: int | None) -> None:
        if self._scene.poison and code == -9 and not self._end_expected:
            self.record.falls += 1
            return
        self.record.kills += code == -9
        if code == 0 and plan.at == "hurry":
            return  # it was faster than we
        if not self._end_expected or code != (0 if plan.at in ("stop", "never") else -9):
            self.record.fallen.append(f"a victim to be ended by {plan} ended with code {code}")

    def _tear(self) -> None:
        """The ledger syncs to disk, the copies for people do not: a power cut may shorten them."""
        files = sorted((self.folder / "state" / "sessions").rglob("*.jsonl"))
        if files:
            file = self._dice.choice(files)
            size = file.stat().st_size
            os.truncate(file, max(0, size - self._dice.randint(1, TEAR_BYTES_MAX)))
            self.record.tears += 1

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    async def _live_on(self) -> None:
        """Nobody kills any more; only poison does."""
        while not self._over:
            await self._live(Plan("never"))

    async def _settle(self) -> None:
        self.record.drain_s = await self._drain()
        await self._ask_once_more()

    def _progress(self) -> tuple[int, ...]:
        record = self.record
        return len(record.outcomes), len(record.sendings), record.falls, record.acknowledged

    async def _drain(self) -> float:
        began = time.monotonic()
        self._closing.set()
        await self._load_over.wait()
        await self._until_zero("open")
        drained_s = time.monotonic() - began
        if self._scene.poison:
            await self._poison()
            await self._until_zero("open")
        await self._until_zero("verify")
        return drained_s

    async def _until_zero(self, what: str) -> None:
        while True:
            if (await self._door.ask_until_told({"ask": what}))[what] == 0:
                return
            await anyio.sleep(LOOK_AGAIN_S)

    async def _ask_once_more(self) -> None:
        """About every run, and of a process that has carried out none of them."""
        if self._life is not None:
            await self._stop(self._life)
        client = self._one_more_client("z")
        for letter in self.record.letters:
            for run in tuple(letter.runs):
                await client.hear(run)

    def _one_more_client(self, name: str) -> Client:
        return Client(name, IN_PROCESS_LOAD, [], self._dice, self._door, self.record, gives_up=0.0)

    async def _poison(self) -> None:
        """One message falls once and is told so; another falls always and is given up. What lies
        behind it comes to its turn."""
        client = self._one_more_client("p")
        tripping, poison = client.write(TRIPPED, TRIP), client.write(POISONED, POISON)
        poison.fate = "error"
        behind = [client.write(POISONED, PLAIN) for _ in range(BEHIND_POISON)]
        await self._see_through(client, [tripping])
        for letter in (poison, *behind):
            await client.post(letter)
        await self._see_through(client, [poison])
        given_up = time.monotonic()
        await self._see_through(client, behind)
        self.record.behind_poison_s = time.monotonic() - given_up

    async def _see_through(self, client: Client, letters: Sequence[Letter]) -> None:
        for letter in letters:
            if not letter.acknowledged:
                await client.post(letter)
            for run in tuple(letter.runs):
                await client.hear(run)

    async def _stop_at_last(self) -> None:
        self._over = True
        if self._life is not None:
            await self._stop(self._life)
            await self._life.over.wait()
