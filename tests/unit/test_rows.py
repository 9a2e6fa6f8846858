"""Rows of the session tools: which kind a session is, and which channel it belongs to."""

import pytest

from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import Kind, SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.sessions.rows import channel_field

GROUP = "agent:main:discord:group:1"
DIRECT = "agent:main:notes"


def session(key: str, channel: str | None = None, last: str | None = None) -> Session:
    address = Address(last, "42") if last else None
    return Session(SessionKey.parse(key), "s", 0, 0, channel=channel, last_address=address)


@pytest.mark.spec("L5")
@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:main:main", "main"),
        ("agent:ops:main", "main"),
        (GROUP, "group"),
        ("agent:main:slack:channel:c:thread:9", "group"),
        ("agent:ops:cron:j1", "cron"),
        ("hook:u1", "hook"),
        ("node-n1", "node"),
        ("agent:main:subagent:u1", "other"),
        ("agent:main:telegram:dm:ana", "other"),
        (DIRECT, "other"),
    ],
)
def test_a_session_has_the_kind_that_its_key_tells(key: str, kind: Kind) -> None:
    assert SessionKey.parse(key).kind == kind


@pytest.mark.spec("L6")
@pytest.mark.parametrize(
    ("row", "channel"),
    [
        (session(GROUP, channel="telegram", last="webchat"), "telegram"),
        (session(GROUP), "discord"),
        (session(DIRECT, channel="webchat", last="signal"), "signal"),
        (session(DIRECT, channel="webchat"), "webchat"),
        (session(DIRECT), "unknown"),
        (session("cron:j1", channel="telegram", last="telegram"), "internal"),
        (session("hook:u1"), "internal"),
        (session("node-n1"), "internal"),
    ],
)
def test_the_channel_is_the_groups_own_or_where_a_chat_was_last_talked_to(
    row: Session, channel: str
) -> None:
    assert channel_field(row) == channel
