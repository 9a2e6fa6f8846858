"""Arrivals: what comes to a session before anything is decided about it, and what became of it.

Whatever comes, by whichever road, is one `Arrival`; what is asked of it stands in one line of `ROADS`. The intake
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
    """Of its runs, unless the arrival says otherwise."""
    commands: bool = False
    """A slash command is answered by the gateway itself."""
    archived: Literal["refused", "brought back", "unheard"] = "unheard"
    """Of a session that was put away: its sender is told so; or who writes knows nothing of archives, and is
    heard; or it is as if it were not there."""
    send_policy: bool = False
    """Asked before anything is accepted, and not only when the reply goes out."""
    begins_anew: bool = False
    """A session that has rested begins anew first, where `session.reset` says so."""
    queues: bool = False
    """`messages.queue` says what becomes of it should the session be busy."""
    owner: bool = False
    """It may be the owner's own word. Others' words have no owner's rights, whoever passes them on."""
    hop: bool = False
    """It leads from one session into another: one of `session.agentToAgent.maxHops`."""
    redelivered: bool = False
    """Platforms bring the same message again as a matter of course: that is looked up first."""
    lasts: bool = False
    """It has as much time as it asks for, and no limit where it asks for none."""


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
    """By what a repeated request is known. The same id with other words is refused."""

    id: str
    scope: str = "run"
    words: tuple[str, ...] = ()
    """What was asked for; of an empty one nobody compares."""
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
    """Of the run, where it is not the road's own."""
    may_command: bool = True
    request: RequestId | None = None
    run_id: str | None = None
    """Chosen by whoever asks, else by the gateway."""
    plan: RunPlan = RunPlan()
    authority: Authority | None = None
    """Where it is not simply the caller's."""
    cause: Cause = Cause()
    facts: SessionFacts = SessionFacts()
    replies_to_last: bool = False
    """The reply goes to where the session was last talked to."""
    waits: bool = False
    """Nobody answers it now: its words enter the transcript, and whichever run comes next reads them."""
    spelled: str | None = None
    """The session as the caller's connection spells it: it hears of the run under that name, or under the
    session's own where it is empty."""
    before: Sequence[Op[Any]] = ()
    also: Callable[[NewRun], Sequence[Op[Any]]] = nothing_else
    """What belongs to it, stored in the same step."""


class Accepted(msgspec.Struct, frozen=True):
    """It is durable and will run. `duplicate`: it was, before."""

    run_id: str
    key: SessionKey
    duplicate: bool = False


class Replied(msgspec.Struct, frozen=True):
    """It was a command, and this is its answer."""

    run_id: str
    key: SessionKey
    text: str
    stopped: list[str] | None = None
    """Of `/stop`: the runs that were."""
    known: Run | None = None
    """The run that it has become before, under the same id."""


class Refused(msgspec.Struct, frozen=True):
    reason: str


def begin_authority(caller: Caller, config: Config, *, owner: bool = True) -> Authority:
    """What a run may do that this caller begins: what the caller may, within the config's hops."""
    hops = config.session.agent_to_agent.max_hops
    return caller.principal.authority.meet(Authority(owner=owner, hops_left=hops))
