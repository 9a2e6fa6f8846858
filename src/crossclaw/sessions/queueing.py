"""Queueing: which settings hold for a chat message, should its session be busy."""

from typing import get_args

from crossclaw.config.doors import Queue
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.queueing import Mode, Queueing
from crossclaw.domain.sessions import Session

_ALSO_CALLED: dict[str, Mode] = {"queue": "steer", "steer+backlog": "steer-backlog"}
MODES = frozenset(get_args(Mode)) - {"backlog"}


def queueing_for(
    settings: Queue, key: SessionKey, session: Session | None, channel: str
) -> Queueing | None:
    """The session's own mode, else the channel's, else the house's. A guest is asked one by one."""
    if key.is_guest:
        return None
    own = session.queue_mode if session is not None else None
    return Queueing(
        mode=mode_called(own or settings.mode_for(channel)),
        debounce_ms=settings.debounce_ms_for(channel),
        cap=settings.cap,
        drop=settings.drop,
    )


def mode_called(name: str) -> Mode:
    mode = _ALSO_CALLED.get(name, name)
    return mode if mode in MODES else "collect"  # type: ignore[return-value]
