"""Partitioning: which of several gateways takes which waiting runs.

All of them find the same lanes at the same moment. If all tried to take them, a hundred would ask
the database for what one gets. So each looks at its share first, which a few have in common; at
that of others only when its own is empty, and it takes from there only what still waits at its next
look.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from hashlib import blake2b

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import Partition, SharingGateway

IN_COMMON = 3  # one may be full, another may have stopped a moment ago


class Partitioner:
    """Chooses the waiting sessions that this gateway looks at. `owner` is its own incarnation;
    `agents`: whose runs it takes, None for all."""

    def __init__(self, owner: str, agents: Collection[str] | None = None) -> None:
        self._owner = owner
        self._agents = None if agents is None else tuple(sorted(agents))
        self._takers = [owner]
        self._seen: set[SessionKey] = set()

    def see(self, found: Iterable[SharingGateway]) -> None:
        """Notes which gateways may take runs now."""
        living = [each for each in found if each.left_ms > 0 and not each.draining]
        config = {each.config_hash for each in living if each.incarnation == self._owner}
        takers = {each.incarnation for each in living if each.config_hash in config}
        self._takers = sorted(takers | {self._owner})

    @property
    def _place(self) -> int:
        return self._takers.index(self._owner)

    def is_first(self, key: SessionKey) -> bool:
        """Whether this gateway is among the few that act on a hint for this session."""
        number = int.from_bytes(blake2b(key.text.encode(), digest_size=4).digest())
        return (number - self._place) % len(self._takers) < IN_COMMON

    async def choose(
        self,
        find: Callable[[Partition], Awaitable[Sequence[SessionKey]]],
        may_claim: Callable[[SessionKey], bool],
    ) -> list[SessionKey]:
        """The waiting sessions that this gateway takes now. A guest's session is for whichever
        gateway has the guest."""
        if len(self._takers) <= IN_COMMON:
            return list(filter(may_claim, await find(Partition(agents=self._agents))))
        share = Partition(len(self._takers), self._place, IN_COMMON, self._agents)
        if ours := list(filter(may_claim, await find(share))):
            return ours
        before = self._seen
        waiting = list(filter(may_claim, await find(Partition(agents=self._agents))))
        self._seen = set(waiting)
        return [key for key in waiting if key in before or key.is_guest]
