"""A chapter: one state folder, many kills under load, a poisonous message, and a quiet end."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

import anyio

from tests.crash.clients import PLAIN, POISON, TRIP, Client, Door, make_clients
from tests.crash.life import Bench, Life, Line
from tests.crash.record import Letter, Place, Record, Sending
from tests.crash.victim import Build

DRAIN_S_MAX = 30.0
STOP_S_MAX = 5.0
LET_LIVE_S = 3600.0
LINE_S_MAX = 0.5  # a line that does not come must not keep its victim alive

EARLY_S_MAX = 0.06  # from before the ledger is open until just after recovery
LOAD_S = (0.15, 0.45)
CHANCE_STOP = 0.06  # of a graceful stop in the middle of the load

POISONED, TRIPPED = Place("sure", "poisoned"), Place("loose", "tripped")
BEHIND_POISON = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """When a victim ends: so long after its start, after it was ready, or at a line it says."""

    at: Literal["start", "ready", "sent", "stamped", "answered", "stop", "never"]
    after_s: float = 0.0
    count: int = 0


def make_plans(dice: Random, kills: int) -> list[Plan]:
    """A victim that dies early is followed by one that lives for a while: whoever kills every
    start within milliseconds sees each run that had begun given up after three attempts, as it
    should be; that is what the poisonous message is for."""
    plans: list[Plan] = []
    while kills > 0:
        before = plans[-1].at if plans else "ready"
        plans.append(_load(dice) if before not in ("ready", "stop") else _any(dice))
        kills -= plans[-1].at != "stop"
    return plans


def _load(dice: Random) -> Plan:
    at: Literal["stop", "ready"] = "stop" if dice.random() < CHANCE_STOP else "ready"
    return Plan(at, dice.uniform(*LOAD_S))


def _any(dice: Random) -> Plan:
    at: Literal["start", "line", "load"] = dice.choice(("start", "line", "line", "load"))
    if at == "start":
        return Plan("start", dice.uniform(0, EARLY_S_MAX))
    if at == "line":
        words: tuple[Literal["sent", "stamped", "answered"], ...] = ("sent", "stamped", "answered")
        return Plan(dice.choice(words), LINE_S_MAX, dice.randint(1, 25))
    return _load(dice)


class Chapter:
    def __init__(self, folder: Path, seed: str, build: Build, bench: Bench) -> None:
        self.folder = folder
        self.record = Record()
        self._build = build
        self._bench = bench
        self._dice = Random(seed)
        self._door = Door()
        self._clients = make_clients(seed, self._door, self.record)
        self._closing = anyio.Event()
        self._load_over = anyio.Event()
        self._life: Life | None = None
        self._end_expected = False

    async def play(self, kills: int, until: float) -> Record:
        """So many kills, or fewer when the time (of `time.monotonic`) is over."""
        self.folder.mkdir(parents=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._load)
            for plan in make_plans(self._dice, kills):
                if time.monotonic() < until:
                    await self._live(plan)
            tasks.start_soon(self._live_on)
            with anyio.move_on_after(DRAIN_S_MAX):
                self.record.drain_s = await self._drain()
            await self._stop_at_last()
            tasks.cancel_scope.cancel()
        return self.record

    async def _load(self) -> None:
        async with anyio.create_task_group() as tasks:
            for client in self._clients:
                tasks.start_soon(client.serve, self._closing)
        self._load_over.set()

    # ── one life ───────────────────────────────────────────────────────────────────────────────

    async def _live(self, plan: Plan) -> None:
        life = self._life = await self._bench.take()
        self._end_expected = False
        async with anyio.create_task_group() as tasks:
            await life.open(self.folder, self._build)
            tasks.start_soon(self._end, life, plan)
            code = await life.listen(lambda line: self._hear(line, life, plan))
            tasks.cancel_scope.cancel()
        self._door.close()
        self._account_for(plan, code)

    async def _end(self, life: Life, plan: Plan) -> None:
        if plan.at != "start":
            await life.ready.wait()
        await anyio.sleep(LET_LIVE_S if plan.at == "never" else plan.after_s)
        if plan.at == "stop":
            await self._stop(life)
        else:
            self._kill(life)

    def _hear(self, line: Line, life: Life, plan: Plan) -> None:
        told = line.pop("told", "answered")
        if told == "ready":
            self._door.open(life)
        elif told == "sent":
            self.record.sendings.append(Sending(**line))
        if told == plan.at and life.heard[told] >= plan.count:
            self._kill(life)

    def _kill(self, life: Life) -> None:
        self._end_expected = True
        life.kill()

    async def _stop(self, life: Life) -> None:
        began = time.monotonic()
        self._end_expected = True
        life.stop()
        with anyio.CancelScope(shield=True), anyio.move_on_after(2 * STOP_S_MAX) as patience:
            await life.over.wait()
        self.record.stops_s.append(time.monotonic() - began)
        if patience.cancelled_caught:
            life.kill()

    def _account_for(self, plan: Plan, code: int | None) -> None:
        if plan.at == "never" and code == -9 and not self._end_expected:
            self.record.falls += 1
            return
        wanted = 0 if plan.at in ("stop", "never") else -9
        self.record.kills += wanted == -9
        if not self._end_expected or code != wanted:
            self.record.fallen.append(f"a victim to be ended by {plan} ended with code {code}")

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    async def _live_on(self) -> None:
        """Nobody kills any more; only poison does."""
        while not self._end_expected or self._life is None:
            await self._live(Plan("never"))

    async def _drain(self) -> float:
        began = time.monotonic()
        self._closing.set()
        await self._load_over.wait()
        await self._wait_quiet()
        drained_s = time.monotonic() - began
        await self._poison(Client("p", [POISONED], self._dice, self._door, self.record))
        await self._wait_quiet()
        return drained_s

    async def _wait_quiet(self) -> None:
        while (await self._door.ask_until_told({"ask": "open"})).get("open") != 0:
            await anyio.sleep(0.02)

    async def _poison(self, client: Client) -> None:
        """One message falls once and is told so; another falls always and is given up. What lies
        behind it comes to its turn."""
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
            while not letter.acknowledged:
                await client.post(letter)
            for run in tuple(letter.runs):
                await client.hear(run)

    async def _stop_at_last(self) -> None:
        if self._life is not None:
            await self._stop(self._life)
            await self._life.over.wait()
