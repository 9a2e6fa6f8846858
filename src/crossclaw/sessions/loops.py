"""Loops of bots: two that answer each other would never end.

Only so many messages of one bot in one chat are accepted in a minute, then none of it for a while. Slow loops
are ended by the hops and budgets of runs.

They are counted in memory. A bot's messages from before the gateway's start are counted from the ledger once,
so that a loop which crashes the gateway again and again does not begin anew each time; only the rest of a pause
is forgotten.
"""

from collections import OrderedDict, deque

import msgspec

from crossclaw.domain.addresses import Inbound
from crossclaw.domain.clock import Clock
from crossclaw.ledger.contract import Ledger
from crossclaw.sessions.intake import INBOUND

MESSAGES_MAX = 20
WINDOW_MS = 60_000
SILENCE_MS = 60_000
PAIRS_MAX = 1_000  # remembered; the one that was quiet longest is forgotten first


class BotLoops:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger, self._clock = ledger, clock
        self._heard: OrderedDict[str, deque[int]] = OrderedDict()
        self._silent_until: dict[str, int] = {}

    async def may_answer(self, inbound: Inbound) -> bool:
        """Whether a bot's message may be answered. Call it once for each: it counts."""
        pair = msgspec.structs.replace(inbound, message_id="").dedupe_key
        now = self._clock.now_ms()
        if now < self._silent_until.get(pair, 0):
            return False
        if pair not in self._heard:
            before = await self._heard_before(pair, now)
            self._heard.setdefault(pair, deque(before))  # another message may have come meanwhile
        times = self._heard[pair]
        self._heard.move_to_end(pair)
        while times and times[0] <= now - WINDOW_MS:
            times.popleft()
        times.append(now)
        if len(times) > MESSAGES_MAX:
            self._silent_until[pair] = now + SILENCE_MS
            times.clear()
            return False
        while len(self._heard) > PAIRS_MAX:
            gone, _ = self._heard.popitem(last=False)
            self._silent_until.pop(gone, None)
        return True

    async def _heard_before(self, pair: str, now: int) -> list[int]:
        times = await self._ledger.list_request_times(
            INBOUND, pair, since=now - WINDOW_MS, limit=MESSAGES_MAX
        )
        return times[::-1]
