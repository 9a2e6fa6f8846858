"""What Slack sends, as types: only the fields that are read. What does not fit is skipped, never guessed at.

From https://docs.slack.dev (events/message, events/app_mention, apis/events-api/using-socket-mode), October 2026.
"""

from typing import Any

import msgspec


class SlackFile(msgspec.Struct, frozen=True):
    id: str = ""
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    url_private: str | None = None
    url_private_download: str | None = None
    subtype: str | None = None
    """`slack_audio` is a voice clip."""


class SlackMessage(msgspec.Struct, frozen=True):
    """A message event, an app_mention, or the inner message of a change."""

    type: str = ""
    subtype: str | None = None
    channel: str = ""
    channel_type: str | None = None
    user: str | None = None
    bot_id: str | None = None
    text: str = ""
    ts: str = ""
    thread_ts: str | None = None
    parent_user_id: str | None = None
    files: list[SlackFile] = []
    hidden: bool = False
    deleted_ts: str | None = None
    message: "SlackMessage | None" = None
    previous_message: "SlackMessage | None" = None
    metadata: dict[str, Any] | None = None
    edited: dict[str, Any] | None = None


class EventCallback(msgspec.Struct, frozen=True):
    type: str = ""
    team_id: str | None = None
    challenge: str | None = None
    event: msgspec.Raw = msgspec.Raw(b"{}")


class SlackEnvelope(msgspec.Struct, frozen=True):
    type: str
    envelope_id: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    reason: str | None = None
    num_connections: int | None = None


class SlackIdentity(msgspec.Struct, frozen=True):
    """The answer of auth.test."""

    user_id: str
    bot_id: str | None = None
    team_id: str | None = None
    team: str | None = None
    user: str | None = None
