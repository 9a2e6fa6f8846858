"""Approvals: tool calls that need a person's approval, what people answered, and what they allowed for good."""

from hashlib import sha256
from typing import Literal

import msgspec

from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.keys import SessionKey

ApprovalAnswer = Literal["allow-once", "allow-always", "deny"]
"""What a person says; the words are OpenClaw's."""
ApprovalStatus = Literal["waiting", "allow-once", "allow-always", "deny", "timeout", "withdrawn"]
"""timeout: nobody answered in time, which is a no. withdrawn: the run ended before anybody answered."""
Security = Literal["deny", "allowlist", "full"]
AskMode = Literal["off", "on-miss", "always"]

SECURITY: tuple[Security, ...] = ("full", "allowlist", "deny")
ASK: tuple[AskMode, ...] = ("off", "on-miss", "always")
"""Both from the loosest to the strictest."""


SHOWN_CHARS_MAX = 20_000  # what a person can be expected to look at; a longer command is refused


class ExecRule(msgspec.Struct, frozen=True):
    """Which commands run, and when a person is asked first."""

    security: Security = "full"
    ask: AskMode = "off"

    def stricter(self, other: "ExecRule") -> "ExecRule":
        return ExecRule(
            max(self.security, other.security, key=SECURITY.index),
            max(self.ask, other.ask, key=ASK.index),
        )


class ProposedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool call is about to do, exactly as people are shown it and as it is run."""

    tool: str
    shown: str
    """The command as written, or the tool with its arguments; invisible characters as escapes."""
    folder: str | None = None
    """The folder that a command runs in."""
    sandboxed: bool = False
    program: str | None = None
    """The program of a command, found on its PATH; None for what only a shell can read."""
    arguments: tuple[str, ...] = ()
    digest: str | None = None
    """A digest of the program's file, if the gateway's own user could change it."""
    why_unlisted: str | None = None
    """Why it fits no list: it is asked about each time."""
    warning: str | None = None
    """A warning for whoever answers."""

    @property
    def can_last(self) -> bool:
        """Whether it can be allowed for good."""
        return self.why_unlisted is None


def shown_call(tool: str, arguments: str) -> str:
    """A call for people: the tool and its arguments, with the digest of what is left out."""
    text = visible(f"{tool} {arguments}")
    if len(text) <= SHOWN_CHARS_MAX:
        return text
    digest = sha256(arguments.encode("utf-8", "replace")).hexdigest()[:16]
    left_out = len(text) - SHOWN_CHARS_MAX
    return f"{text[:SHOWN_CHARS_MAX]}… [{left_out} more characters; sha256 {digest}]"


def visible(text: str) -> str:
    """The text with invisible characters, and those that change how the rest is seen, as escapes; lines stay
    lines."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


class NewApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has to be asked about."""

    approval_id: str
    tool_use_id: str
    wish: ProposedCall
    agents: tuple[str, ...]
    """The agents for which it would be allowed for good: the agent itself, and those on whose behalf it acts."""
    expires_at: int


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was asked about, as the ledger has it."""

    approval_id: str
    run_id: str
    tool_use_id: str
    key: SessionKey
    wish: ProposedCall
    agents: tuple[str, ...]
    authority: Authority
    """The authority of the run that asks."""
    asked_at: int
    expires_at: int
    status: ApprovalStatus = "waiting"
    answered_at: int | None = None
    answered_by: str | None = None
    """The person who answered, for people."""
    makers: tuple[CredentialRef, ...] = ()
    """The credentials that the answer came by: an approval by one that has ended since does not count."""

    @property
    def allowed(self) -> bool:
        return self.status in ("allow-once", "allow-always")

    @property
    def answers(self) -> tuple[ApprovalAnswer, ...]:
        """The answers that a person may give."""
        if self.wish.can_last:
            return ("allow-once", "allow-always", "deny")
        return ("allow-once", "deny")


class StandingGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A permission that was given for good, for one agent; or a rule that came with an import."""

    grant_id: str
    agent_id: str
    """The agent; `*`: all, if a rule was imported as the default."""
    tool: str
    created_at: int
    program: str | None = None
    """A path, or with `pattern` a glob of paths, as OpenClaw writes them."""
    pattern: bool = False
    arguments: tuple[str, ...] | None = None
    """The arguments that were allowed; None: any."""
    digest: str | None = None
    folder: str | None = None
    """The folder that the command runs in: elsewhere its arguments, and what the program finds beside it,
    mean other things."""
    sandboxed: bool = False
    """Whether it was allowed within a sandbox: that does not allow it outside."""
    rule: ExecRule | None = None
    """A rule in place of a grant: commands are treated at least as strictly as this."""
    granted_by: str = ""
    makers: tuple[CredentialRef, ...] = ()
