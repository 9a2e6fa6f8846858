"""History: the entries of active sessions, held in memory and always as the ledger has them."""

from collections import OrderedDict

from crossclaw.domain.sessions import Entry
from crossclaw.ledger.contract import Ledger

# Sessions held; each is bounded by ENTRIES_MAX. The least recently used one leaves first.
SESSIONS_MAX = 512
# What a model could be shown: its window is full long before. Older entries stay in the ledger.
ENTRIES_MAX = 2_000


class History:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: OrderedDict[str, list[Entry]] = OrderedDict()

    async def read(self, session_id: str) -> list[Entry]:
        """The newest entries, oldest first. Reads only what came since the last look."""
        held = self._held.get(session_id, [])
        after = held[-1].seq if held else 0
        if await self._ledger.last_seq(session_id) > after:
            fresh = await self._ledger.list_entries(session_id, limit=ENTRIES_MAX, after=after)
            held = [*held, *fresh][-ENTRIES_MAX:]
        self._held[session_id] = held
        self._held.move_to_end(session_id)
        if len(self._held) > SESSIONS_MAX:
            self._held.popitem(last=False)
        return held
