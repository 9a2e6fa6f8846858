"""Events: what the gateway publishes to its subscribers, after it is durable. A lost event loses no data."""

from typing import Literal

import msgspec

from crossclaw.domain.approvals import Approval
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.domain.states import State


class RunAccepted(msgspec.Struct, frozen=True):
    run_id: str
    key: SessionKey


class RunStarted(msgspec.Struct, frozen=True):
    run: Run


class ReplyPiece(msgspec.Struct, frozen=True):
    """Text of a reply as the model writes it. `text` is all so far in this turn."""

    run_id: str
    key: SessionKey
    piece: str
    text: str
    restarted: bool = False
    """Whether the model began this turn anew: forget the pieces before."""


class ThoughtPiece(msgspec.Struct, frozen=True):
    run_id: str
    key: SessionKey
    piece: str


class CallRepeated(msgspec.Struct, frozen=True):
    """A model call failed and is made anew after `wait_s`, by another `model` if one is named."""

    run_id: str
    key: SessionKey
    reason: str
    wait_s: float
    model: str | None = None


class ToolStarted(msgspec.Struct, frozen=True):
    run_id: str
    key: SessionKey
    tool_use_id: str
    name: str
    arguments: dict[str, object]


class ToolProgress(msgspec.Struct, frozen=True):
    """A sign of life of a tool that takes its time: the end of its output so far."""

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
    standing: State = State("ok")
    """The state in which the call ended: a program that failed is no error of the tool."""


class EntryAppended(msgspec.Struct, frozen=True):
    key: SessionKey
    entry: Entry


class Injected(msgspec.Struct, frozen=True):
    """Words that came from no run: a note by a client, a command's answer."""

    key: SessionKey
    entry: Entry


class SessionChanged(msgspec.Struct, frozen=True):
    """A session's row changed by other means than a run: patch, reset, delete, archive."""

    key: SessionKey
    reason: str


class SpeechAllowed(msgspec.Struct, frozen=True):
    """Whether the send policy lets a session's chat get what is said in it: published when somebody sets it,
    and when a run begins in a session that may not speak."""

    key: SessionKey
    allowed: bool


class CompactionPhase(msgspec.Struct, frozen=True):
    """A run makes room in its model's window. `retries`: it asks the model again afterwards."""

    run_id: str
    key: SessionKey
    phase: Literal["start", "end"]
    retries: bool = False


class RunEnded(msgspec.Struct, frozen=True):
    run: Run
    withheld: bool = False
    """Whether the send policy keeps the reply from the session's chats."""


class ApprovalAsked(msgspec.Struct, frozen=True):
    """A call waits for a person's approval."""

    approval: Approval


class ApprovalSettled(msgspec.Struct, frozen=True):
    """An approval was answered, or its time was over, or its run has ended."""

    approval: Approval


class JobNews(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something happened to a job; the names are those of the wire's `cron` event."""

    job_id: str
    action: Literal["added", "updated", "removed", "started", "finished"]
    run_at_ms: int | None = None
    duration_ms: int | None = None
    status: str | None = None
    error: str | None = None
    summary: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    next_run_at_ms: int | None = None


class HeartbeatNews(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An agent's heartbeat ran, or did not; the names are those of the wire's `heartbeat` event."""

    ts: int
    status: Literal["sent", "ok-empty", "ok-token", "skipped", "failed"]
    agent_id: str
    reason: str | None = None
    preview: str | None = None
    duration_ms: int | None = None


FeedEvent = (
    RunAccepted
    | RunStarted
    | ReplyPiece
    | ThoughtPiece
    | CallRepeated
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | EntryAppended
    | Injected
    | SessionChanged
    | SpeechAllowed
    | CompactionPhase
    | RunEnded
    | ApprovalAsked
    | ApprovalSettled
    | JobNews
    | HeartbeatNews
)
