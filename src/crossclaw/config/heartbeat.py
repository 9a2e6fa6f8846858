"""Heartbeat: an agent checks by itself, now and then, whether something needs its attention."""

from typing import Annotated

import msgspec

from crossclaw.config.section import Section, names
from crossclaw.domain.jobs import ACK_CHARS_MAX

EVERY = "30m"
_HOUR = r"^([01]?\d|2[0-3]):[0-5]\d$|^24:00$"

Hour = Annotated[str, msgspec.Meta(pattern=_HOUR)]


class ActiveHours(Section, frozen=True):
    start: Hour = "00:00"
    """The beginning, as HH:MM."""
    end: Hour = "24:00"
    """The end, as HH:MM."""
    timezone: str | None = None
    """The time zone: `user`, `local`, or a name like Europe/Vienna."""


class HeartbeatConfig(Section, frozen=True):
    """The settings of heartbeats. What is not set is as in `agents.defaults.heartbeat`, and then as said here."""

    every: str | None = None
    """The time between two heartbeats, such as `30m`."""
    prompt: str | None = None
    """The message to the agent; unset: HEARTBEAT.md in its workspace."""
    active_hours: ActiveHours | None = None
    """The hours in which heartbeats happen."""
    target: str | None = None
    """The chat for what an agent has to say: `last` (where the main session was last talked to), `none`, or a
    channel."""
    to: str | None = None
    """The chat in that channel."""
    model: str | None = None
    """The model of heartbeats."""
    ack_max_chars: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The number of characters beside `HEARTBEAT_OK` up to which an answer still counts as nothing to say."""
    unused = names(
        "agentId accountId includeReasoning includeSystemPromptSection isolatedSession lightContext session"
        " suppressToolErrorWarnings directPolicy timeoutSeconds skipWhenBusy"
    )

    @property
    def ack_chars_max(self) -> int:
        return ACK_CHARS_MAX if self.ack_max_chars is None else self.ack_max_chars
