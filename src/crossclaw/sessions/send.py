"""Sends: a message from one session into another, waited for or not."""

from collections.abc import Sequence

import msgspec

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Invalid, TooMuchFollows
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserMessage, words_of
from crossclaw.domain.runs import Cause, NewRun, Run, RunPlan
from crossclaw.domain.sessions import NewSession
from crossclaw.door.registry import Caller, Params, Result
from crossclaw.door.resolver import Resolver, SessionHandle
from crossclaw.ledger.operations import Dedupe, PutExchange
from crossclaw.policy.send import BLOCKED, decide_send
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.waits import Waits
from crossclaw.sessions.intake import digest
from crossclaw.sessions.origins import from_session

WAIT_DEFAULT_S = 30.0
WAIT_MAX_S = 24 * 3600.0  # nobody waits longer with profit; the run goes on anyway


class SendToolParams(Params, frozen=True):
    message: str
    session_key: str | None = None
    label: str | None = None
    agent_id: str | None = None
    timeout_seconds: float | None = None


class SendToolResult(Result, frozen=True):
    run_id: str
    status: str
    reply: str | None = None
    error: str | None = None
    session_key: str | None = None


class Sends:
    def __init__(
        self,
        resolver: Resolver,
        run_store: RunStore,
        waits: Waits,
        config: Config,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._resolver = resolver
        self._run_store = run_store
        self._waits = waits
        self._config = config
        self._clock = clock
        self._ids = ids

    async def send(
        self, caller: Caller, params: SendToolParams, request_id: str | None = None
    ) -> SendToolResult:
        """With a request id of a client's, the same request again is the same send."""
        timeout_s = _timeout(params.timeout_seconds)
        if not params.message.strip():
            raise Invalid("message required")
        handle = await self._target(caller, params)
        run_id = request_id or await self._run_id(caller)
        shown = handle.key.display(caller.principal.agent_id)
        if not decide_send(self._config.session.send_policy, handle.key, handle.session).allowed:
            return SendToolResult(run_id=run_id, status="error", error=BLOCKED, session_key=shown)
        if caller.principal.authority.hops_left <= 0:
            hops = self._config.session.agent_to_agent.max_hops
            text = f"this chain of sends has used its {hops} hops (session.agentToAgent.maxHops)"
            return SendToolResult(run_id=run_id, status="error", error=text, session_key=shown)
        try:
            run_id = await self._submit(caller, handle, run_id, params.message)
        except TooMuchFollows as error:
            return SendToolResult(
                run_id=run_id, status="error", error=str(error), session_key=shown
            )
        if timeout_s == 0:
            return SendToolResult(run_id=run_id, status="accepted", session_key=shown)
        return await self._outcome(caller, run_id, timeout_s, shown)

    async def _target(self, caller: Caller, params: SendToolParams) -> SessionHandle:
        principal = caller.principal
        given = [name for name in (params.session_key, params.label) if name]
        if len(given) > 1:
            raise Invalid("Provide either sessionKey or label (not both).")
        if params.agent_id:
            self._resolver.check_agent(principal, params.agent_id, "send")
        if params.label:
            handle = await self._resolver.resolve_label(
                principal, params.label, params.agent_id, "send"
            )
        elif params.session_key:
            handle = await self._resolver.resolve(
                principal, params.session_key, "send", params.agent_id
            )
        elif params.agent_id:
            key = SessionKey.main(params.agent_id)
            handle = await self._resolver.resolve(principal, key.text, "send")
        else:
            raise Invalid("say where to: sessionKey, label or agentId")
        if handle.key == principal.session:
            raise Invalid("a session cannot send to itself; answer in your own reply instead")
        return handle

    async def _run_id(self, caller: Caller) -> str:
        """The same tool call of the same run is the same send, however often it is executed."""
        if caller.run is not None and caller.call_id is not None:
            return await self._run_store.follower(caller.run, caller.call_id)
        return self._ids.new()

    async def _submit(
        self, caller: Caller, handle: SessionHandle, run_id: str, message: str
    ) -> str:
        requester = caller.principal.session
        provenance = await self._provenance(caller)
        new = NewRun(
            run_id=run_id,
            key=handle.key,
            kind="send",
            message=UserMessage(message, self._clock.now_ms(), provenance),
            plan=RunPlan(
                deliver=False,
                context=_context(requester, handle),
                timeout_ms=self._config.agents.defaults.timeout_ms,
                exchange_id=run_id if requester else None,
            ),
            authority=_one_hop_less(caller, self._config.session.agent_to_agent.max_hops),
            cause=caller.run.cause.followed_by(caller.run.run_id, hops=1)
            if caller.run
            else Cause(),
        )
        session = NewSession(key=handle.key, session_id=self._ids.new())
        once = Dedupe("run", run_id, digest("send", handle.key.text, message))
        begin = self._begin(requester, new) if requester else []
        return (await self._run_store.submit(new, session, dedupe=once, also=begin)).run_id

    async def _provenance(self, caller: Caller) -> Provenance:
        requester = caller.principal.session
        if requester is None:
            return Provenance("person", source_tool="sessions_send", sender=caller.principal.name)
        own = await self._resolver.find_own(caller.principal, None)
        return from_session(requester, own, "sessions_send")

    def _begin(self, requester: SessionKey, new: NewRun) -> list[PutExchange]:
        """A send between agents begins an exchange; a person who sends gets the reply and that is all."""
        limits = self._config.session.agent_to_agent
        exchange = Exchange(
            exchange_id=new.run_id,
            agent_id=new.key.agent_id,
            requester_key=requester.text,
            target_key=new.key.text,
            run_id=new.run_id,
            request=words_of(new.message) if new.message else "",
            turns_max=limits.max_ping_pong_turns,
            created_at=self._clock.now_ms(),
            root=new.cause.root(new.run_id),
        )
        return [PutExchange(exchange=exchange, runs_max=limits.max_runs)]

    async def _outcome(
        self, caller: Caller, run_id: str, timeout_s: float, shown: str
    ) -> SendToolResult:
        """Waiting reads the ledger, so a restart or a reconnect changes nothing of the answer."""
        circle: Sequence[SessionKey] = ()
        if caller.run is not None:
            waited = await self._waits.wait(caller.run, run_id, timeout_s)
            run, circle = waited.run, waited.circle
        else:
            run = await self._run_store.wait(run_id, timeout_s)
        if run is None or not run.ended:
            names = " → ".join([await self._name(caller, key, shown) for key in circle])
            error = (
                f"waiting would never end: {names} wait for each other; the message is queued"
                if circle
                else f"no answer within {timeout_s:g} s; the run goes on, read sessions_history later"
            )
            return SendToolResult(run_id=run_id, status="timeout", error=error, session_key=shown)
        return _ended(run, shown)

    async def _name(self, caller: Caller, key: SessionKey, target: str) -> str:
        """A session in a circle, named only to those who know it anyway."""
        name, who = key.display(caller.principal.agent_id), caller.principal
        known = key == who.session or name == target or await self._resolver.sees(who, key)
        return name if known else "another session"


def _ended(run: Run, shown: str) -> SendToolResult:
    if run.status == "ok":
        return SendToolResult(
            run_id=run.run_id, status="ok", reply=run.reply or "", session_key=shown
        )
    error = run.error or f"the run ended as {run.status}"
    return SendToolResult(run_id=run.run_id, status="error", error=error, session_key=shown)


def _timeout(seconds: float | None) -> float:
    if seconds is None:
        return WAIT_DEFAULT_S
    if seconds != seconds or seconds < 0:
        raise Invalid("timeoutSeconds must be 0 (do not wait) or more")
    return min(seconds, WAIT_MAX_S)


def _one_hop_less(caller: Caller, hops_max: int) -> Authority:
    """Also of a client's, whose own authority knows no end."""
    authority = caller.principal.authority
    hops = min(authority.hops_left, hops_max)
    return authority.meet(msgspec.structs.replace(authority, hops_left=hops - 1))


def _context(requester: SessionKey | None, handle: SessionHandle) -> str:
    """The facts of an agent-to-agent message, for the target's system prompt."""
    if requester is None:
        return "This message was sent into your session from the outside; answer it as usual."
    return "\n".join(
        [
            "Another agent has sent you the message you are answering now.",
            f"It comes from session {requester.shown} (agent {requester.agent_id}).",
            f"Your own session is {handle.key.shown}.",
            "Your reply goes back to that agent, not to a person.",
        ]
    )
