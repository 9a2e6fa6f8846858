"""Explaining: what one session may do to another, decision by decision, each with its reason and the setting
that would change it. For the owner: an agent only learns "it does not exist", here the reason is given."""

from collections.abc import Collection
from typing import Literal

import msgspec

from crossclaw.config import Config
from crossclaw.domain.addresses import WEBCHAT
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, NotFound
from crossclaw.domain.keys import SHARED, SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver, SessionHandle
from crossclaw.ledger.contract import Ledger
from crossclaw.policy.agent_to_agent import decide_reach
from crossclaw.policy.answering import decide_answers
from crossclaw.policy.sandbox import why_sandboxed
from crossclaw.policy.send import decide_send
from crossclaw.policy.subagents import decide_spawn
from crossclaw.policy.visibility import decide_visible, viewer_of

Verb = Literal["see", "read", "send", "spawn", "deliver"]

_WANTED = {"see": "listing", "read": "history", "send": "messaging"}


class ExplainParams(Params, frozen=True):
    source: str = msgspec.field(name="from")
    verb: Verb
    to: str


class Reason(Result, frozen=True):
    about: str
    allowed: bool
    reason: str
    setting: str | None = None
    """The setting that would change it."""


class ExplainResult(Result, frozen=True):
    allowed: bool
    """Whether all of the reasons allow it."""
    source: str = msgspec.field(name="from")
    verb: Verb
    to: str
    exists: bool
    sandboxed: bool
    reasons: list[Reason]


