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
        while not await self._take(name):  # noqa: ASYNC110  another gateway has it
            await anyio.sleep(BEAT_S)

    async def _take(self, name: str) -> bool:
        if self._membership is None or name in self._ours:
            return True
        try:
            if await self._membership.take_role(name):
                if name not in self._ours:  # else somebody else here asked at the same time
                    log.info("this gateway has the role %s from now on", name)
                self._ours.add(name)
                return True
        except CrossclawError as error:
            log.warning("nobody knows who has the role %s: %s", name, error)
        return False
