"""Pacing: no faster than a platform takes messages, of one account and to one chat."""

from collections import OrderedDict

from crossclaw.channels.manifest import Rate

CHATS_MAX = 10_000  # whose pace is remembered; one that was quiet longest is forgotten first


class Pace:
    """So many at once, then one after the other at the rate's own speed."""

    def __init__(self, rate: Rate) -> None:
        self._interval_s = rate.seconds / rate.messages
        self._burst_s = rate.seconds - self._interval_s
        self._due_s = 0.0

    def reserve(self, now_s: float) -> float:
        """The next place; answers how long to wait for it."""
        self._due_s = max(self._due_s, now_s)
        wait_s = max(0.0, self._due_s - self._burst_s - now_s)
        self._due_s += self._interval_s
        return wait_s

    def spare(self, now_s: float) -> bool:
        """A place for what is no message: only while half of those that could go at once are free, so that messages
        never wait for it. Where only one can, it takes none, and has to wait for nothing."""
        if self._burst_s <= 0:
            return self._due_s <= now_s
        if self._due_s - now_s > self._burst_s / 2:
            return False
        self._due_s = max(self._due_s, now_s) + self._interval_s
        return True


class Paces:
    def __init__(self) -> None:
        self._paces: OrderedDict[tuple[str, ...], Pace] = OrderedDict()

    def reserve(self, name: tuple[str, ...], rate: Rate | None, now_s: float) -> float:
        if rate is None:
            return 0.0
        return self._pace(name, rate).reserve(now_s)

    def spare(self, name: tuple[str, ...], rate: Rate, now_s: float) -> bool:
        """Whether something that is no message may go now."""
        return self._pace(name, rate).spare(now_s)

    def _pace(self, name: tuple[str, ...], rate: Rate) -> Pace:
        pace = self._paces.get(name)
        if pace is None:
            pace = self._paces[name] = Pace(rate)
            while len(self._paces) > CHATS_MAX:
                self._paces.popitem(last=False)
        self._paces.move_to_end(name)
        return pace
