"""Arrivals: what comes to a session before anything is decided about it, and the result.

Whatever comes, by whichever road, is one `Arrival`; one line of `ROADS` says what is asked of it. The intake
reads both and decides in one order.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec

from crossclaw.domain.addresses import WEBCHAT
from crossclaw.domain.jobs import Job
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserBlock
from crossclaw.domain.runs import Cause, NewRun, Run, RunKind, RunPlan
from crossclaw.domain.sessions import SessionFacts
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import SessionHandle
from crossclaw.ledger.operations import Dedupe, Op

Road = Literal[
    "chat",
    "channel",
    "agent",
    "send",
    "spawn",
    "hook",
    "hook wake",
    "node",
    "cron",
    "isolated job",
    "notice",
    "compact",
]


BeginsAnew = Literal["never", "where due", "each time"]


class RoadRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of whatever comes by a road. What a road does not ask for is not decided."""

    kind: RunKind
    """The kind of its runs."""
    commands: bool = False
    """A slash command is answered by the gateway itself."""
    archived: Literal["refused", "brought back", "unheard"] = "unheard"
    """What happens to a message for an archived session: the sender gets a refusal; or the session is brought
    back, since who writes knows nothing of archives; or it is treated as unknown."""
    send_policy: bool = False
    """Whether the send policy is asked before anything is accepted, and not only when the reply goes out."""
    begins_anew: BeginsAnew = "never"
    """Whether its session begins anew first: one that has been idle, where `session.reset` says so; or each time,
    so that every run has a transcript of its own and the ones before stay readable."""
    queues: bool = False
    """Whether `messages.queue` says what happens to it when the session is busy."""
    owner: bool = False
    """Whether it may be the owner's own message. Others' messages have no owner's rights, whoever passes them on."""
    hop: bool = False
    """Whether it leads from one session into another: one of `session.agentToAgent.maxHops`."""
    redelivered: bool = False
    """Whether platforms send the same message again as a matter of course: then duplicates are looked up first."""
    lasts: bool = False
    """Whether a run has as much time as it asks for, and no limit where it asks for none."""
    says: bool = True
    """Whether it says something: its words are a message of the transcript."""

    @property
    def brings_back(self) -> bool:
        return self.archived == "brought back"


ROADS: dict[Road, RoadRules] = {
    "chat": RoadRules(kind="chat", commands=True, archived="refused", send_policy=True, begins_anew="where due", queues=True, owner=True),
    "channel": RoadRules(kind="chat", commands=True, archived="brought back", begins_anew="where due", queues=True, owner=True, redelivered=True),
    "agent": RoadRules(kind="agent", archived="refused", send_policy=True, begins_anew="where due", owner=True),
    "send": RoadRules(kind="send", send_policy=True, owner=True, hop=True),
    "spawn": RoadRules(kind="spawn", hop=True, lasts=True),
    "hook": RoadRules(kind="hook", archived="brought back"),
    "hook wake": RoadRules(kind="hook"),
    "node": RoadRules(kind="node"),
    "cron": RoadRules(kind="cron", archived="brought back", owner=True),
    "isolated job": RoadRules(kind="cron", archived="brought back", begins_anew="each time", owner=True),
    "notice": RoadRules(kind="agent", owner=True),
    "compact": RoadRules(kind="compact", owner=True, says=False),
}  # fmt: skip


class SessionNamed(msgspec.Struct, frozen=True):
    """A session as its caller names it, for the resolver."""

    reference: str
    agent_id: str | None = None


class RequestId(msgspec.Struct, frozen=True, kw_only=True):
    """The id by which a repeated request is recognised. The same id with other words is refused."""

    id: str
    scope: str = "run"
    words: tuple[str, ...] = ()
    """What was asked for, to compare a repeated request with; empty: nothing is compared."""
    of_session: bool = True
    """Whether the session is part of what was asked for."""

    def dedupe(self, key: SessionKey) -> Dedupe:
        """How the ledger recognises it. The text of a digest is stored: a request may be repeated after an update."""
        what, *rest = self.words or ("",)
        parts = [what, key.text, *rest] if self.of_session else [what, *rest]
        return Dedupe(self.scope, self.id, digest(*parts) if self.words else "")


def digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode()).hexdigest()


def nothing_else(new: NewRun) -> Sequence[Op[Any]]:
    return ()


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to say in a session, as it arrived. It says whose word it is (`caller` or `job`); what
    that may do is decided by the intake."""

    road: Road
    to: SessionNamed | SessionHandle | SessionKey
    text: str
    origin: Provenance
    earlier: str = ""
    """What was said before, as the caller tells it: put before the text if the session is new, and else left out."""
    attachments: Sequence[UserBlock] = ()
    caller: Caller | None = None
    """Who says it, and by which tool call of which run. Nobody: a job says it."""
    job: Job | None = None
    """The job whose tick it is."""
    may_command: bool = True
    request: RequestId | None = None
    run_id: str | None = None
    """The run's id, chosen by the caller; unset: by the gateway."""
    plan: RunPlan = RunPlan()
    cause: Cause = Cause()
    facts: SessionFacts = SessionFacts()
    replies_to_last: bool = False
    """The reply goes to where the session was last talked to."""
    waits: bool = False
    """Whether no run answers it now: its words enter the transcript, and the next run reads them."""
    spelled: str | None = None
    """The session's key as the caller's connection spells it: its events of the run carry that, or the
    session's own key where it is empty."""
    before: Sequence[Op[Any]] = ()
    """Operations of the same step that come before all others: what they refuse is not accepted."""
    preceding: Sequence[Op[Any]] = ()
    """Operations of the same step that put something into the transcript before the words, after the session has
    begun anew."""
    also: Callable[[NewRun], Sequence[Op[Any]]] = nothing_else
    """Further operations of the same step."""

    @property
    def channel(self) -> str:
        """The channel that it came by."""
        return self.facts.channel or WEBCHAT


class Accepted(msgspec.Struct, frozen=True):
    """The message is durable and will run. `duplicate`: it was accepted before."""

    run_id: str
    key: SessionKey
    duplicate: bool = False


class Replied(msgspec.Struct, frozen=True):
    """The message was a command, and this is its answer."""

    run_id: str
    key: SessionKey
    text: str
    stopped: list[str] | None = None
    """The runs that `/stop` has stopped."""
    known: Run | None = None
    """The run that an earlier request with the same id became."""


class Refused(msgspec.Struct, frozen=True):
    reason: str
