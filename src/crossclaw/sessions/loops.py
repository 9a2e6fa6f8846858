"""Loops of bots: two that answer each other would never end. So many messages of one bot in one chat are heard in a
minute, then none of it for a while. Slow loops are ended by the hops and budgets of runs."""

from collections import OrderedDict, deque

from crossclaw.domain.addresses import Inbound
from crossclaw.domain.clock import Clock

MESSAGES_MAX = 20
WINDOW_MS = 60_000
SILENCE_MS = 60_000
PAIRS_MAX = 1_000  # remembered; the one that was quiet longest is forgotten first


class BotLoops:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: OrderedDict[tuple[str, ...], deque[int]] = OrderedDict()
        self._silent_until: dict[tuple[str, ...], int] = {}

    def may_answer(self, inbound: Inbound) -> bool:
        where, now = inbound.address, self._clock.now_ms()
        pair = (where.channel, where.account_id or "", where.to, inbound.sender)
        if now < self._silent_until.get(pair, 0):
            return False
        times = self._heard.setdefault(pair, deque())
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
