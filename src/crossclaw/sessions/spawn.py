"""Spawning: a task goes to a sub-agent of its own session, and the caller goes on at once."""

from typing import Any, get_args
from uuid import NAMESPACE_URL, uuid5

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.agents import ThinkingLevel, normalize_agent_id
from crossclaw.domain.authority import HOPS_UNLIMITED, Authority
from crossclaw.domain.errors import Invalid, KeyReused, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.runs import Cause, NewRun, RunPlan
from crossclaw.domain.sessions import LABEL_CHARS_MAX, Entry, NewSession, Session, SessionFacts
from crossclaw.domain.spawns import Cleanup, Spawn
from crossclaw.domain.tools import SESSION_TOOLS
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import EnsureSession, Op, PatchSession, PutSpawn
from crossclaw.policy.sandbox import with_delegator
from crossclaw.policy.subagents import decide_spawn
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.sweep import DEDUPE_KEPT_MS
from crossclaw.sessions.arrivals import Arrival, Refused, RequestId
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.newest import find_newest
from crossclaw.sessions.origins import from_session
from crossclaw.sessions.run_builder import RunBuilder
from crossclaw.sessions.where import address_of

TIMEOUT_MAX_S = 30 * 24 * 3600.0  # a month; a task that takes longer needs no alarm clock


class SpawnParams(Params, frozen=True):
    task: str
    label: str | None = None
    agent_id: str | None = None
    model: str | None = None
    thinking: str | None = None
    run_timeout_seconds: float | None = None
    cleanup: str | None = None


class ClientSpawnParams(SpawnParams, frozen=True):
    """The parameters of a client: it says which session is the parent, and may make its request unique."""

    session_key: str = "main"
    idempotency_key: str | None = None


