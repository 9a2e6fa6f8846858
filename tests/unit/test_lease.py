"""The lease of a gateway: what it does with what others have left."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.lowlevel
import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import BEAT_S, LeaseRenewal, Partition
from crossclaw.runs.lease import GatewayLease

ANA = SessionKey.named("main", "ana")


class OneIsDead:
    """Told once: from then on its row is gone."""

    def __init__(self) -> None:
        self.told = False
        self.looks = 0

    async def beat(self) -> LeaseRenewal:
        await anyio.lowlevel.checkpoint()
        told, self.told = self.told, True
        return LeaseRenewal(has_dead=not told)

    async def list_claimable(self, share: Partition) -> Sequence[SessionKey]:
        await anyio.lowlevel.checkpoint()
        self.looks += 1
        return [ANA]


class Neighbours:
    """Nobody's config differs, and every session may be begun here."""

    async def compare(self) -> None:
        await anyio.lowlevel.checkpoint()

    @property
    def partitioner(self) -> "Neighbours":
        return self

    def may_claim(self, key: SessionKey) -> bool:
        return True

    def is_first(self, key: SessionKey) -> bool:
        return True

    async def choose(
        self,
        find: Callable[[Partition], Awaitable[Sequence[SessionKey]]],
        may_claim: Callable[[SessionKey], bool],
    ) -> Sequence[SessionKey]:
        return list(filter(may_claim, await find(Partition())))


class LanesThatFailOnce:
    def __init__(self) -> None:
        self.happened: list[str] = []
        self.woken = anyio.Event()

    async def take_over(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.happened.append("took over")
        if len(self.happened) == 1:
            raise StoreError("the connection was lost")

    def wake(self, key: SessionKey) -> None:
        self.happened.append(f"woke {key.name}")
        self.woken.set()


@pytest.mark.spec("B6")
async def test_a_take_over_that_failed_half_way_is_tried_again_before_anything_is_begun() -> None:
    """Its first half may be stored: nobody is dead any more then, and what is given up still has to be ended."""
    lanes, around = LanesThatFailOnce(), Neighbours()
    lease = GatewayLease(OneIsDead(), around, lanes, lambda: None, room=lambda: 9)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lease.renew)
        tasks.start_soon(lease.look_around)
        await lanes.woken.wait()
        tasks.cancel_scope.cancel()
    assert lanes.happened == ["took over", "took over", "woke ana"]


@pytest.mark.spec("B6")
async def test_what_the_dead_have_left_is_taken_over_once() -> None:
    lanes, around = LanesThatFailOnce(), Neighbours()
    lease = GatewayLease(OneIsDead(), around, lanes, lambda: None, room=lambda: 9)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lease.renew)
        tasks.start_soon(lease.look_around)
        await anyio.sleep(10 * BEAT_S)
        tasks.cancel_scope.cancel()
    assert lanes.happened.count("took over") == 2, "once more after the one that failed"
    assert lanes.happened.count("woke ana") > 5, "what nobody has taken is still looked for"


@pytest.mark.spec("B6")
async def test_a_hint_of_one_session_wakes_that_one_and_is_no_reason_to_look_for_all() -> None:
    members, lanes, around = OneIsDead(), LanesThatFailOnce(), Neighbours()
    lease = GatewayLease(members, around, lanes, lambda: None, room=lambda: 9)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lease.look_around)
        for number in range(50):
            await anyio.sleep(0.1)
            lease.on_lane_hint(frozenset({f"agent:main:{number}"}))
        await anyio.sleep(1)
        tasks.cancel_scope.cancel()
    hinted = {each for each in lanes.happened if each != "woke ana"}
    assert hinted == {f"woke {number}" for number in range(50)}
    assert members.looks <= 7, "once a second"


class AskedToDrain(OneIsDead):
    async def beat(self) -> LeaseRenewal:
        await anyio.lowlevel.checkpoint()
        return LeaseRenewal(draining=True)


@pytest.mark.spec("B6")
async def test_a_gateway_that_is_asked_to_drain_at_every_beat_begins_it_once() -> None:
    drained = list[float]()
    lease = GatewayLease(
        AskedToDrain(),  # type: ignore[arg-type]
        Neighbours(),  # type: ignore[arg-type]
        LanesThatFailOnce(),  # type: ignore[arg-type]
        lambda: drained.append(anyio.current_time()),
        room=lambda: 9,
    )
    with anyio.move_on_after(3 * BEAT_S):
        await lease.renew()
    assert len(drained) == 1


@pytest.mark.spec("B6", "K5")
@pytest.mark.parametrize("key", ["global", "cron:j1", "hook:mail", "node-desk"])
async def test_a_hint_that_does_not_say_whose_session_it_is_wakes_nobody_by_a_guess(
    key: str,
) -> None:
    """The agent decides about budget and place; the look that comes each second reads it from the ledger."""
    lanes, members = LanesThatFailOnce(), OneIsDead()
    lease = GatewayLease(members, Neighbours(), lanes, lambda: None, room=lambda: 9)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lease.look_around)
        await anyio.sleep(0.1)
        lease.on_lane_hint(frozenset({key, "agent:main:ben"}))
        await anyio.sleep(2 * BEAT_S)
        tasks.cancel_scope.cancel()
    assert {each for each in lanes.happened if each.startswith("woke")} == {"woke ana", "woke ben"}
    assert members.looks >= 2
