"""The feed: events on their way out, after what they tell of is durable."""

import logging
from collections.abc import Callable

from crossclaw.domain.events import Event

log = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class Feed:
    """Listeners are called in order and must not wait; one that fails does not stop the others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Answers the way to end it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", type(event).__name__)
