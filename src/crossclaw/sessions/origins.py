"""Origins: what the gateway writes beside a message that one session has for another."""

from typing import Literal

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance
from crossclaw.domain.sessions import Session
from crossclaw.sessions.rows import channel_field


def from_session(
    key: SessionKey,
    session: Session | None,
    tool: str,
    kind: Literal["inter_session", "announce"] = "inter_session",
) -> Provenance:
    """The provenance of a message from this session. `session` is the row of the key, if there is one: it
    names the channel."""
    return Provenance(
        kind,
        source_session_key=key.shown,
        source_channel=channel_field(session) if session else "unknown",
        source_tool=tool,
    )
