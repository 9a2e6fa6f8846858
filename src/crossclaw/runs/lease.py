"""The lease of a gateway that shares its ledger: renewed each second; without it the gateway drops
everything.

A gateway that was stopped, or cut off from the database, for longer than its lease no longer has
its runs: others continue them. So it drops all it has at once, without asking, and opens anew.
"""

import logging
import time
from collections.abc import Callable
from math import inf

import anyio
import anyio.abc

from crossclaw.domain.aliases import Callback, Hints
from crossclaw.domain.errors import CrossclawError, StoreError, StoreFenced
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import BEAT_S, LANES_LOOKED_AT, LEASE_S, LeaseRenewal, Membership
from crossclaw.runs.claiming import Claiming
from crossclaw.runs.lanes import Lanes

log = logging.getLogger(__name__)

GRACE_S = 0.05  # for the gateway that has accepted a run: nobody else need ask for it
TRY_AGAIN_S = 0.2  # a beat that failed; the lease is short
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # a machine that slept was away, too


def seconds_here() -> float:
    """Seconds on this machine's clock, which also runs while the process is stopped."""
    return time.clock_gettime(_CLOCK)


class GatewayLease:
    lease_s = LEASE_S

    def __init__(
        self,
        membership: Membership,
        claiming: Claiming,
        lanes: Lanes,
        drain: Callback,
        *,
        room: Callable[[], int],
        seconds: Callable[[], float] = seconds_here,
    ) -> None:
        """Creates the lease. `room` says how many runs could begin here now."""
        self._membership, self._claiming, self._lanes = membership, claiming, lanes
        self._drain, self._room, self._seconds = drain, room, seconds
        self._renewed = seconds()
        self._has_dead = False
        """Whether there are runs of dead gateways to take over; True until that is done."""
        self._hint = anyio.Event()
        self._hinted: set[str] = set()
        self._is_changed = False
        self._asked_to_drain = False

    @property
    def left_s(self) -> float:
        """Seconds the lease is still valid, at least."""
        return self._renewed + self.lease_s - self._seconds()

    async def renew(self) -> None:
        """Renews the lease from when the gateway has joined, however long it then takes to open.
        Ends only with `StoreFenced`."""
        while True:
            beat = await self._next_beat()
            if beat.draining and not self._asked_to_drain:
                self._asked_to_drain = True
                log.info("this gateway was asked to drain")
                self._drain()
            if beat.has_dead:
                self._has_dead = True
                self._hint.set()
            await anyio.sleep(BEAT_S)

    def on_lane_hint(self, keys: Hints | None) -> None:
        """Notes sessions in which a run may wait that another gateway has accepted. Only some are
        noted; the next round finds the rest."""
        for text in keys or ():
            # Other keys do not say whose they are, and the agent decides budget and place: the next round reads it.
            if text.startswith("agent:") and len(self._hinted) < LANES_LOOKED_AT:
                self._hinted.add(text)
        if self._hinted:
            self._hint.set()

    def on_settings_hint(self, changed: Hints | None) -> None:
        """Notes that another gateway has changed the shared settings."""
        if changed is not None:
            self._is_changed = True
            self._hint.set()

    async def _next_beat(self) -> LeaseRenewal:
        while True:
            began = self._seconds()
            with anyio.move_on_after(max(0.0, self.left_s)):
                try:
                    beat = await self._membership.beat()
                    self._renewed = began  # by the database's clock it runs a little longer
                    return beat
                except StoreFenced:
                    raise
                except StoreError as error:
                    log.warning("the lease of this gateway could not be renewed: %s", error)
                    await anyio.sleep(TRY_AGAIN_S)
            if self.left_s <= 0:
                raise StoreFenced(
                    f"the database was not reached for {self.lease_s:g} s: others may go on with the runs of this "
                    "gateway, and it begins anew"
                )

    async def look_around(self) -> None:
        """Takes over what dead gateways have left and what nobody has taken: each second, and soon
        after a hint. Runs once the lanes serve."""
        self._hint.set()
        looked_at = -inf
        while True:
            with anyio.move_on_after(max(0.0, looked_at + BEAT_S - anyio.current_time())):
                await self._hint.wait()
                await anyio.sleep(GRACE_S)
            self._hint = anyio.Event()
            try:
                if self._has_dead or self._is_changed or anyio.current_time() >= looked_at + BEAT_S:
                    looked_at = anyio.current_time()
                    await self._look()
                else:
                    self._wake_hinted()
            except CrossclawError as error:
                log.warning("what other gateways have left is looked for again: %s", error)

    async def _look(self) -> None:
        self._is_changed = False
        if self._has_dead:
            await self._lanes.take_over()
            self._has_dead = False
        await self._claiming.compare()
        if (room := self._room()) > 0:
            find, claiming = self._membership.list_claimable, self._claiming
            for key in (await claiming.partitioner.choose(find, claiming.may_claim))[:room]:
                self._lanes.wake(key)
        self._wake_hinted()

    def _wake_hinted(self) -> None:
        hinted, self._hinted = [SessionKey.parse(text) for text in self._hinted], set()
        for key in hinted:
            if self._room() > 0 and (key.is_guest or self._claiming.partitioner.is_first(key)):
                self._lanes.wake(key)
