"""All models that the config itself names, with their places: what is named is allowed, and a name that no
provider answers to is a warning. A setting with a model in it belongs here, and nowhere else."""

from collections.abc import Iterator

from crossclaw.config.agents import AgentConfig, Model, ModelChoice
from crossclaw.config.model import Config
from crossclaw.domain.aliases import KeyPath


def named_models(config: Config) -> Iterator[tuple[KeyPath, str]]:
    defaults, base = config.agents.defaults, ("agents", "defaults")
    models: dict[KeyPath, Model | None] = {
        (*base, "model"): defaults.model,
        (*base, "imageModel"): defaults.image_model,
        (*base, "subagents", "model"): defaults.subagents.model,
        (*base, "heartbeat", "model"): defaults.heartbeat.model if defaults.heartbeat else None,
        (*base, "compaction", "model"): defaults.compaction.model,
    }
    for path, agent in each_agent(config):
        models[(*path, "model")] = agent.model
        models[(*path, "subagents", "model")] = agent.subagents.model
        models[(*path, "heartbeat", "model")] = agent.heartbeat.model if agent.heartbeat else None
    for index, mapping in enumerate(config.hooks.mappings):
        if "{{" not in (mapping.model or ""):  # one that a request fills in is the request's
            models[("hooks", "mappings", index, "model")] = mapping.model
    for path, model in models.items():
        yield from _references(path, model)


def each_agent(config: Config) -> Iterator[tuple[KeyPath, AgentConfig]]:
    for index, agent in enumerate(config.agents.listed):
        yield ("agents", "list", index), agent
    for name, agent in config.agents.named.items():
        yield ("agents", "entries", name), agent


def _references(path: KeyPath, model: Model | None) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(model, ModelChoice):
        if model.primary:
            yield (*path, "primary"), model.primary
        for index, reference in enumerate(model.fallbacks or ()):
            yield (*path, "fallbacks", index), reference
    elif model:
        yield path, model
