"""Placement: which of several gateways has the files of an agent. Its runs are executed there.

A gateway has those whose workspace folder exists; one on a shared file system exists on all. If no
living gateway has it (it was never made, or its machine is gone), any of them takes the runs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.to_thread

from crossclaw.app.shared_config import SharedConfig
from crossclaw.app.shared_keys import RenewKey, SharedModelKeys
from crossclaw.config import Config
from crossclaw.ledger.gateways import Membership, SharingGateway


class Workspaces:
    """Knows where the agents' workspaces are. `owner` is this start of the gateway."""

    def __init__(
        self,
        membership: Membership,
        owner: str,
        config: Config,
        workspace_of: Callable[[str], Path],
    ) -> None:
        self._membership, self._owner = membership, owner
        self._config, self._workspace_of = config, workspace_of
        self._published: tuple[str, ...] = ()
        self._elsewhere: frozenset[str] = frozenset()

    def are_elsewhere(self, agent_id: str) -> bool:
        """Whether another gateway has this agent's files, and this one has not."""
        return agent_id in self._elsewhere

    async def look(self, found: Sequence[SharingGateway]) -> None:
        """Finds which agents' workspaces exist here and publishes the list to the other
        gateways."""
        here = await anyio.to_thread.run_sync(self._here)
        if here != self._published:
            await self._membership.publish_agents(here)
            self._published = here
        others = [
            each
            for each in found
            if each.left_ms > 0 and not each.draining and each.incarnation != self._owner
        ]
        self._elsewhere = frozenset(agent for each in others for agent in each.agents) - {*here}

    def _here(self) -> tuple[str, ...]:
        agents = self._config.agents.ids()
        return tuple(sorted(each for each in agents if self._workspace_of(each).is_dir()))


class Fitness:
    """Judges why this gateway takes no runs: one with another config, or without the keys that were given to all, would
    answer otherwise than the rest."""

    def __init__(
        self,
        workspaces: Workspaces,
        config: SharedConfig | None,
        keys: SharedModelKeys | None,
        renew: RenewKey,
    ) -> None:
        self._workspaces, self._config = workspaces, config
        self._keys, self._renew = keys, renew

    async def find_obstacle(self, found: Sequence[SharingGateway]) -> str | None:
        await self._workspaces.look(found)
        why_not = None if self._config is None else await self._config.look(found)
        unread = None if self._keys is None else await self._keys.look(self._renew)
        return why_not or unread
