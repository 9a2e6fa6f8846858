"""Two small session tools: which agents may be reached, and a session's status."""

from crossclaw.config.agents import AgentConfig
from crossclaw.domain.errors import Forbidden
from crossclaw.domain.sessions import Session
from crossclaw.door.registry import Caller, Params, Result
from crossclaw.door.resolver import Resolver, Right
from crossclaw.policy.colleagues import Colleague, colleagues
from crossclaw.policy.tools import provider_rules
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.budgets import Budgets
from crossclaw.sessions.changing import Changing
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.sessions.introductions import Introduction, Introductions

AS_CONFIGURED = ("default", "")
"""Words that remove a session's own model choice."""


class AgentsParams(Params, frozen=True):
    pass


class AgentRow(Result, frozen=True):
    id: str
    configured: bool
    can_send: bool
    """Whether sessions_send reaches its main session."""
    can_spawn: bool
    """Whether sessions_spawn may spawn it."""
    session_key: str | None = None
    """The agent's main session, if it can be sent to."""
    exists: bool | None = None
    """Whether that session has begun; sending to it begins it."""
    name: str | None = None
    description: str | None = None


class AgentsResult(Result, frozen=True):
    requester: str
    allow_any: bool
    agents: list[AgentRow]


class SessionStatusParams(Params, frozen=True):
    session_key: str | None = None
    model: str | None = None


class SessionStatusResult(Result, frozen=True):
    ok: bool
    session_key: str
    changed_model: bool
    status_text: str


class SessionStatus:
    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        changing: Changing,
        models: ModelChoices,
        budgets: Budgets,
        introductions: Introductions,
    ) -> None:
        self._introductions = introductions
        self._config = context.config
        self._ledger = context.ledger
        self._resolver = resolver
        self._changing = changing
        self._models = models
        self._budgets = budgets

    async def agents(self, caller: Caller, params: AgentsParams) -> AgentsResult:
        """The caller's agent first, then the others that it may reach, and how."""
        agents, principal = self._config.agents, caller.principal
        own = principal.agent_id or agents.default_id
        key = principal.session or self._config.main_key(own)
        allowed = agents.spawn_allowed(own)
        found = {each.agent_id: each for each in colleagues(self._config, key, principal.authority)}
        others = {*found, *(set(agents.ids()) if "*" in allowed else set(allowed))}
        names = [own, *sorted(others - {own, "*"})]
        known = await self._introductions.of(each for each in names if each in found)
        rows = [
            await self._agent_row(each, found.get(each), own, known.get(each)) for each in names
        ]
        return AgentsResult(requester=own, allow_any="*" in allowed, agents=rows)

    async def _agent_row(
        self, agent_id: str, found: Colleague | None, own: str, known: Introduction | None
    ) -> AgentRow:
        agent, is_own = self._config.agents.find(agent_id), agent_id == own
        main = self._config.main_key(agent_id) if is_own or (found and found.may_send) else None
        return AgentRow(
            id=agent_id,
            configured=agent is not None,
            name=agent.name if agent else None,
            description=_description(agent, known),
            can_send=found.may_send if found else False,
            session_key=main.display(own) if main else None,
            exists=await self._ledger.find_session(main) is not None if main else None,
            can_spawn=is_own or agent is None or bool(found and found.may_spawn),
        )

    async def status(self, caller: Caller, params: SessionStatusParams) -> SessionStatusResult:
        right: Right = "see" if params.model is None else "change"
        session = await self._resolver.get_session(caller.principal, params.session_key, right)
        if params.model is not None:
            session = await self._set_model(caller, session, params.model.strip())
        return SessionStatusResult(
            ok=True,
            session_key=session.key.display(caller.principal.agent_id),
            changed_model=params.model is not None,
            status_text=await self.text(session, caller.principal.agent_id),
        )

    async def _set_model(self, caller: Caller, session: Session, name: str) -> Session:
        chosen = None if name in AS_CONFIGURED else self._models.check(name, "unrecognized model")
        if not self._resolver.sees_everything(caller.principal):
            self._refuse_escape(session, chosen)
        return await self._changing.patch(session.key, {"model": chosen})

    def _refuse_escape(self, session: Session, chosen: str | None) -> None:
        """Refuses a model that would escape the rules for the model in use."""
        agent_id = session.key.agent_id
        before, after = (
            provider_rules(self._config, agent_id, self._models.in_use(agent_id, model))
            for model in (session.model, chosen)
        )
        if escaped := before - after:
            raise Forbidden(
                f"{', '.join(sorted(escaped))} holds for this session's model; only the owner may choose a"
                " model for which it does not (/model)"
            )

    async def text(self, session: Session, agent_id: str | None) -> str:
        """A card of a few lines, for a model and for `/status`."""
        open_runs = await self._ledger.list_open_runs(session.key)
        children = await self._ledger.list_spawns(session.key, open_only=True)
        budget = (await self._budgets.of([session.key])).get(session.key)
        queued = sum(run.status == "queued" for run in open_runs)
        doing = next((run.status for run in open_runs if run.status != "queued"), "idle")
        lines = {
            "Session": f"{session.key.display(agent_id)} ({session.session_id})",
            "State": f"{doing}, {queued} queued" if queued else doing,
            "Model": self._models.in_use(session.key.agent_id, session.model),
            "Not in use": self._models.fault(session.model),
            "Thinking": session.thinking,
            "Verbose": session.verbose or self._config.agents.verbose_for(session.key.agent_id),
            "Tokens": _tokens(session),
            "Cost": f"${session.cost_usd:.4f}" if session.cost_usd else None,
            "Budget": budget and budget.text,
            "Send policy": session.send_policy,
            "Sub-agents": f"{len(children)} at work" if children else None,
            "Archived": "yes" if session.archived_at is not None else None,
        }
        return "\n".join(f"{name}: {value}" for name, value in lines.items() if value)


def _description(agent: AgentConfig | None, known: Introduction | None) -> str | None:
    """The agent's introduction, unless its name says the same."""
    if agent is None or known is None or known.text in ("", agent.name):
        return None
    return known.text


def _tokens(session: Session) -> str:
    window = f" of {session.context_tokens}" if session.context_tokens else ""
    total = f"{session.total_tokens}{window} in the window"
    return f"{total}; {session.input_tokens} in, {session.output_tokens} out since it began"
