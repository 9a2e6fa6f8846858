"""About the gateway: is it well, who is here, which agents and models."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import anyio.to_thread
import msgspec

from crossclaw.config import Config
from crossclaw.config.heartbeat import EVERY
from crossclaw.config.openclaw_here import find_unimported
from crossclaw.disk.growth import StoreGrowth
from crossclaw.domain.durations import parse_duration
from crossclaw.domain.sessions import Session
from crossclaw.domain.sight import EVERYTHING
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.gateway.publisher import shown_key
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.choosing import ModelChoices

RECENT = 10  # sessions that health and status name
HEALTH_FOR_MS = 2_000  # counting a million sessions is not free; clients ask often


class HealthParams(Params, frozen=True):
    probe: bool | None = None


class HealthStatusParams(Params, frozen=True):
    include_channel_summary: bool | None = None
    """Accepted and not needed: the summary is always there."""


class AgentListing(Result, frozen=True):
    default_id: str
    main_key: str
    scope: str
    agents: list[dict[str, Any]]


class ModelsResult(Result, frozen=True):
    models: list[dict[str, Any]]


class ModelsParams(Params, frozen=True):
    """OpenClaw's clients narrow the list or ask to look anew; ours is short and always fresh."""

    agent_id: str | None = None
    provider: str | None = None
    view: str | None = None
    refresh: bool | None = None
    include_details: bool | None = None
    prepared_only: bool | None = None
    include_provider_capabilities: bool | None = None


