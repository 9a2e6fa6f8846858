"""Events: what the house tells whoever listens, after it is durable. Losing one loses nothing."""

import msgspec

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry


class RunAccepted(msgspec.Struct, frozen=True):
    run_id: str
    key: SessionKey


class RunStarted(msgspec.Struct, frozen=True):
    run: Run


class ReplyPiece(msgspec.Struct, frozen=True):
    """Words of a reply as the model says them. `text` is all so far in this turn."""

    run_id: str
    key: SessionKey
    piece: str
    text: str
    restarted: bool = False
    """The model began this turn anew: forget the pieces before."""


class ThoughtPiece(msgspec.Struct, frozen=True):
    run_id: str
    key: SessionKey
    piece: str


class ToolStarted(msgspec.Struct, frozen=True):
    run_id: str
    key: SessionKey
    tool_use_id: str
    name: str
    arguments: dict[str, object]


class ToolProgress(msgspec.Struct, frozen=True):
    """A sign of life of a tool that takes its time: the end of what it has put out so far."""

    run_id: str
    key: SessionKey
    tool_use_id: str
    name: str
    text: str


class ToolEnded(msgspec.Struct, frozen=True):
    run_id: str
    key: SessionKey
    tool_use_id: str
    name: str
    is_error: bool
    duration_ms: int


class EntryAppended(msgspec.Struct, frozen=True):
    key: SessionKey
    entry: Entry


class Injected(msgspec.Struct, frozen=True):
    """Words that came from no run: a note by a client, a command's answer."""

    key: SessionKey
    entry: Entry


class SessionChanged(msgspec.Struct, frozen=True):
    """A session's row changed by other means than a run: patch, reset, delete."""

    key: SessionKey
    reason: str


class RunEnded(msgspec.Struct, frozen=True):
    run: Run


Event = (
    RunAccepted
    | RunStarted
    | ReplyPiece
    | ThoughtPiece
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | EntryAppended
    | Injected
    | SessionChanged
    | RunEnded
)
