"""Roles: tasks that only one of several gateways does, such as serving a chat account or the jobs.

A gateway has a role until it ends: if it loses its lease, it loses its roles with it, and drops
everything else too.
"""

import logging

import anyio

from crossclaw.domain.errors import CrossclawError, StoreError
from crossclaw.ledger.gateways import BEAT_S, LEASE_S, Membership

log = logging.getLogger(__name__)

CRON, UPKEEP, TRANSCRIPTS = "cron", "upkeep", "transcripts"


class Roles:
    """The roles this gateway holds. Without a shared ledger it holds all of them."""

    def __init__(self, membership: Membership | None) -> None:
        self._membership = membership
        self._ours: set[str] = set()
        self._owed: set[str] = set()
        """Roles that could not be given back yet."""
        self._turn = anyio.Lock()

    def has(self, name: str) -> bool:
        return self._membership is None or name in self._ours

    async def wait_for(self, name: str) -> None:
        """Waits until the role is ours."""
        while not await self._try_to_take(name):  # noqa: ASYNC110  another gateway has it
            await anyio.sleep(BEAT_S)

    async def _try_to_take(self, name: str) -> bool:
        await self._give_back()
        try:
            return await self.take(name)
        except CrossclawError as error:
            log.warning("nobody knows who has the role %s: %s", name, error)
        return False

    async def take(self, name: str) -> bool:
        """Takes a role; returns whether it is ours, now or before. Raises `StoreError` if the
        database did not answer."""
        if self._membership is None or name in self._ours:
            return True
        taken: bool | None = None
        async with self._turn:
            # One that is cancelled half-way would be ours in the database, and nobody here would know.
            with anyio.move_on_after(LEASE_S, shield=True):
                taken = await self._membership.take_role(name)
            if taken is None:
                self._owed.add(name)
                raise StoreError(f"the database did not say for {LEASE_S:g} s who has {name}")
            self._owed.discard(name)
            if taken and name not in self._ours:  # else somebody else here asked at the same time
                log.info("this gateway has the role %s from now on", name)
                self._ours.add(name)
        return taken

    async def leave(self, name: str) -> None:
        """Gives the role up, so that another gateway may take it. The caller has already ended its
        work. If the database cannot be told now, it is told later, and until then `take` finds the
        role still ours."""
        if self._membership is not None and name in self._ours:
            self._ours.discard(name)
            self._owed.add(name)
        await self._give_back()

    async def _give_back(self) -> None:
        """Gives back the roles that are owed. Shielded from cancellation, and for no longer than a
        lease lasts."""
        if not self._owed:
            return
        with anyio.move_on_after(LEASE_S, shield=True):
            async with self._turn:
                for name in sorted(self._owed):
                    await self._give_one_back(name)

    async def _give_one_back(self, name: str) -> None:
        assert self._membership is not None
        try:
            await self._membership.leave_role(name)
        except CrossclawError as error:
            log.warning("the role %s could not be given back: %s", name, error)
        else:
            self._owed.discard(name)
            log.info("this gateway gives the role %s back", name)

    async def find_holder(self, name: str) -> str | None:
        """The name of the gateway that has the role."""
        if self._membership is None:
            return None
        gateways = await self._membership.list_gateways()
        return next((each.gateway_id for each in gateways if name in each.roles), None)
