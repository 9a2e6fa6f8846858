"""Approvals: how long a person's approval is waited for, and which chats get the question."""

from typing import Literal

from crossclaw.config.section import Section, names
from crossclaw.domain.aliases import Positive


class ApprovalTarget(Section, frozen=True):
    channel: str
    """The chat platform."""
    to: str
    """The chat there."""
    account_id: str | None = None
    """The account of ours that sends there."""
    thread_id: str | int | None = None
    """A thread of the chat."""


class ApprovalChats(Section, frozen=True):
    """Which chats get the question. Only the owner can answer there, by `/approve`."""

    enabled: bool = True
    """Whether the question goes to chats at all. The page, the terminal and clients always have it."""
    mode: Literal["session", "targets", "both"] = "session"
    """`session`: the chat that the run answers, if it is the owner's, and the owner's own chats as
    `commands.ownerAllowFrom` names them; `targets`: those named here; `both`."""
    agent_filter: tuple[str, ...] = ()
    """The agents that it is for; empty: all."""
    session_filter: tuple[str, ...] = ()
    """Texts in the keys of the sessions that it is for; empty: all."""
    targets: tuple[ApprovalTarget, ...] = ()
    """The chats that get the question with `targets` or `both`."""


class ApprovalsConfig(Section, frozen=True):
    timeout_seconds: Positive = 1_800
    """How long an answer is waited for; then the call is denied. As long as in OpenClaw."""
    exec: ApprovalChats = ApprovalChats()
    """Which chats get the question."""
    unused = names("plugin")
