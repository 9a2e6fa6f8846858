"""The config in force: secrets and rules change at once, everything else with the next opening.

A running gateway has one of these, and whoever decides what may be done holds it and reads it when the
decision is made. A section that was taken out of it and kept is what held before: `tests/unit/
test_rules_are_read_when_used.py` looks for that in the source.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from crossclaw.config.agents import AgentConfig, Agents
from crossclaw.config.gateway import GatewayConfig
from crossclaw.config.hooks import HooksConfig
from crossclaw.config.model import Config
from crossclaw.config.session import SessionConfig
from crossclaw.domain.aliases import Callback
from crossclaw.domain.models import ListedModel, ModelFacts


class CurrentConfig(Config, frozen=False):  # type: ignore[misc]
    """A config whose rules are replaced in place."""

    epoch: int = 1
    """Grows with every change of the rules: what was worked out from older ones is worked out anew."""
    listeners: list[Callback] = msgspec.field(default_factory=list)
    """Called after every change, for what is under way by the older ones."""
    listed: dict[str, ListedModel] = msgspec.field(default_factory=dict)
    """Facts from servers about their models, by `provider/model`, as far as they were asked."""

    @classmethod
    def of(cls, config: Config) -> "CurrentConfig":
        if isinstance(config, cls):
            return config
        return cls(**_fields(config))

    def listen(self, listener: Callback) -> None:
        """Called after every change of the rules."""
        self.listeners.append(listener)

    def facts_for(self, model: str) -> ModelFacts:
        return self.facts_with(model, self.listed.get(model))

    def redacted(self) -> dict[str, Any]:
        return Config(**_fields(self)).redacted()

    def take_rules(self, fresh: Config) -> bool:
        """Puts the secrets and rules of another config in force; returns whether that changes anything."""
        changes = rules_of(fresh, self)
        if all(getattr(self, name) == value for name, value in changes.items()):
            return False
        for name, value in changes.items():
            setattr(self, name, value)
        self.epoch += 1
        for listener in self.listeners:
            listener()
        return True


def needs_opening(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a changed config takes effect only in a gateway that is opened anew. Chat accounts are opened
    and closed one by one."""
    return _without_channels(before) != _without_channels(now)


def _without_channels(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: section for name, section in raw.items() if name != "channels"}


def _fields(config: Config) -> dict[str, Any]:
    return {name: getattr(config, name) for name in Config.__struct_fields__}


def rules_of(fresh: Config, before: Config) -> dict[str, Any]:
    """The sections with rules and secrets from `fresh`; the rest as it was `before`."""
    return {
        "tools": fresh.tools,
        "commands": fresh.commands,
        "session": _session(fresh.session, before.session),
        "gateway": _gateway(fresh.gateway, before.gateway),
        "hooks": _hooks(fresh.hooks, before.hooks),
        "agents": _agents(fresh.agents, before.agents),
        "channels": fresh.channels,
    }


def _session(fresh: SessionConfig, before: SessionConfig) -> SessionConfig:
    return msgspec.structs.replace(
        before, send_policy=fresh.send_policy, agent_to_agent=fresh.agent_to_agent
    )


def _gateway(fresh: GatewayConfig, before: GatewayConfig) -> GatewayConfig:
    return msgspec.structs.replace(
        before, auth=fresh.auth, tools=fresh.tools, nodes=fresh.nodes, guests=fresh.guests
    )


def _hooks(fresh: HooksConfig, before: HooksConfig) -> HooksConfig:
    """The hooks with changed access rules; their path and mappings wait for the next opening."""
    return msgspec.structs.replace(fresh, path=before.path, mappings=before.mappings)


def _agents(fresh: Agents, before: Agents) -> Agents:
    """The agents with changed rules. An agent that comes or goes waits for the next opening."""
    defaults = msgspec.structs.replace(
        before.defaults,
        sandbox=fresh.defaults.sandbox,
        models=fresh.defaults.models,
        budget=fresh.defaults.budget,
        subagents=fresh.defaults.subagents,
    )
    return msgspec.structs.replace(
        before,
        defaults=defaults,
        listed=tuple(_agent(each, fresh) for each in before.listed),
        named={name: _agent(each, fresh, name) for name, each in before.named.items()},
    )


def _agent(before: AgentConfig, agents: Agents, name: str | None = None) -> AgentConfig:
    fresh = agents.find(before.id or name or "")
    if fresh is None:
        return before
    return msgspec.structs.replace(
        before,
        tools=fresh.tools,
        sandbox=fresh.sandbox,
        subagents=fresh.subagents,
        budget=fresh.budget,
    )
