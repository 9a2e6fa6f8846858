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
    if config.tools.sessions.visibility != "all":
        raise ConfigInvalid(
            "tools.sessions.visibility can only be all in this release; the narrower ones come with "
            "the complete session tools"
        )
    if config.hooks.enabled and any(mapping.transform for mapping in config.hooks.mappings):
        raise ConfigInvalid(
            "hooks.mappings[].transform names a module of Node.js, which cannot run here; what it does "
            "must be said with messageTemplate, textTemplate and match, or by a program in between"
        )


def not_yet(config: Config) -> list[str]:
    """Settings that are understood and have no effect in this release. Nothing is unlocked by that."""
    session, defaults = config.session, config.agents.defaults
    resets = session.reset or session.idle_minutes or session.reset_by_channel
    found = {
        "session.reset: sessions are not reset by themselves yet": bool(resets),
        "agents.defaults.thinkingDefault: choose the level in each message or session": bool(
            defaults.thinking_default
        ),
    }
    return [text for text, is_set in found.items() if is_set]
