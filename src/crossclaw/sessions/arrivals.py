"""Arrivals: what comes to a session before anything is decided about it, and the result.

Whatever comes, by whichever road, is one `Arrival`; one line of `ROADS` says what is asked of it. The intake
reads both and decides in one order.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserBlock
from crossclaw.domain.runs import Cause, NewRun, Run, RunKind, RunPlan
from crossclaw.domain.sessions import SessionFacts
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import SessionHandle
from crossclaw.ledger.operations import Op

Road = Literal["chat", "channel", "agent", "send", "spawn", "hook", "node", "cron", "notice"]


class RoadRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of whatever comes by a road. What a road does not ask for is not decided."""

    kind: RunKind
    """The kind of its runs, unless the arrival names another."""
    commands: bool = False
    """A slash command is answered by the gateway itself."""
    archived: Literal["refused", "brought back", "unheard"] = "unheard"
    """What happens to a message for an archived session: the sender gets a refusal; or the session is brought
    back, since who writes knows nothing of archives; or it is treated as unknown."""
    send_policy: bool = False
    """Whether the send policy is asked before anything is accepted, and not only when the reply goes out."""
    begins_anew: bool = False
    """Whether a session that has been idle begins anew first, where `session.reset` says so."""
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


ROADS: dict[Road, RoadRules] = {
    "chat": RoadRules(kind="chat", commands=True, archived="refused", send_policy=True, begins_anew=True, queues=True, owner=True),
    "channel": RoadRules(kind="chat", commands=True, archived="brought back", begins_anew=True, queues=True, owner=True, redelivered=True),
    "agent": RoadRules(kind="agent", archived="refused", send_policy=True, begins_anew=True, owner=True),
    "send": RoadRules(kind="send", send_policy=True, owner=True, hop=True),
    "spawn": RoadRules(kind="spawn", owner=True, hop=True, lasts=True),
    "hook": RoadRules(kind="hook", archived="brought back"),
    "node": RoadRules(kind="node"),
    "cron": RoadRules(kind="cron", archived="brought back", owner=True),
    "notice": RoadRules(kind="agent", owner=True),
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


def nothing_else(new: NewRun) -> Sequence[Op[Any]]:
    return ()


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to say in a session, as it arrived."""

    road: Road
    to: SessionNamed | SessionHandle | SessionKey
    text: str
    origin: Provenance
    attachments: Sequence[UserBlock] = ()
    caller: Caller | None = None
    """Who says it, and by which tool call of which run. Nobody: the gateway itself."""
    kind: RunKind | None = None
    """The run's kind, if it is not the road's own."""
    may_command: bool = True
    request: RequestId | None = None
    run_id: str | None = None
    """The run's id, chosen by the caller; unset: by the gateway."""
    plan: RunPlan = RunPlan()
    authority: Authority | None = None
    """What the run may do, if it is not simply what the caller may."""
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
    also: Callable[[NewRun], Sequence[Op[Any]]] = nothing_else
    """Further operations, stored in the same step."""


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


def begin_authority(caller: Caller, config: Config, *, owner: bool = True) -> Authority:
    """The authority of a run that this caller begins: the caller's own, within the config's hops."""
    hops = config.session.agent_to_agent.max_hops
    return caller.principal.authority.meet(Authority(owner=owner, hops_left=hops))
