"""Heartbeat: an agent looks by itself, now and then, whether something needs its attention."""

from typing import Annotated

import msgspec

from crossclaw.config.section import Section, names
from crossclaw.domain.jobs import ACK_CHARS_MAX

EVERY = "30m"
_HOUR = r"^([01]?\d|2[0-3]):[0-5]\d$|^24:00$"

Hour = Annotated[str, msgspec.Meta(pattern=_HOUR)]


class ActiveHours(Section, frozen=True):
    start: Hour = "00:00"
    """From when, as HH:MM."""
    end: Hour = "24:00"
    """Until when."""
    timezone: str | None = None
    """`user`, `local`, or a name like Europe/Vienna."""


class HeartbeatConfig(Section, frozen=True):
    """What is not set is as in `agents.defaults.heartbeat`, and then as said here."""

    every: str | None = None
    """How often, such as `30m`."""
    prompt: str | None = None
    """The message to the agent; unset: HEARTBEAT.md in its workspace."""
    active_hours: ActiveHours | None = None
    """When it may be."""
    target: str | None = None
    """`last` (where the main session was last talked to), `none`, or a channel."""
    to: str | None = None
    """The chat in that channel."""
    model: str | None = None
    """The model for it."""
    ack_max_chars: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """So many characters beside `HEARTBEAT_OK` are still silence."""
    unused = names(
        "agentId accountId includeReasoning includeSystemPromptSection isolatedSession lightContext session"
        " suppressToolErrorWarnings directPolicy timeoutSeconds skipWhenBusy"
    )

    @property
    def ack_chars_max(self) -> int:
        return ACK_CHARS_MAX if self.ack_max_chars is None else self.ack_max_chars