class Explaining:
    def __init__(
        self, config: Config, ledger: Ledger, resolver: Resolver, channels: Collection[str]
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._resolver = resolver
        self._channels = channels

    @method(
        "sessions.explain",
        "operator.read",
        "read",
        "Whether one session may see, read, send to, spawn or deliver to another, and why. Ours, not OpenClaw's.",
    )
    async def explain(self, caller: Caller, params: ExplainParams) -> ExplainResult:
        if not self._resolver.sees_everything(caller.principal):
            raise Forbidden("only a person's client may ask this")
        source = await self._resolver.resolve(caller.principal, params.source, "create")
        if params.verb == "spawn":
            reasons = self._spawn(source.key, params.to)
            return self._answer(source.key, params, params.to, True, reasons)
        return await self._answer_about_session(caller, source.key, params)

    async def _answer_about_session(
        self, caller: Caller, source: SessionKey, params: ExplainParams
    ) -> ExplainResult:
        try:
            target = await self._resolver.resolve(caller.principal, params.to, "create")
        except NotFound as error:
            missing = [Reason(about="existence", allowed=False, reason=str(error))]
            return self._answer(source, params, params.to, False, missing)
        reasons = await self._reasons(source, params.verb, target)
        there = target.session is not None
        return self._answer(source, params, target.key.shown, there, reasons)

    def _answer(
        self, source: SessionKey, params: ExplainParams, to: str, exists: bool, reasons: list[Reason]
    ) -> ExplainResult:  # fmt: skip
        return ExplainResult(
            allowed=all(reason.allowed for reason in reasons),
            source=source.shown,
            verb=params.verb,
            to=to,
            exists=exists,
            sandboxed=why_sandboxed(self._config.agents, source, Authority()) is not None,
            reasons=reasons,
        )

    async def _reasons(self, source: SessionKey, verb: Verb, target: SessionHandle) -> list[Reason]:
        session = target.session
        if verb == "deliver":
            return [*self._existence(verb, target), self._policy(target), self._address(session)]
        reasons = [
            *self._existence(verb, target),
            self._reach(source, verb, target.key),
            await self._visible(source, target),
        ]
        if verb != "send":
            return reasons
        answers = decide_answers(self._config.agents, target.key)
        if not answers.allowed:
            reasons.append(Reason(about="agent", allowed=False, reason=answers.reason))
        return [
            *reasons,
            _not_itself(source, target.key),
            self._policy(target),
            self._hops(),
            self._runs(),
        ]

    def _address(self, session: Session | None) -> Reason:
        last = session.last_address.channel if session and session.last_address else None
        named = session.key.channel if session and session.key.kind == "group" else None
        page = session.channel if session and session.channel == WEBCHAT else None
        channel = last or named or page
        if channel is None:
            words = "it has no chat that a reply could go to"
        elif channel not in (WEBCHAT, *self._channels):
            words, channel = f"its chat is on {channel}, which is not set up here", None
        else:
            words = f"its chat is on {channel}"
        return Reason(about="address", allowed=channel is not None, reason=words)

    def _existence(self, verb: Verb, target: SessionHandle) -> list[Reason]:
        session, key = target.session, target.key
        if session is None:
            begins = verb == "send" and key.kind == "main"
            words = "it does not exist" + ("; a send would begin it" if begins else "")
            return [Reason(about="existence", allowed=begins, reason=words)]
        if session.archived_at is None:
            return [Reason(about="existence", allowed=True, reason="it exists")]
        words = (
            "it is archived: not listed and not sent to, but still read by its key or session id; "
            "crossclaw sessions unarchive brings it back"
        )
        return [Reason(about="archive", allowed=verb == "read", reason=words)]

    def _reach(self, source: SessionKey, verb: Verb, target: SessionKey) -> Reason:
        rules = self._config.tools.agent_to_agent
        # The shared session is every agent's own main one.
        agent_id = source.agent_id if target.text == SHARED else target.agent_id
        decision = decide_reach(rules, source.agent_id, agent_id, _WANTED[verb])
        return Reason(
            about="agent-to-agent",
            allowed=decision.allowed,
            reason=decision.reason,
            setting="tools.agentToAgent",
        )

    async def _visible(self, source: SessionKey, target: SessionHandle) -> Reason:
        viewer = viewer_of(self._config, source, Authority())
        line = await self._ledger.list_line(target.key)
        parent = target.session.spawned_by if target.session else None
        decision = decide_visible(viewer, target.key, parent, line)
        boxed = viewer.mode == "spawned"
        why = why_sandboxed(self._config.agents, source, Authority())
        return Reason(
            about="visibility",
            allowed=decision.allowed,
            reason=f"{decision.reason}; {why}" if boxed else decision.reason,
            setting="agents.defaults.sandbox.sessionToolsVisibility"
            if boxed
            else "tools.sessions.visibility",
        )

    def _policy(self, target: SessionHandle) -> Reason:
        decision = decide_send(self._config.session.send_policy, target.key, target.session)
        own = target.session is not None and target.session.send_policy in ("allow", "deny")
        return Reason(
            about="send policy",
            allowed=decision.allowed,
            reason=decision.reason,
            setting="sendPolicy of the session (sessions.patch)" if own else "session.sendPolicy",
        )

    def _hops(self) -> Reason:
        hops = self._config.session.agent_to_agent.max_hops
        return Reason(
            about="hops",
            allowed=True,
            reason=f"a chain of sends and spawns has at most {hops}; this would be one of them",
            setting="session.agentToAgent.maxHops",
        )

    def _runs(self) -> Reason:
        runs = self._config.session.agent_to_agent.max_runs
        return Reason(
            about="runs",
            allowed=True,
            reason=f"one message brings about at most {runs} runs; this would reserve some of them",
            setting="session.agentToAgent.maxRuns",
        )

    def _spawn(self, source: SessionKey, to: str) -> list[Reason]:
        wanted = SessionKey.parse(to).agent_id if ":" in to else to
        return [self._may_spawn(source, wanted), self._hops(), self._runs()]

    def _may_spawn(self, source: SessionKey, wanted: str) -> Reason:
        agents = self._config.agents
        try:
            decision = decide_spawn(agents, source, agents.get(wanted).id)
        except NotFound as error:
            return Reason(about="agent", allowed=False, reason=str(error), setting="agents.list")
        return Reason(
            about="sub-agents",
            allowed=decision.allowed,
            reason=decision.reason,
            setting="agents.list[].subagents.allowAgents",
        )


def _not_itself(source: SessionKey, target: SessionKey) -> Reason:
    if source == target:
        return Reason(about="itself", allowed=False, reason="a session cannot send to itself")
    return Reason(about="itself", allowed=True, reason="another session")
