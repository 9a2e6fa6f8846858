"""Queueing: which settings hold for a chat message, should its session be busy."""

from typing import Any, get_args

import msgspec

from crossclaw.config.doors import Queue
from crossclaw.domain.durations import parse_duration
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.queueing import QueueDrop, Queueing, QueueingMode
from crossclaw.domain.sessions import Session

_ALSO_CALLED: dict[str, QueueingMode] = {"queue": "steer", "steer+backlog": "steer-backlog"}
DROPS = get_args(QueueDrop)
CAP_DIGITS_MAX = 9  # what is longer is no count of messages, and Python reads only so many digits
DEBOUNCE_MS_MAX = 3_600_000  # who has waited for an hour thinks that nobody listens
MODES = frozenset(get_args(QueueingMode)) - {"backlog"}


def queueing_for(
    settings: Queue, key: SessionKey, session: Session | None, channel: str
) -> Queueing | None:
    """The session's own settings, else the channel's, else the gateway's. None for a guest, which gets one
    message at a time."""
    if key.is_guest:
        return None
    shared = Queueing(
        mode=mode_called(settings.by_channel.get(channel, settings.mode)),
        debounce_ms=settings.debounce_ms_by_channel.get(channel, settings.debounce_ms),
        cap=settings.cap,
        drop=settings.drop,
    )
    return shared if session is None else msgspec.structs.replace(shared, **_own(session))


def _own(session: Session) -> dict[str, Any]:
    """The session's own queue settings, checked: an imported store may hold anything."""
    drop, wait_ms, cap = session.queue_drop, session.queue_debounce_ms, session.queue_cap
    own = {
        "mode": session.queue_mode and mode_called(session.queue_mode),
        "debounce_ms": None if wait_ms is None else min(max(int(wait_ms), 0), DEBOUNCE_MS_MAX),
        "cap": None if cap is None else max(int(cap), 1),
        "drop": drop if drop in DROPS else None,
    }
    return {name: value for name, value in own.items() if value is not None}


def read_queue(text: str) -> dict[str, Any]:
    """The fields of a session that `/queue` sets: `collect debounce:2s cap:25 drop:old`, in any order."""
    found: dict[str, Any] = {}
    for word in text.lower().split():
        name, colon, value = word.replace("=", ":", 1).partition(":")
        if not colon:
            found["queueMode"] = name
        elif name == "debounce":
            found["queueDebounceMs"] = parse_duration(value, default_unit="ms")
        elif name == "cap" and value.isdecimal() and len(value) <= CAP_DIGITS_MAX:
            found["queueCap"] = int(value)
        elif name == "drop":
            found["queueDrop"] = "summarize" if value == "summary" else value
        else:
            raise Invalid(
                f"{word[:50]} is no setting of a queue; use debounce:2s, cap:25 or drop:old"
            )
    return found


def mode_called(name: str) -> QueueingMode:
    mode = _ALSO_CALLED.get(name, name)
    return mode if mode in MODES else "collect"  # type: ignore[return-value]
