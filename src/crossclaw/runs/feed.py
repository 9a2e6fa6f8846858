"""The feed: publishes events inside the process, after what they report is durable."""

import logging
from collections.abc import Callable

from crossclaw.domain.aliases import Callback
from crossclaw.domain.events import FeedEvent

log = logging.getLogger(__name__)

Listener = Callable[[FeedEvent], None]


class Feed:
    """Publishes events to listeners, which are called in order and must not wait; one that fails
    does not stop the others."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, tuple[type[FeedEvent], ...]]] = []
        self._hearing: dict[type[FeedEvent], tuple[Listener, ...]] = {}
        """The listeners of each kind, found when one is first published: a reply has a piece for every few letters, and
        most listeners have no use for pieces."""
        self._outward: list[tuple[Listener, tuple[type[FeedEvent], ...]]] = []
        """The listeners that hear what happens on other gateways too."""

    def subscribe(
        self, listener: Listener, *kinds: type[FeedEvent], outward: bool = False
    ) -> Callback:
        """Calls the listener for events of these kinds, of all if none is named. Returns a function
        that ends it. `outward`: it serves clients, so it also gets events of other gateways."""
        entry = (listener, kinds)
        self._listeners.append(entry)
        self._hearing.clear()
        if outward:
            self._outward.append(entry)

        def end() -> None:
            self._listeners.remove(entry)
            self._hearing.clear()
            if outward:
                self._outward.remove(entry)

        return end

    def publish(self, event: FeedEvent) -> None:
        listeners = self._hearing.get(type(event))
        if listeners is None:
            listeners = self._hearing[type(event)] = self._who_hears(type(event))
        for listener in listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", type(event).__name__)

    def publish_from_others(self, event: FeedEvent) -> None:
        """What another gateway has done: for this one's clients."""
        for listener, kinds in tuple(self._outward):
            try:
                if not kinds or type(event) in kinds:
                    listener(event)
            except Exception:
                log.exception("a listener failed on %s", type(event).__name__)

    def _who_hears(self, kind: type[FeedEvent]) -> tuple[Listener, ...]:
        return tuple(each for each, kinds in self._listeners if not kinds or kind in kinds)
