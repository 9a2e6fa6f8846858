"""Settings of OpenClaw that this release cannot keep yet. A lock that is asked for and missing is
refused; ignoring it would let something run free that was meant to be locked in."""

from crossclaw.config.heartbeat import EVERY, HeartbeatConfig
from crossclaw.config.model import Config
from crossclaw.config.tools import ExecTool
from crossclaw.domain.durations import parse_duration
from crossclaw.domain.errors import ConfigInvalid, Invalid


def refuse_unsupported(config: Config) -> None:
    for agent_id in config.agents.ids():
        _refuse_exec_locks(agent_id, config.agents.exec_for(agent_id, config.tools.exec))
    for agent_id, settings in config.agents.heartbeats().items():
        _refuse_odd_heartbeat(agent_id, settings)
    if config.hooks.enabled and not config.hooks.token:
        raise ConfigInvalid("hooks.enabled needs hooks.token: a random text of 32 characters")
    if config.hooks.enabled and config.hooks.base_path == "/":
        raise ConfigInvalid("hooks.path must not be /; /hooks is usual")
    if config.hooks.enabled and any(mapping.transform for mapping in config.hooks.mappings):
        raise ConfigInvalid(
            "hooks.mappings[].transform names a module of Node.js, which cannot run here; what it does "
            "must be said with messageTemplate, textTemplate and match, or by a program in between"
        )


def _refuse_odd_heartbeat(agent_id: str, settings: HeartbeatConfig) -> None:
    try:
        parse_duration(settings.every or EVERY, default_unit="m")
    except Invalid as error:
        raise ConfigInvalid(f"heartbeat.every of agent {agent_id}: {error}") from None


def _refuse_exec_locks(agent_id: str, settings: ExecTool) -> None:
    asked = {
        "security": settings.security == "allowlist",
        "ask": settings.ask not in (None, "off"),
        "mode": settings.mode not in (None, "deny", "full"),
        "host": settings.host == "node",
    }
    for name in (name for name, is_set in asked.items() if is_set):
        raise ConfigInvalid(
            f"tools.exec.{name} of agent {agent_id} asks for allow lists, approvals or nodes, which "
            "this release has not; use tools.exec.security deny or full, or "
            "agents.defaults.sandbox.mode all to lock commands in"
        )


def not_yet(config: Config) -> list[str]:
    """Settings that are understood and have no effect in this release. Nothing is unlocked by that."""
    defaults = config.agents.defaults
    found = {
        "agents.defaults.subagents.maxConcurrent: use agents.defaults.maxConcurrent": bool(
            defaults.subagents.max_concurrent
        ),
        "gateway.tls.enabled: this gateway speaks no TLS yet; put a proxy in front": (
            config.gateway.tls.enabled
        ),
    }
    chats = [name for name in config.channels if name != "defaults"]
    quiet = [
        f"channels.{name}: this release has no adapter for that platform yet" for name in chats
    ]
    return [*(text for text, is_set in found.items() if is_set), *quiet]
