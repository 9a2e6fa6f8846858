"""Pacing: sends no faster than a platform accepts, for one account and to one chat."""

from collections import OrderedDict, deque

from crossclaw.channels.manifest import Rate

CHATS_MAX = 10_000  # whose pace is remembered; one that was quiet longest is forgotten first


class Pace:
    """A rate limit: never more than so many messages in any window of so many seconds."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._places: deque[float] = deque(maxlen=rate.messages)
        """When the last messages went, or will go."""

    def reserve(self, now_s: float) -> float:
        """Reserves a place for the next message; returns how many seconds to wait for it."""
        places, at_s = self._places, now_s
        if len(places) == self._rate.messages:
            at_s = max(now_s, places[0] + self._rate.seconds)
        places.append(max(at_s, places[-1]) if places else at_s)
        return places[-1] - now_s

    def spare(self, now_s: float) -> bool:
        """Takes a place for something that is no message, such as a typing signal: only while half
        of the places are free, so that messages hardly ever wait for it. If there is only one
        place, it takes none, and only needs it to be free."""
        since_s = now_s - self._rate.seconds
        recent = sum(each > since_s for each in self._places)
        if self._rate.messages == 1:
            return recent == 0
        if recent * 2 >= self._rate.messages or (self._places and self._places[-1] > now_s):
            return False
        self._places.append(now_s)
        return True


class Paces:
    def __init__(self) -> None:
        self._paces: OrderedDict[tuple[str, ...], Pace] = OrderedDict()

    def reserve(self, name: tuple[str, ...], rate: Rate | None, now_s: float) -> float:
        if rate is None:
            return 0.0
        return self._pace(name, rate).reserve(now_s)

    def spare(self, name: tuple[str, ...], rate: Rate, now_s: float) -> bool:
        """Whether something that is no message may be sent now."""
        return self._pace(name, rate).spare(now_s)

    def _pace(self, name: tuple[str, ...], rate: Rate) -> Pace:
        pace = self._paces.get(name)
        if pace is None:
            pace = self._paces[name] = Pace(rate)
            while len(self._paces) > CHATS_MAX:
                self._paces.popitem(last=False)
        self._paces.move_to_end(name)
        return pace
