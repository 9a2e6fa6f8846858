"""Forks: the operation that makes a new session with the history of another, up to one of its
entries."""

import msgspec

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.sessions import Session
from crossclaw.ledger.operations import Op

FORK_ENTRIES_MAX = (
    50_000  # copied in one step, in about two seconds; a longer history is not one conversation
)


class Forked(msgspec.Struct, frozen=True):
    session: Session
    forked_at: UserMessage | None = None
    """The message at which it was forked, if that is a person's: it is not in the fork, so that it
    can be said otherwise."""


class ForkSession(Op[Forked], frozen=True):
    """Fork a session. Entries keep their numbers, ids and times, and the session its authority
    bound and its model; it has no address, no children and nothing under way, and a call that has
    no result yet is answered as interrupted. At a person's message the fork ends before it, at any
    other entry after it; without an entry it has the whole history. NotFound if there is no such
    session or entry."""

    source: SessionKey
    entry_id: str | None
    key: SessionKey
    session_id: str
    note_id: str
    at: int
