"""The address of a session's chat."""

from crossclaw.domain.addresses import Address
from crossclaw.domain.sessions import Session


def address_of(session: Session | None) -> Address | None:
    """The address the session was last talked to from, else the one in a group's key."""
    if session is None:
        return None
    if session.last_address is not None:
        return session.last_address
    if session.key.kind == "group" and session.key.channel:
        chat = session.key.name.split(":", 2)[2].partition(":thread:")[0]
        return Address(session.key.channel, chat, thread_id=session.key.thread_id)
    return None
