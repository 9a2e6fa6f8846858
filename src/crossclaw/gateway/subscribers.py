"""Subscribers: which client gets the events of which run and session, without asking all of them."""

from collections.abc import Iterator, MutableMapping, MutableSet
from typing import Generic, Protocol, TypeVar

from crossclaw.domain.errors import Busy
from crossclaw.domain.keys import SessionKey
from crossclaw.door.registry import Listening
from crossclaw.gateway.frames import EventFrame
from crossclaw.gateway.limits import GatewayLimits

K = TypeVar("K")


class Subscriber(Protocol):
    """A client as the publisher sees it."""

    @property
    def protocol(self) -> int: ...

    @property
    def hears_tools(self) -> bool: ...

    def push(self, frame: EventFrame) -> bool:
        """Sends an event; returns whether it went out: a droppable one may not."""
        ...


class _Index(Generic[K]):
    """Maps a run or a session to its subscribers."""

    def __init__(self) -> None:
        self._subscription: dict[K, set[Subscription]] = {}

    def get(self, key: K) -> set["Subscription"] | tuple[()]:
        return self._subscription.get(key, ())

    def add(self, key: K, subscription: "Subscription") -> None:
        self._subscription.setdefault(key, set()).add(subscription)

    def drop(self, key: K, subscription: "Subscription") -> None:
        listening = self._subscription.get(key)
        if listening is not None:
            listening.discard(subscription)
            if not listening:
                del self._subscription[key]


class Audience:
    def __init__(self, limits: GatewayLimits) -> None:
        self.limits = limits
        self.runs: _Index[str] = _Index()
        self.sessions: _Index[SessionKey] = _Index()
        self.of_all_sessions: set[Subscription] = set()
        self._pages: set[Subscription] = set()

    def join(self, subscriber: Subscriber, *, is_page: bool) -> "Subscription":
        subscription = Subscription(self, subscriber)
        if is_page:
            self._pages.add(subscription)
        return subscription

    def leave(self, subscription: "Subscription") -> None:
        subscription.forget()
        self._pages.discard(subscription)

    def watchers(self) -> list[Subscriber]:
        """The clients that show the whole gateway: pages, and those who follow all sessions."""
        return [subscription.subscriber for subscription in self._pages | self.of_all_sessions]

    def of_run(self, run_id: str, key: SessionKey) -> list[tuple[Subscriber, str | None]]:
        """The subscribers of a run, each with the session key as it spelled it, if it began the run."""
        began = self.runs.get(run_id)
        found = [(subscription.subscriber, subscription.runs.get(run_id)) for subscription in began]
        found += [
            (subscription.subscriber, None)
            for subscription in self._followers(key).difference(began)
        ]
        return found

    def of_session(self, key: SessionKey) -> set[Subscriber]:
        """The subscribers of all runs of a session."""
        return {subscription.subscriber for subscription in self._followers(key)}

    def _followers(self, key: SessionKey) -> set["Subscription"]:
        return {*self.sessions.get(key), *self.of_all_sessions, *self._pages}

    def ended(self, run_id: str) -> None:
        """Forgets the subscriptions of a run that has ended."""
        for subscription in tuple(self.runs.get(run_id)):
            subscription.runs.pop(run_id, None)


class Subscription(Listening):
    """What one client listens to; a change is known to the audience at once."""

    sessions: MutableSet[SessionKey]
    runs: MutableMapping[str, str]

    def __init__(self, audience: Audience, subscriber: Subscriber) -> None:
        self.subscriber = subscriber
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
    __slots__ = ("_audience", "_own", "_subscription")

    def __init__(self, audience: Audience, subscription: Subscription) -> None:
        self._audience, self._subscription = audience, subscription
        self._own: set[SessionKey] = set()

    def add(self, value: SessionKey) -> None:
        most = self._audience.limits.subscriptions_max
        if len(self._own) >= most and value not in self._own:
            raise Busy(
                f"a connection subscribes to at most {most} sessions; sessions.subscribe is for all"
            )
        self._own.add(value)
        self._audience.sessions.add(value, self._subscription)

    def discard(self, value: SessionKey) -> None:
        self._own.discard(value)
        self._audience.sessions.drop(value, self._subscription)

    def __contains__(self, value: object) -> bool:
        return value in self._own

    def __iter__(self) -> Iterator[SessionKey]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class _Runs(MutableMapping[str, str]):
    __slots__ = ("_audience", "_own", "_subscription")

    def __init__(self, audience: Audience, subscription: Subscription) -> None:
        self._audience, self._subscription = audience, subscription
        self._own: dict[str, str] = {}

    def __setitem__(self, run_id: str, spelled: str) -> None:
        self._own[run_id] = spelled
        self._audience.runs.add(run_id, self._subscription)
        if len(self._own) > self._audience.limits.followed_runs_max:
            del self[next(iter(self._own))]

    def __delitem__(self, run_id: str) -> None:
        del self._own[run_id]
        self._audience.runs.drop(run_id, self._subscription)

    def __getitem__(self, run_id: str) -> str:
        return self._own[run_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)
