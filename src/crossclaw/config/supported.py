"""Settings of OpenClaw that this release cannot keep yet. A lock that is asked for and missing is
refused; ignoring it would let something run free that was meant to be locked in."""

from crossclaw.config.model import Config
from crossclaw.domain.errors import ConfigInvalid


def refuse_unsupported(config: Config) -> None:
    agents = config.agents
    boxed = [each for each in agents.ids() if agents.sandbox_for(each).mode != "off"]
    if boxed:
        raise ConfigInvalid(
            f"sandbox.mode is set for {', '.join(boxed)}, and this release has no sandbox yet; set it "
            "to off to run these agents without one"
        )


def not_yet(config: Config) -> list[str]:
    """Settings that are understood and have no effect in this release. Nothing is unlocked by that."""
    defaults = config.agents.defaults
    found = {
        "agents.defaults.subagents.maxConcurrent: use agents.defaults.maxConcurrent": bool(
            defaults.subagents.max_concurrent
        ),
    }
    return [text for text, is_set in found.items() if is_set]
