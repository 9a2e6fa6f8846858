"""agent and agent.wait: begin a run of an agent, and wait for its end."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from crossclaw.config import Config
from crossclaw.domain.addresses import WEBCHAT
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.aliases import Filled
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, Invalid, NotFound
from crossclaw.domain.messages import AssistantMessage, Provenance, Usage
from crossclaw.domain.runs import Run, RunPlan
from crossclaw.domain.sessions import SessionFacts
from crossclaw.door.registry import Caller, Params, Result, TwoAnswers, method
from crossclaw.gateway.methods.chat import Attachments, RequestKey, blocks_of
from crossclaw.gateway.methods.sessions import Label
from crossclaw.ledger.contract import Ledger
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.arrivals import Arrival, RequestId, SessionNamed
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.newest import entries_of

WAIT_DEFAULT_MS = 30_000
WAIT_MAX_MS = 24 * 3600 * 1000  # a client that waits longer asks again; the answer is in the ledger


class AgentCallParams(Params, frozen=True):
    message: Filled
    idempotency_key: RequestKey
    agent_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    thinking: ThinkingLevel | None = None
    model: str | None = None
    deliver: bool | None = None
    attachments: Attachments = ()
    channel: str | None = None
    reply_channel: str | None = None
    account_id: str | None = None
    reply_account_id: str | None = None
    thread_id: str | None = None
    group_id: str | None = None
    group_channel: str | None = None
    group_space: str | None = None
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None
    lane: str | None = None
    extra_system_prompt: str | None = None
    label: Label | None = None
    earlier: str | UnsetType = UNSET
    """Ours: what was said before, put before the message if the session is new; any other remembers."""


class AgentWaitParams(Params, frozen=True):
    run_id: Filled
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] = WAIT_DEFAULT_MS


class AgentWaitResult(Result, frozen=True):
    run_id: str
    status: str
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None
    stop_reason: str | None = None


class ReplyPayload(msgspec.Struct, frozen=True, rename="camel"):
    text: str
    media_url: str | None = None


class AgentResult(Result, frozen=True):
    """The two answers of `agent`: the first says when it was accepted, the second how it ended."""

    run_id: str
    status: str
    accepted_at: int | None = None
    summary: str | None = None
    result: dict[str, Any] | None = None


class RunFailed(CrossclawError):
    """The second answer of `agent` for a run that did not end well."""


class AgentRuns:
    def __init__(
        self,
        config: Config,
        intake: Intake,
        ledger: Ledger,
        run_store: RunStore,
        models: ModelChoices,
        clock: Clock,
    ) -> None:
        self._config = config
        self._intake = intake
        self._ledger = ledger
        self._run_store = run_store
        self._models = models
        self._clock = clock

    @method(
        "agent",
        "operator.write",
        "run",
        "Set an agent to work; answers when accepted and again when done.",
    )
    async def agent(self, caller: Caller, params: AgentCallParams) -> TwoAnswers[AgentResult]:
        run_id, payload = params.idempotency_key, msgspec.json.encode(params).decode()
        await self._intake.require(
            Arrival(
                road="agent",
                to=self._target(params),
                text=params.message,
                earlier=params.earlier or "",
                attachments=await blocks_of(params.attachments),
                origin=Provenance("person", source_channel=params.channel or WEBCHAT),
                caller=caller,
                request=RequestId(id=run_id, words=("agent", payload)),
                run_id=run_id,
                plan=self._plan(params),
                facts=SessionFacts(label=params.label),
                replies_to_last=bool(params.deliver),
                spelled=params.session_key or "",
            )
        )
        first = AgentResult(run_id=run_id, status="accepted", accepted_at=self._clock.now_ms())
        return TwoAnswers(first, lambda: self._final(run_id))

    def _target(self, params: AgentCallParams) -> SessionNamed:
        agents = self._config.agents
        if params.agent_id is not None and agents.find(params.agent_id) is None:
            known = ", ".join(agents.ids())
            raise Invalid(
                f'invalid agent params: unknown agent id "{params.agent_id}"; there are {known}'
            )
        return SessionNamed(params.session_key or params.session_id or "main", params.agent_id)

    def _plan(self, params: AgentCallParams) -> RunPlan:
        return RunPlan(
            deliver=False,
            context=params.extra_system_prompt,
            model=self._models.check(params.model) if params.model else None,
            thinking=params.thinking,
            timeout_ms=params.timeout * 1000 if params.timeout else None,
        )

    async def _final(self, run_id: str) -> AgentResult:
        run = await self._run_store.wait(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}")
        if run.status != "ok":
            raise RunFailed(run.error or run.status)
        return AgentResult(
            run_id=run_id,
            status="ok",
            summary="completed",
            result={
                "payloads": [ReplyPayload(run.reply)] if run.reply else [],
                "meta": await self._meta(run),
            },
        )

    async def _meta(self, run: Run) -> dict[str, Any]:
        said = [entry.message for entry in await entries_of(self._ledger, run)]
        answers = [each for each in said if isinstance(each, AssistantMessage)]
        usage = sum((a.usage for a in answers if a.usage), Usage())
        last = answers[-1] if answers else None
        return {
            "durationMs": (run.ended_at or 0) - (run.started_at or 0),
            "aborted": False,
            "agentMeta": {
                "sessionId": run.session_id,
                "provider": last and last.provider,
                "model": last and last.model,
                "usage": {
                    "input": usage.input,
                    "output": usage.output,
                    "cacheRead": usage.cache_read,
                    "cacheWrite": usage.cache_write,
                    "total": usage.prompt + usage.output,
                },
            },
        }

    @method(
        "agent.wait",
        "operator.write",
        "read",
        "Wait for a run's end; true after a reconnect or a restart as well.",
    )
    async def wait(self, caller: Caller, params: AgentWaitParams) -> AgentWaitResult:
        run = await self._run_store.wait(params.run_id, min(params.timeout_ms, WAIT_MAX_MS) / 1000)
        if run is None or not run.ended:
            return AgentWaitResult(run_id=params.run_id, status="timeout")
        return AgentWaitResult(
            run_id=params.run_id,
            status="ok" if run.status == "ok" else "error",
            started_at=run.started_at,
            ended_at=run.ended_at,
            error=None if run.status == "ok" else run.error or run.status,
            stop_reason=run.status if run.status in ("aborted", "timeout") else None,
        )
