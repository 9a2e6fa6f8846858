"""Roles: what only one of several gateways does, as keeping a chat account or the jobs.

A role is its gateway's until that one ends: whoever loses its lease loses its roles with it, and drops everything else too.
"""

import logging

import anyio

from crossclaw.domain.errors import CrossclawError
from crossclaw.ledger.gateways import BEAT_S, Membership

log = logging.getLogger(__name__)

CRON, UPKEEP, TRANSCRIPTS = "cron", "upkeep", "transcripts"


class Roles:
    """Of a gateway that has its ledger for itself: all of them."""

    def __init__(self, membership: Membership | None) -> None:
        self._membership = membership
        self._ours: set[str] = set()

    def has(self, name: str) -> bool:
        return self._membership is None or name in self._ours

    async def wait_for(self, name: str) -> None:
        """Until it is ours."""
        while not await self._try_to_take(name):  # noqa: ASYNC110  another gateway has it
            await anyio.sleep(BEAT_S)

    async def _try_to_take(self, name: str) -> bool:
        try:
            return await self.take(name)
        except CrossclawError as error:
            log.warning("nobody knows who has the role %s: %s", name, error)
        return False

    async def take(self, name: str) -> bool:
        """Whether it is ours: taken now or before. Raises `StoreError` when nobody can know."""
        if self._membership is None or name in self._ours:
            return True
        if not await self._membership.take_role(name):
            return False
        if name not in self._ours:  # else somebody else here asked at the same time
            log.info("this gateway has the role %s from now on", name)
        self._ours.add(name)
        return True

    async def leave(self, name: str) -> None:
        """Another gateway may take it. What only its holder does has ended before; where it cannot be told now, the next
        `take` finds the role still ours."""
        if self._membership is None or name not in self._ours:
            return
        self._ours.discard(name)
        with anyio.CancelScope(shield=True):  # half given back, nobody would have it
            try:
                await self._membership.leave_role(name)
            except CrossclawError as error:
                log.warning("the role %s could not be given back: %s", name, error)
            else:
                log.info("this gateway gives the role %s back", name)

    async def find_holder(self, name: str) -> str | None:
        """The name of the gateway that has it."""
        if self._membership is None:
            return None
        gateways = await self._membership.list_gateways()
        return next((each.gateway_id for each in gateways if name in each.roles), None)