class About:
    def __init__(
        self,
        context: ServiceContext,
        environ: Mapping[str, str],
        models: ModelChoices,
        channels: Collection[str],
        presence: Callable[[], list[dict[str, Any]]],
        growth: StoreGrowth,
    ) -> None:
        self._growth = growth
        self._config = context.config
        self._environ = environ
        self._ledger = context.ledger
        self._models = models
        self._channels = channels
        self._clock = context.clock
        self._presence = presence
        self._store = growth.path
        self._health: dict[str, Any] = {}

    @method("health", "operator.read", "read", "Is the gateway well?")
    async def health(self, caller: Caller, params: HealthParams) -> dict[str, Any]:
        return await self.snapshot()

    async def snapshot(self) -> dict[str, Any]:
        now = self._clock.now_ms()
        if self._health and now - self._health["ts"] < HEALTH_FOR_MS:
            return self._health
        agents = self._config.agents
        # One look for all: each is a thread's, and on a busy gateway its answer waits for its turn.
        counts = await self._ledger.count_sessions_of_agents()
        by_agent = {
            agent_id: await self._stored(now, counts.get(agent_id, 0), agent_id)
            for agent_id in agents.ids()
        }
        everything = await self._stored(now, sum(counts.values()))
        self._health = {
            "ok": True,
            "ts": now,
            "durationMs": self._clock.now_ms() - now,
            "channels": {name: {"configured": True} for name in self._channels},
            "channelOrder": list(self._channels),
            "channelLabels": {name: name.capitalize() for name in self._channels},
            "heartbeatSeconds": self._heartbeat(agents.default_id)["everyMs"] // 1000,
            "defaultAgentId": agents.default_id,
            "agents": [
                {
                    "agentId": agent_id,
                    "isDefault": agent_id == agents.default_id,
                    "heartbeat": self._heartbeat(agent_id),
                    "sessions": stored,
                }
                for agent_id, stored in by_agent.items()
            ],
            "sessions": everything,
        }
        return self._health

    def _heartbeat(self, agent_id: str) -> dict[str, Any]:
        settings = self._config.agents.heartbeats().get(agent_id)
        every = (settings.every or EVERY) if settings else "off"
        return {
            "enabled": settings is not None,
            "every": every,
            "everyMs": parse_duration(every, default_unit="m") if settings else 0,
            "prompt": settings.prompt or "" if settings else "",
            "target": settings.target or "last" if settings else "none",
            "ackMaxChars": settings.ack_chars_max if settings else 0,
        }

    async def _stored(self, now: int, count: int, agent_id: str | None = None) -> dict[str, Any]:
        recent = await self._ledger.list_sessions(limit=RECENT, agent_id=agent_id, sight=EVERYTHING)
        return {
            "path": str(self._store),
            "count": count,
            "recent": [self._brief(session, now) for session in recent],
        }

    def _brief(self, session: Session, now: int) -> dict[str, Any]:
        age = max(0, now - session.updated_at)
        return {"key": shown_key(session.key), "updatedAt": session.updated_at, "age": age}

    def key_faults(self) -> list[str]:
        """Faults of models that cannot answer for want of a key: which agents use them, and what to do."""
        users: dict[str, list[str]] = {}
        for agent_id in self._config.agents.ids():
            model = self._config.model_for(agent_id, self._environ).primary
            users.setdefault(model, []).append(agent_id)
        return [
            f"the model of {', '.join(agents)}, {model}, cannot answer: {fault}"
            for model, agents in users.items()
            if (fault := self._models.key_fault(model))
        ]

    @method("status", "operator.read", "read", "Model, channels and recent sessions.")
    async def status(self, caller: Caller, params: HealthStatusParams) -> dict[str, Any]:
        agents = self._config.agents
        model = self._default_model()
        beats = [{"agentId": each, **self._heartbeat(each)} for each in agents.ids()]
        return {
            "heartbeat": {"defaultAgentId": agents.default_id, "agents": beats},
            "channelSummary": list(self._channels),
            "queuedSystemEvents": [],
            "model": model,
            "rehearsal": model.startswith("rehearsal/"),
            "modelFault": self._models.key_fault(model),
            "unimported": await anyio.to_thread.run_sync(find_unimported, self._store.parent),
            "disk": msgspec.to_builtins(await self._growth.look()),
            "sessions": await self._sessions(model),
        }

    def _default_model(self) -> str:
        return self._config.model_for(self._config.agents.default_id, self._environ).primary

    async def _sessions(self, model: str) -> dict[str, Any]:
        """How many there are, and the newest of them."""
        now = self._clock.now_ms()
        recent = await self._ledger.list_sessions(limit=RECENT, sight=EVERYTHING)
        tokens = self._config.agents.defaults.context_tokens
        return {
            "paths": [str(self._store)],
            "count": await self._ledger.count_sessions(sight=EVERYTHING),
            "defaults": {"model": model, "contextTokens": tokens},
            "recent": [self._recent(session, now) for session in recent],
            "byAgent": [],
        }

    def _recent(self, session: Session, now: int) -> dict[str, Any]:
        return {
            **self._brief(session, now),
            "kind": "group" if session.key.kind == "group" else "direct",
            "sessionId": session.session_id,
            "model": self._models.in_use(session.key.agent_id, session.model),
            "totalTokens": session.total_tokens,
        }

    @method("agents.list", "operator.read", "read", "The configured agents.")
    async def agents(self, caller: Caller, params: NoParams) -> AgentListing:
        agents = self._config.agents
        return AgentListing(
            default_id=agents.default_id,
            main_key="main",
            scope=self._config.session.scope,
            agents=[
                {"id": agent.id, **({"name": agent.name} if agent.name else {})}
                for agent in agents.all()
            ],
        )

    @method("models.list", "operator.read", "read", "The models that may be chosen.")
    async def models(self, caller: Caller, params: ModelsParams) -> ModelsResult:
        """The default first; only what may be chosen."""
        models = self._choosable_models().values()
        wanted = [each for each in models if params.provider in (None, each["provider"])]
        return ModelsResult(models=wanted)

    def _choosable_models(self) -> dict[str, dict[str, Any]]:
        """The models that may be chosen, by `provider/model`, the default first."""
        known, chosen = self._known_models(), self._default_model()
        allowed = [each for each in self._models.allowed() if not each.endswith("/*")]
        unlisted = [each for each in (chosen, *allowed) if each not in known]
        listed = {each: _named_model(self._config, each) for each in unlisted} | {
            each: row for each, row in known.items() if self._models.fault(each) is None
        }
        listed[chosen]["tags"] = ["default"]
        for alias, reference in self._config.agents.aliases().items():
            if reference in listed:
                listed[reference]["alias"] = alias
        return listed

    def _known_models(self) -> dict[str, dict[str, Any]]:
        """The models in the providers' own lists, by `provider/model`."""
        return {
            f"{provider}/{model.id}": {
                "id": model.id,
                "name": model.name or model.id,
                "provider": provider,
                **_facts(self._config, f"{provider}/{model.id}"),
            }
            for provider, entry in self._config.models.providers.items()
            for model in entry.models
        }

    @method("system-presence", "operator.read", "read", "Who is connected.")
    async def system_presence(self, caller: Caller, params: NoParams) -> list[dict[str, Any]]:
        return self._presence()


def _facts(config: Config, model: str) -> dict[str, Any]:
    facts = config.facts_for(model)
    return {
        "contextWindow": facts.window,
        "reasoning": facts.thinks,
        "input": ["text", "image"] if facts.pictures else ["text"],
    }


def _named_model(config: Config, reference: str) -> dict[str, Any]:
    """A model that no provider lists."""
    provider, _, model_id = reference.partition("/")
    return {"id": model_id, "name": model_id, "provider": provider} | _facts(config, reference)
