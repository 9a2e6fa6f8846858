"""Settings of OpenClaw that this release cannot keep. A lock that is asked for and missing is never
ignored: where it can be kept by closing more (commands that would need a node are denied), the gateway
starts and says so; otherwise it is refused, with the line that says it."""

from collections.abc import Iterator

from crossclaw.config.check import ConfigFinding, Note, Problem
from crossclaw.config.heartbeat import EVERY
from crossclaw.config.hooks import PRESETS
from crossclaw.config.model import Config
from crossclaw.config.named_models import each_agent
from crossclaw.config.tools import ExecTool
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.durations import parse_duration
from crossclaw.domain.errors import ConfigInvalid, Invalid


def unsupported(config: Config) -> Iterator[ConfigFinding]:
    yield from _odd_heartbeats(config)
    yield from _exec_locks(config)
    yield from _odd_ages(config)
    hooks = config.hooks
    if hooks.enabled and not hooks.token:
        text = "hooks.enabled needs hooks.token: a random text of 32 characters"
        yield Problem(("hooks", "enabled"), text)
    if hooks.enabled and hooks.base_path == "/":
        yield Problem(("hooks", "path"), "hooks.path must not be /; /hooks is usual")
    for index, name in enumerate(hooks.presets):
        if name not in PRESETS:
            known = ", ".join(PRESETS)
            yield Problem(
                ("hooks", "presets", index), f"there is no preset {name!r}; known: {known}"
            )
    for index, mapping in enumerate(hooks.mappings if hooks.enabled else ()):
        if mapping.transform:
            yield Note(
                ("hooks", "mappings", index, "transform"),
                "names a module of Node.js, which cannot run here, so requests to this mapping are refused (501); "
                "what it does can be said with messageTemplate, textTemplate and match, or by a program in between",
            )


def refuse_unsupported(config: Config) -> None:
    """Refuses a config that did not come from a file; what `load` reads was checked there."""
    for finding in unsupported(config):
        if isinstance(finding, Problem):
            raise ConfigInvalid(finding.text)


def _odd_ages(config: Config) -> Iterator[ConfigFinding]:
    settings = config.session.maintenance
    for name in ("archive_after_ms", "delete_after_ms"):
        try:
            getattr(settings, name)
        except Invalid as error:
            yield Problem(("session", "maintenance"), f"session.maintenance: {error}")


def _odd_heartbeats(config: Config) -> Iterator[ConfigFinding]:
    defaults: KeyPath = ("agents", "defaults")
    where = {agent.id: path for path, agent in each_agent(config) if agent.heartbeat}
    for agent_id, settings in config.agents.heartbeats().items():
        try:
            parse_duration(settings.every or EVERY, default_unit="m")
        except Invalid as error:
            path = (*where.get(agent_id, defaults), "heartbeat", "every")
            yield Problem(path, f"heartbeat.every of agent {agent_id}: {error}")


def _exec_locks(config: Config) -> Iterator[ConfigFinding]:
    found: list[tuple[KeyPath, ExecTool]] = [(("tools", "exec"), config.tools.exec)]
    found += [((*path, "tools", "exec"), agent.tools.exec) for path, agent in each_agent(config)]
    for path, settings in found:
        if settings.host == "node":
            yield Note(
                (*path, "host"),
                "there are no nodes for commands yet, so agents that would need one may run no commands; "
                "agents.defaults.sandbox.mode all locks their commands in",
            )
