"""The audience: which client hears of which run and session, without asking all of them."""

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping, MutableSet
from typing import Protocol

from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.door.registry import Listening
from crossclaw.gateway.frames import EventFrame
from crossclaw.gateway.limits import Limits


class Hearer(Protocol):
    """A client as the events see it."""

    @property
    def protocol(self) -> int: ...

    @property
    def hears_tools(self) -> bool: ...

    def push(self, frame: EventFrame) -> bool:
        """Whether it went out; a droppable one may not."""
        ...


class Audience:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._everyone: dict[Hearer, None] = {}
        self._pages: set[Hearer] = set()
        self._of_all_sessions: set[Hearer] = set()
        self._of_session: dict[SessionKey, set[Hearer]] = {}
        self._of_run: dict[str, dict[Hearer, str]] = {}

    def join(self, hearer: Hearer, ears: "Ears", *, is_page: bool) -> None:
        self._everyone[hearer] = None
        if is_page:
            self._pages.add(hearer)
        ears.hearer = hearer

    def leave(self, hearer: Hearer, ears: "Ears") -> None:
        ears.forget_all()
        self._everyone.pop(hearer, None)
        self._pages.discard(hearer)

    def ears(self) -> "Ears":
        """The subscriptions of a client that is about to join."""
        return Ears(self, self._limits)

    # ── who hears ──────────────────────────────────────────────────────────────────────────────

    def everyone(self) -> list[Hearer]:
        return list(self._everyone)

    def watchers(self) -> set[Hearer]:
        """Whoever shows the whole house: pages, and those who follow all sessions."""
        return self._pages | self._of_all_sessions

    def of_all_sessions(self) -> list[Hearer]:
        return list(self._of_all_sessions)

    def of_session(self, key: SessionKey) -> list[Hearer]:
        return list(self._of_session.get(key, ()))

    def of_run(self, run_id: str, key: SessionKey) -> dict[Hearer, str | None]:
        """With the session key as each one spelled it, for those who began the run."""
        found: dict[Hearer, str | None] = {}
        found.update(self._of_run.get(run_id, {}))
        for group in (self._of_session.get(key, ()), self._of_all_sessions, self._pages):
            for hearer in group:
                found.setdefault(hearer, None)
        return found

    def ended(self, run_id: str) -> None:
        """Nothing follows of this run: those who began it need not be remembered."""
        for hearer in list(self._of_run.get(run_id, ())):
            self._drop_run(run_id, hearer)

    # ── the index, kept by the ears ────────────────────────────────────────────────────────────

    def add_run(self, run_id: str, hearer: Hearer, spelled: str) -> None:
        self._of_run.setdefault(run_id, {})[hearer] = spelled

    def _drop_run(self, run_id: str, hearer: Hearer) -> None:
        hearers = self._of_run.get(run_id, {})
        hearers.pop(hearer, None)
        if not hearers:
            self._of_run.pop(run_id, None)

    drop_run = _drop_run

    def spelled(self, run_id: str, hearer: Hearer) -> str:
        return self._of_run[run_id][hearer]

    def add_session(self, key: SessionKey, hearer: Hearer) -> None:
        self._of_session.setdefault(key, set()).add(hearer)

    def drop_session(self, key: SessionKey, hearer: Hearer) -> None:
        hearers = self._of_session.get(key, set())
        hearers.discard(hearer)
        if not hearers:
            self._of_session.pop(key, None)

    def add_all_sessions(self, hearer: Hearer) -> None:
        self._of_all_sessions.add(hearer)

    def drop_all_sessions(self, hearer: Hearer) -> None:
        self._of_all_sessions.discard(hearer)
