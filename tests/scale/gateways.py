"""A gateway of the simulation: lanes, lease, claims and roles as `app/building.py` puts them together; a run is a pause."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import anyio

from crossclaw.domain.aliases import Hints
from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import entry_id_of
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.domain.runs import Outcome, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.gateways import GatewayFacts
from crossclaw.ledger.hints import ENDED, LANES
from crossclaw.runs.claiming import Claiming
from crossclaw.runs.feed import Feed
from crossclaw.runs.handling import Ending, PartialReply
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.lease import GatewayLease
from crossclaw.runs.roles import CRON, TRANSCRIPTS, UPKEEP, Roles
from crossclaw.runs.run_store import NOTHING, FollowUps, RunStore
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import Sweep
from tests.scale.ledgers import SharedLedger


class Pausing:
    """Carries out a run by waiting as long as a model would."""

    def __init__(self, random: Random, run_s: float, begun: Callable[[Run], None]) -> None:
        self._random, self._run_s, self._begun = random, run_s, begun

    async def execute(self, run: Run, words: PartialReply) -> Ending:
        self._begun(run)
        await anyio.sleep(self._random.uniform(0.5, 1.5) * self._run_s)
        said = AssistantMessage([Text("Done.")], stop_reason="end_turn")
        entry = NewEntry(entry_id=entry_id_of("end", run.run_id), message=said)
        return Ending(Outcome("ok", reply="Done."), [entry])

    async def follow(self, run: Run, outcome: Outcome) -> FollowUps:
        return NOTHING


class SimulatedGateway:
    def __init__(
        self, name: str, ledger: SharedLedger, clock: Clock, handler: Pausing, slots: int
    ) -> None:
        self.name, self.ledger, self._handler = name, ledger, handler
        stored: Any = ledger
        self.run_store = RunStore(stored, Feed(), clock, ledger.owner)
        places = Slots(slots)
        self._claiming = Claiming(ledger.gateways, ledger.owner)
        self.lanes = Lanes(self.run_store, places, clock, may_claim=self._claiming.may_claim)
        self._lease = GatewayLease(
            ledger.gateways,
            self._claiming,
            self.lanes,
            lambda: None,
            room=lambda: places.free,
            seconds=anyio.current_time,
        )
        self._roles = Roles(ledger.gateways)
        self._sweep = Sweep(stored, self.lanes.wake, clock)
        self._scope = anyio.CancelScope()
        self.is_dead = False
        ledger.on_hint(LANES, self._lease.on_lane_hint)
        ledger.on_hint(ENDED, self.run_store.on_end_hint)
        ledger.on_hint(ENDED, self.lanes.on_end_hint)

    async def serve(self) -> None:
        with self._scope:
            await self.ledger.gateways.join(GatewayFacts(gateway_id=self.name))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._lease.renew)
                await tasks.start(self.lanes.serve, self._handler)
                tasks.start_soon(self._lease.look_around)
                tasks.start_soon(self._keep_roles)

    async def _keep_roles(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._roles.wait_for, CRON)
            tasks.start_soon(self._roles.wait_for, TRANSCRIPTS)
            await self._roles.wait_for(UPKEEP)
            await self._sweep.serve({})

    def hear(self, hints: Mapping[str, Hints] | None) -> None:
        if not self.is_dead:
            self.ledger.hints.tell(hints)

    def kill(self) -> None:
        """At once, without a word to anybody."""
        self.is_dead = True
        self.ledger.kill()
        self._scope.cancel()
