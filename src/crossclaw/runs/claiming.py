"""Claiming: which runs this one of several gateways takes. It takes none while its config differs
from the others'."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import Membership, SharingGateway
from crossclaw.runs.partitioning import Partitioner

log = logging.getLogger(__name__)

ABSENT_S = 5.0  # for the gateway that a guest is connected to; the others look each second
ABSENT_MAX = 1_000  # sessions of guests that are remembered
NOT_YET = "its config was not compared with that of the others yet"


FindObstacle = Callable[[Sequence[SharingGateway]], Awaitable[str | None]]
"""Says why this gateway may take no runs, given the gateways that exist; None if it may. Asked each
second."""


async def _nothing_against(_found: Sequence[SharingGateway]) -> None:
    """Allows everything: used where there is no config to compare."""


class Claiming:
    """`agents`: the only ones whose runs are taken, where they are named. `is_elsewhere`: whether another gateway has the
    files of an agent, and this one has not."""

    def __init__(
        self,
        membership: Membership,
        owner: str,
        agents: Sequence[str] | None = None,
        *,
        is_elsewhere: Callable[[str], bool] = lambda agent_id: False,
        find_obstacle: FindObstacle = _nothing_against,
    ) -> None:
        self._membership = membership
        self._agents = None if agents is None else frozenset(agents)
        self.partitioner = Partitioner(owner, self._agents)
        self._absent: dict[SessionKey, float] = {}
        """The time since when a run waits here for a guest of another gateway, by its session."""
        self._guest_is_here: Callable[[SessionKey], bool] = lambda key: True
        self.is_elsewhere, self._judge = is_elsewhere, find_obstacle
        self.why_not: str | None = NOT_YET
        """Why this gateway takes no runs."""
        self._published: str | None = None

    def begin(self, guest_is_here: Callable[[SessionKey], bool]) -> None:
        """Takes who knows whether a guest is here, once guests can come."""
        self._guest_is_here = guest_is_here

    def may_claim(self, key: SessionKey) -> bool:
        if self.why_not is not None or not self._serves(key.agent_id):
            return False
        return not key.is_guest or self._is_with_guest(key)

    def _serves(self, agent_id: str) -> bool:
        if self._agents is not None:
            return agent_id in self._agents
        return not self.is_elsewhere(agent_id)

    def _is_with_guest(self, key: SessionKey) -> bool:
        """What is for a guest is taken where the guest is; by anybody when it seems to be nowhere, so that whoever
        waits is told."""
        if self._guest_is_here(key):
            self._absent.pop(key, None)
            return True
        if len(self._absent) >= ABSENT_MAX:
            self._absent.clear()
        return anyio.current_time() - self._absent.setdefault(key, anyio.current_time()) > ABSENT_S

    async def compare(self) -> None:
        """Reads which gateways exist, and decides whether this one may take runs."""
        found = await self._membership.list_gateways()
        self.partitioner.see(found)
        await self._settle(await self._judge(found))

    async def _settle(self, why_not: str | None) -> None:
        """Logs why no runs are taken, and publishes it to whoever lists the gateways."""
        if why_not != self.why_not and why_not is not None:
            log.error("this gateway takes no runs, because %s", why_not)
        elif why_not != self.why_not and self.why_not != NOT_YET:
            log.info("this gateway takes runs again")
        self.why_not = why_not
        if why_not != self._published:
            await self._membership.publish_why_no_runs(why_not)
            self._published = why_not


def config_leader(found: Sequence[SharingGateway], owner: str) -> SharingGateway | None:
    """The gateway whose config counts; None if it is ours."""
    living = [each for each in found if each.left_ms > 0 or each.incarnation == owner]
    first = min(living, key=lambda each: (-each.config_epoch, each.joined_at), default=None)
    return None if first is None or first.incarnation == owner else first
