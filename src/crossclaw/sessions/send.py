"""Sends: a message from one session into another, waited for or not."""

from collections.abc import Sequence
from functools import partial

from crossclaw.domain.durations import wait_s
from crossclaw.domain.errors import Invalid
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, words_of
from crossclaw.domain.runs import Cause, NewRun, Run, RunPlan
from crossclaw.door.registry import Caller, Params, Result
from crossclaw.door.resolver import Resolver, SessionHandle
from crossclaw.ledger.operations import PutExchange
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.waits import Waits
from crossclaw.sessions.arrivals import Arrival, Refused, RequestId, nothing_else
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.origins import from_session
from crossclaw.sessions.run_builder import RunBuilder

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
        intake: Intake,
        resolver: Resolver,
        run_store: RunStore,
        waits: Waits,
        builder: RunBuilder,
    ) -> None:
        self._intake = intake
        self._resolver = resolver
        self._run_store = run_store
        self._waits = waits
        self._builder = builder

    async def send(
        self, caller: Caller, params: SendToolParams, request_id: str | None = None
    ) -> SendToolResult:
        """Sends a message into another session and waits as asked. With a client's request id, the same
        request again is the same send."""
        timeout_s = wait_s(params.timeout_seconds, WAIT_DEFAULT_S, WAIT_MAX_S, "do not wait")
        if not params.message.strip():
            raise Invalid("message required")
        handle = await self._target(caller, params)
        run_id = request_id or await self._builder.begun_by(caller, self._run_store)
        shown = handle.key.display(caller.principal.agent_id)
        received = await self._intake.receive(await self._arrival(caller, handle, run_id, params))
        if isinstance(received, Refused):
            return SendToolResult(
                run_id=run_id, status="error", error=received.reason, session_key=shown
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

    async def _arrival(
        self, caller: Caller, handle: SessionHandle, run_id: str, params: SendToolParams
    ) -> Arrival:
        """The arrival of a send. Between agents it begins an exchange; a person who sends only gets the reply."""
        requester, run = caller.principal.session, caller.run
        return Arrival(
            road="send",
            to=handle,
            text=params.message,
            origin=await self._provenance(caller),
            caller=caller,
            request=RequestId(id=run_id, words=("send", params.message)),
            run_id=run_id,
            plan=RunPlan(
                deliver=False,
                context=_context(requester, handle),
                exchange_id=run_id if requester else None,
            ),
            cause=run.cause.followed_by(run.run_id, hops=1) if run else Cause(),
            also=partial(self._begin, requester) if requester else nothing_else,
        )

    async def _provenance(self, caller: Caller) -> Provenance:
        requester = caller.principal.session
        if requester is None:
            return Provenance("person", source_tool="sessions_send", sender=caller.principal.name)
        own = await self._resolver.find_own(caller.principal, None)
        return from_session(requester, own, "sessions_send")

    def _begin(self, requester: SessionKey, new: NewRun) -> list[PutExchange]:
        limits = self._builder.config.session.agent_to_agent
        exchange = Exchange(
            exchange_id=new.run_id,
            agent_id=new.key.agent_id,
            requester_key=requester.text,
            target_key=new.key.text,
            run_id=new.run_id,
            request=words_of(new.message) if new.message else "",
            turns_max=limits.max_ping_pong_turns,
            created_at=self._builder.clock.now_ms(),
            root=new.cause.root(new.run_id),
        )
        return [PutExchange(exchange=exchange, runs_max=limits.max_runs)]

    async def _outcome(
        self, caller: Caller, run_id: str, timeout_s: float, shown: str
    ) -> SendToolResult:
        """Waits for the reply. It is read from the ledger, so a restart or a reconnect does not change the answer."""
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
        """The name of a session in a cycle; anonymous for a caller that may not see it."""
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
