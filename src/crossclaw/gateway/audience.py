"""The audience: which client hears of which run and session, without asking all of them."""

from collections.abc import Iterator, MutableMapping, MutableSet
from typing import Generic, Protocol, TypeVar

from crossclaw.domain.errors import Busy
from crossclaw.domain.keys import SessionKey
from crossclaw.door.registry import Listening
from crossclaw.gateway.frames import EventFrame
from crossclaw.gateway.limits import Limits

K = TypeVar("K")


class Hearer(Protocol):
    """A client as the events see it."""

    @property
    def protocol(self) -> int: ...

    @property
    def hears_tools(self) -> bool: ...

    def push(self, frame: EventFrame) -> bool:
        """Whether it went out; a droppable one may not."""
        ...


class _Index(Generic[K]):
    """From a run or a session to those who listen to it."""

    def __init__(self) -> None:
        self._ears: dict[K, set[Ears]] = {}

    def get(self, key: K) -> set["Ears"] | tuple[()]:
        return self._ears.get(key, ())

    def add(self, key: K, ears: "Ears") -> None:
        self._ears.setdefault(key, set()).add(ears)

    def drop(self, key: K, ears: "Ears") -> None:
        listening = self._ears.get(key)
        if listening is not None:
            listening.discard(ears)
            if not listening:
                del self._ears[key]


class Audience:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.runs: _Index[str] = _Index()
        self.sessions: _Index[SessionKey] = _Index()
        self.of_all_sessions: set[Ears] = set()
        self._pages: set[Ears] = set()

    def join(self, hearer: Hearer, *, is_page: bool) -> "Ears":
        ears = Ears(self, hearer)
        if is_page:
            self._pages.add(ears)
        return ears

    def leave(self, ears: "Ears") -> None:
        ears.forget()
        self._pages.discard(ears)

    def watchers(self) -> list[Hearer]:
        """Whoever shows the whole house: pages, and those who follow all sessions."""
        return [ears.hearer for ears in self._pages | self.of_all_sessions]

    def of_run(self, run_id: str, key: SessionKey) -> list[tuple[Hearer, str | None]]:
        """With the session key as each one spelled it, for those who began the run."""
        began = self.runs.get(run_id)
        found = [(ears.hearer, ears.runs.get(run_id)) for ears in began]
        found += [(ears.hearer, None) for ears in self._followers(key).difference(began)]
        return found

    def of_session(self, key: SessionKey) -> set[Hearer]:
        """Whoever hears all of its runs."""
        return {ears.hearer for ears in self._followers(key)}

    def _followers(self, key: SessionKey) -> set["Ears"]:
        return {*self.sessions.get(key), *self.of_all_sessions, *self._pages}

    def ended(self, run_id: str) -> None:
        """Nothing follows of this run: those who began it need not be remembered."""
        for ears in tuple(self.runs.get(run_id)):
            ears.runs.pop(run_id, None)


class Ears(Listening):
    """What one client listens to, known to the audience as soon as it changes."""

    sessions: MutableSet[SessionKey]
    runs: MutableMapping[str, str]

    def __init__(self, audience: Audience, hearer: Hearer) -> None:
        self.hearer = hearer
        self._audience = audience
        self.sessions = _Sessions(audience, self)
        self.runs = _Runs(audience, self)

    @property
    def all_sessions(self) -> bool:
        return self in self._audience.of_all_sessions

    @all_sessions.setter
    def all_sessions(self, wanted: bool) -> None:
        if wanted:
            self._audience.of_all_sessions.add(self)
        else:
            self._audience.of_all_sessions.discard(self)

    def forget(self) -> None:
        self.all_sessions = False
        self.sessions.clear()
        self.runs.clear()


class _Sessions(MutableSet[SessionKey]):
    __slots__ = ("_audience", "_ears", "_own")

    def __init__(self, audience: Audience, ears: Ears) -> None:
        self._audience, self._ears = audience, ears
        self._own: set[SessionKey] = set()

    def add(self, value: SessionKey) -> None:
        most = self._audience.limits.subscriptions_max
        if len(self._own) >= most and value not in self._own:
            raise Busy(
                f"a connection subscribes to at most {most} sessions; sessions.subscribe is for all"
            )
        self._own.add(value)
        self._audience.sessions.add(value, self._ears)

    def discard(self, value: SessionKey) -> None:
        self._own.discard(value)
        self._audience.sessions.drop(value, self._ears)

    def __contains__(self, value: object) -> bool:
        return value in self._own

    def __iter__(self) -> Iterator[SessionKey]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class _Runs(MutableMapping[str, str]):
    __slots__ = ("_audience", "_ears", "_own")

    def __init__(self, audience: Audience, ears: Ears) -> None:
        self._audience, self._ears = audience, ears
        self._own: dict[str, str] = {}

    def __setitem__(self, run_id: str, spelled: str) -> None:
        self._own[run_id] = spelled
        self._audience.runs.add(run_id, self._ears)
        if len(self._own) > self._audience.limits.followed_runs_max:
            del self[next(iter(self._own))]

    def __delitem__(self, run_id: str) -> None:
        del self._own[run_id]
        self._audience.runs.drop(run_id, self._ears)

    def __getitem__(self, run_id: str) -> str:
        return self._own[run_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)