class SpawnResult(Result, frozen=True):
    status: str
    run_id: str | None = None
    child_session_key: str | None = None
    error: str | None = None


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, checked, and with what the config says where nothing was said."""

    compared_by: tuple[str | float | None, ...]
    """What a repeated request is compared by: the config may have changed since the first one."""

    agent_id: str
    words: str
    label: str | None
    model: str | None
    thinking: str | None
    timeout_ms: int | None
    cleanup: Cleanup


class Spawns:
    def __init__(
        self,
        intake: Intake,
        ledger: Ledger,
        resolver: Resolver,
        run_store: RunStore,
        models: ModelChoices,
        builder: RunBuilder,
    ) -> None:
        self._intake = intake
        self._ledger = ledger
        self._resolver = resolver
        self._run_store = run_store
        self._models = models
        self._builder = builder
        self._config = builder.config

    async def spawn(self, caller: Caller, params: SpawnParams) -> SpawnResult:
        """Spawns for a session's own tool: the caller is the parent."""
        parent = caller.principal.session
        if parent is None:
            raise Invalid("sessions_spawn is called by a session; clients have sessions.spawn")
        run_id = await self._builder.begun_by(caller, self._run_store)
        return await self._spawn(caller, parent, params, run_id)

    @method(
        "sessions.spawn",
        "operator.write",
        "run",
        "Give a task to a sub-agent of a session; its report comes there when it is done.",
    )
    async def spawn_for(self, caller: Caller, params: ClientSpawnParams) -> SpawnResult:
        """Spawns for a client, in the name of a session that it may change."""
        handle = await self._resolver.resolve(caller.principal, params.session_key, "talk")
        run_id = params.idempotency_key or self._builder.ids.new()
        return await self._spawn(caller, handle.key, params, run_id)

    async def _spawn(
        self, caller: Caller, parent: SessionKey, params: SpawnParams, run_id: str
    ) -> SpawnResult:
        agent_id = normalize_agent_id(params.agent_id) if params.agent_id else parent.agent_id
        decision = decide_spawn(self._config.agents, parent, agent_id)
        if not (decision.allowed and caller.principal.authority.may_spawn):
            reason = decision.reason if not decision.allowed else "this run may not spawn"
            return SpawnResult(status="forbidden", error=reason)
        self._config.agents.get(agent_id)  # raises, and says which agents there are
        task = self._checked(agent_id, params)
        return await self._submit(caller, parent, task, run_id)

    # ── what was asked for ─────────────────────────────────────────────────────────────────────

    def _checked(self, agent_id: str, params: SpawnParams) -> _Task:
        if not params.task.strip():
            raise Invalid("task required")
        label = params.label.strip() if params.label else None
        if label and len(label) > LABEL_CHARS_MAX:
            raise Invalid(f"label has at most {LABEL_CHARS_MAX} characters")
        if params.cleanup not in (None, *get_args(Cleanup)):
            raise Invalid("cleanup is delete or keep")
        cleanup: Cleanup = "delete" if params.cleanup == "delete" else "keep"
        own = (params.model, params.thinking, params.run_timeout_seconds)
        return _Task(
            compared_by=(agent_id, params.task, label or None, cleanup, *own),
            agent_id=agent_id,
            words=params.task,
            label=label or None,
            model=self._model(agent_id, params.model),
            thinking=self._thinking(agent_id, params.thinking),
            timeout_ms=self._timeout_ms(params.run_timeout_seconds),
            cleanup=cleanup,
        )

    def _model(self, agent_id: str, named: str | None) -> str | None:
        chosen = named or self._config.subagent_model_for(agent_id)
        return None if chosen is None else self._models.check(chosen)

    def _thinking(self, agent_id: str, named: str | None) -> str | None:
        level = named or self._config.subagent_thinking_for(agent_id)
        if level is not None and level not in get_args(ThinkingLevel):
            levels = ", ".join(get_args(ThinkingLevel))
            raise Invalid(f"invalid thinking {level!r}; the levels are {levels}")
        return level

    def _timeout_ms(self, seconds: float | None) -> int | None:
        if seconds is None:
            seconds = float(self._config.agents.defaults.subagents.run_timeout_seconds)
        if seconds != seconds or not 0 <= seconds <= TIMEOUT_MAX_S:
            raise Invalid(
                f"runTimeoutSeconds must be from 0 (no limit) to {TIMEOUT_MAX_S:.0f} (a month)"
            )
        return int(seconds * 1000) or None

    # ── storing it ─────────────────────────────────────────────────────────────────────────────

    async def _submit(
        self, caller: Caller, parent: SessionKey, task: _Task, run_id: str
    ) -> SpawnResult:
        # The child is named after the call, so that a call executed again finds the same child.
        child = SessionKey.subagent(task.agent_id, str(uuid5(NAMESPACE_URL, f"spawn:{run_id}")))
        request = RequestId(
            id=run_id,
            words=("spawn", parent.text, msgspec.json.encode(task.compared_by).decode()),
            of_session=False,
        )
        if await self._is_known(caller, request, child, parent, task):
            return SpawnResult(status="accepted", run_id=run_id, child_session_key=child.text)
        known = await self._ledger.find_session(parent)
        limits = self._limits(caller, parent, known, await self._asking(caller))
        run, where = caller.run, await self._reports_to(caller, parent)
        received = await self._intake.receive(
            Arrival(
                road="spawn",
                to=child,
                text=task.words,
                origin=from_session(parent, known, "sessions_spawn"),
                caller=caller.within(limits),
                request=request,
                run_id=run_id,
                plan=RunPlan(
                    deliver=False,
                    context=_context(parent, child),
                    timeout_ms=task.timeout_ms,
                    spawned=True,
                ),
                cause=run.cause.followed_by(run.run_id, hops=1) if run else Cause(hops=1),
                facts=SessionFacts(
                    label=task.label, spawned_by=parent.text, authority=_bound(limits)
                ),
                also=lambda new: self._begin(parent, new, task, where),
            )
        )
        if isinstance(received, Refused):
            return SpawnResult(status="error", error=received.reason)
        return SpawnResult(status="accepted", run_id=received.run_id, child_session_key=child.text)

    async def _is_known(
        self,
        caller: Caller,
        request: RequestId,
        child: SessionKey,
        parent: SessionKey,
        task: _Task,
    ) -> bool:
        """Whether a repeated call's child exists already, also one that was deleted after its announce: it is
        not begun again. A client's request is compared by the intake, as long as it remembers it. A tool call
        has its id from its run, and is compared with the spawn only."""
        known = await self._ledger.find_spawn(child)
        if known is None:
            return False
        remembered = self._builder.clock.now_ms() < known.created_at + DEDUPE_KEPT_MS
        if remembered and caller.run is None:
            same = await self._intake.find_accepted(request, child) is not None
        else:
            before = (known.parent_key, known.task, known.label, known.cleanup)
            same = before == (parent.text, task.words, task.label, task.cleanup)
        if not same:
            raise KeyReused("this idempotency key was used for another task; use a new key")
        return True

    async def _asking(self, caller: Caller) -> str | None:
        """The model of the run that asks: a fallback may have answered in place of the chosen one."""
        if caller.run is None:
            return None
        run_id = caller.run.run_id

        def answered(entry: Entry) -> AssistantMessage | None:
            said = entry.message
            return said if isinstance(said, AssistantMessage) and entry.run_id == run_id else None

        said = await find_newest(self._ledger, caller.run.session_id, answered)
        return f"{said.provider}/{said.model}" if said and said.provider and said.model else None

    def _limits(
        self, caller: Caller, parent: SessionKey, session: Session | None, asking: str | None
    ) -> Authority:
        """What a child may do at most: what its parent may, and nothing that only a person or a parent may do.
        A child acts on its parent's behalf, whoever asks for it, and may do no more than the model that
        asks."""
        chosen = caller.run.plan.model if caller.run else None
        model = self._models.in_use(parent.agent_id, chosen or (session.model if session else None))
        given = caller.principal.authority
        if session is not None:
            given = given.meet(session.authority)
        mine = with_delegator(self._config.agents, parent, given, model)
        if asking is not None and asking != model:
            mine = with_delegator(self._config.agents, parent, mine, asking)
        if parent.is_guest:  # neither it nor its child has anything of this machine
            mine = mine.meet(Authority(tools=SESSION_TOOLS))
        return mine.meet(Authority(may_spawn=False))

    def _begin(
        self, parent: SessionKey, new: NewRun, task: _Task, where: Address | None
    ) -> list[Op[Any]]:
        """The operations stored with the first run. They make the parent's session too: a client may spawn
        for a main session that nobody has talked to yet."""
        at, ids = self._builder.clock.now_ms(), self._builder.ids
        changes = {"model": task.model, "thinking": task.thinking}
        chosen = {name: value for name, value in changes.items() if value is not None}
        ops: list[Op[Any]] = [
            EnsureSession(new=NewSession(key=parent, session_id=ids.new()), at=at)
        ]
        if chosen:
            ops.append(PatchSession(key=new.key, changes=chosen, at=at))
        return [*ops, self._record(parent, new, task, where, at)]

    async def _reports_to(self, caller: Caller, parent: SessionKey) -> Address | None:
        """The address of the report: the chat that the task was asked for in, else the parent's."""
        found = await self._find_parent(parent)
        asked_in = caller.run.plan.reply_to if caller.run else None
        return asked_in or address_of(found)

    def _record(
        self, parent: SessionKey, new: NewRun, task: _Task, where: Address | None, at: int
    ) -> PutSpawn:
        subagents = self._config.agents.defaults.subagents
        spawn = Spawn(
            child_key=new.key.text,
            agent_id=new.key.agent_id,
            parent_key=parent.text,
            run_id=new.run_id,
            task=task.words,
            cleanup=task.cleanup,
            created_at=at,
            label=task.label,
            reply_to=where,
            root=new.cause.root(new.run_id),
            wakes=subagents.wake_parent,
        )
        return PutSpawn(
            spawn=spawn,
            runs_max=self._config.session.agent_to_agent.max_runs,
            children_max=subagents.max_children_per_agent,
        )

    async def _find_parent(self, parent: SessionKey) -> Session | None:
        found = await self._ledger.find_session(parent)
        if found is not None and found.archived_at is not None:
            raise NotFound(f"unknown session: {parent}")
        return found


def _bound(authority: Authority) -> Authority:
    """The bound of any run in the child, whoever sends it: what its first run may do, for good. Only the hops
    and the credentials are those of whoever sends."""
    return msgspec.structs.replace(authority, hops_left=HOPS_UNLIMITED, made_by=frozenset())


def _context(parent: SessionKey, child: SessionKey) -> str:
    """The facts a sub-agent needs in its system prompt; none of its parent's words."""
    return "\n".join(
        [
            f"You are a sub-agent: session {parent.shown} has given you one task, the message you see.",
            f"Your own session is {child}. Work on this task and on nothing else.",
            "Nobody can answer questions meanwhile; decide for yourself and say what you assumed.",
            "Do not write to people and do not begin lasting work, unless the task asks for it.",
            "End with what you found or did, short and complete: your parent gets it when you are done.",
        ]
    )
