"""The course of a simulation: many lanes wait, gateways start, messages come, some gateways die; and what was seen of it."""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import anyio
import msgspec

from crossclaw.domain.aliases import Hints
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import NewRun, Run
from crossclaw.domain.sessions import NewSession
from crossclaw.testing import VirtualClock
from tests.scale.gateways import Pausing, SimulatedGateway
from tests.scale.ledgers import SharedLedger
from tests.scale.seeding import key_of_session, seed, session_of
from tests.scale.standing_in import DatabaseServer, StandIn

LOOK_S = 0.05  # how exactly moments are told
PATIENCE_S = 3_600.0


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    gateways: int = 100
    sessions: int = 10_000_000
    waiting: int = 100_000
    """Lanes that have a run to be claimed when the gateways start."""
    messages_s: float = 1_000
    steady_s: float = 20
    run_s: float = 10
    """What a run takes, on the average."""
    die: int = 10
    slots: int = 4_000
    """Runs that a gateway has under way at once."""
    cores: int = 16
    """Of the server."""
    seed: int = 1


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """What the server was asked meanwhile."""

    name: str
    seconds: float
    claims: int
    statements_s: Mapping[str, float]
    cores_busy: float
    spread: Sequence[int]
    """Runs begun on each gateway that lived through it, sorted."""

    @property
    def all_statements_s(self) -> float:
        return sum(self.statements_s.values())


class Found(msgspec.Struct, frozen=True, kw_only=True):
    start: Phase
    steady: Phase
    deaths: Phase
    begun: int
    begun_twice: int
    """Only runs whose gateway has died."""
    accepted: int
    ended: int
    left_by_dead: int


class Simulation:
    def __init__(self, sizes: Sizes, folder: Path) -> None:
        self.sizes, self._random, self._clock = sizes, Random(sizes.seed), VirtualClock()
        self._server = DatabaseServer(sizes.cores)
        self._store = StandIn(folder / "store.sqlite", self._server, self._clock.now_ms)
        self._gateways: list[SimulatedGateway] = []
        self._begun: Counter[str] = Counter()
        self._begun_on: Counter[str] = Counter()
        self._accepted, self._numbers = 0, count()
        self._since: tuple[float, float, Counter[str], Counter[str]] | None = None

    async def run(self) -> Found:
        sizes = self.sizes
        seed(self._store.db, sizes.sessions, sizes.waiting, self._clock.now_ms())
        self._accepted = sizes.waiting
        self._store.begin()
        self._gateways = [self._gateway(number) for number in range(sizes.gateways)]
        async with anyio.create_task_group() as tasks:
            self._mark()
            for gateway in self._gateways:
                tasks.start_soon(gateway.serve)
            await self._until(lambda: len(self._begun) >= sizes.waiting)
            start = self._phase("start")
            async with self._messages() as coming:
                await anyio.sleep(2 * sizes.run_s)  # what began with the start is over
                self._mark()
                await anyio.sleep(sizes.steady_s)
                steady = self._phase("steady")
                self._mark()
                left = self._kill(sizes.die)
                await self._until(lambda: all(self._begun[run_id] > 1 for run_id in left))
                deaths = self._phase("deaths")
                coming.cancel()
            await self._until(lambda: not self._open_runs())
            for gateway in self._gateways:
                gateway.kill()
        return self._found(start, steady, deaths, len(left))

    def _gateway(self, number: int) -> SimulatedGateway:
        ledger, name = SharedLedger(self._store, self._publish), f"g{number:03}"

        def begun(run: Run) -> None:
            if not gateway.is_dead:  # it was killed before it could
                self._begun[run.run_id] += 1
                self._begun_on[name] += 1

        handler = Pausing(self._random, self.sizes.run_s, begun)
        gateway = SimulatedGateway(name, ledger, self._clock, handler, self.sizes.slots)
        return gateway

    def _publish(self, writer: str, hints: Mapping[str, Hints] | None) -> None:
        for gateway in self._gateways:
            if gateway.ledger.owner != writer:
                gateway.hear(hints)

    # ── what happens ───────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def _messages(self) -> AsyncGenerator[anyio.CancelScope]:
        """As people send them: to any session, by way of any gateway that answers."""

        async def send() -> None:
            while True:
                await anyio.sleep(self._random.expovariate(self.sizes.messages_s))
                tasks.start_soon(self._send)

        async with anyio.create_task_group() as tasks, anyio.create_task_group() as sending:
            sending.start_soon(send)
            yield sending.cancel_scope

    async def _send(self) -> None:
        number = self._random.randrange(self.sizes.sessions)
        key, run_id = key_of_session(number), f"m{next(self._numbers)}"
        gateway = self._random.choice([each for each in self._gateways if not each.is_dead])
        new = NewRun(run_id=run_id, key=key, kind="chat", message=UserMessage("hello"))
        await gateway.lanes.submit(new, NewSession(key=key, session_id=session_of(number)))
        self._accepted += 1

    def _kill(self, how_many: int) -> list[str]:
        """Answers the runs that are under way on them."""
        dying = self._random.sample(self._gateways, how_many)
        left = [run.run_id for gateway in dying for run in gateway.lanes.under_way]
        for gateway in dying:
            gateway.kill()
        return left

    def _open_runs(self) -> bool:
        return bool(
            self._store.db.execute("SELECT 1 FROM runs WHERE ended_at IS NULL LIMIT 1").fetchone()
        )

    async def _until(self, is_so: Any) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not is_so():  # noqa: ASYNC110  time is virtual
                await anyio.sleep(LOOK_S)

    # ── what is seen ───────────────────────────────────────────────────────────────────────────

    def _mark(self) -> None:
        now, server = anyio.current_time(), self._server
        self._since = now, server.busy_s, server.statements.copy(), self._begun_on.copy()

    def _phase(self, name: str) -> Phase:
        assert self._since is not None
        began, busy_s, statements, begun_on = self._since
        seconds = anyio.current_time() - began
        more = self._server.statements - statements
        living = [each.name for each in self._gateways if not each.is_dead]
        spread = sorted(self._begun_on[each] - begun_on[each] for each in living)
        return Phase(
            name=name,
            seconds=seconds,
            claims=sum(spread),
            statements_s={kind: asked / seconds for kind, asked in more.items()},
            cores_busy=(self._server.busy_s - busy_s) / seconds,
            spread=spread,
        )

    def _found(self, start: Phase, steady: Phase, deaths: Phase, left: int) -> Found:
        ((ended,),) = self._store.ask("SELECT count(*) FROM runs WHERE ended_at IS NOT NULL")
        return Found(
            start=start,
            steady=steady,
            deaths=deaths,
            begun=len(self._begun),
            begun_twice=sum(times > 1 for times in self._begun.values()),
            accepted=self._accepted,
            ended=ended,
            left_by_dead=left,
        )
