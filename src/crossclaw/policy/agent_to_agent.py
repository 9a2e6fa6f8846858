"""Agent to agent: may one agent reach into another's sessions?"""

import re

from crossclaw.config.tools import AgentToAgent
from crossclaw.policy.decision import Decision


def decide_reach(settings: AgentToAgent, requester: str, target: str, verb: str) -> Decision:
    """Decides whether one agent may reach another. `verb` is what is wanted: messaging, history, listing, status."""
    if requester == target:
        return Decision(True, "the same agent")
    if not settings.enabled:
        return Decision(
            False,
            f"agent-to-agent {verb} is switched off; set tools.agentToAgent.enabled=true to allow it",
        )
    for agent_id in (requester, target):
        if not _named(settings, agent_id):
            return Decision(
                False,
                f"agent-to-agent {verb} is denied: tools.agentToAgent.allow does not name {agent_id}",
            )
    return Decision(True, "tools.agentToAgent allows it")


def reachable(settings: AgentToAgent, requester: str) -> tuple[str, ...] | None:
    """The agents that one may reach by `decide_reach`, as names and patterns; None is everybody."""
    if not settings.enabled or not _named(settings, requester):
        return (requester,)
    if not settings.allow or "*" in settings.allow:
        return None
    return (requester, *(each.lower() if "*" in each else each for each in settings.allow))


def _named(settings: AgentToAgent, agent_id: str) -> bool:
    return not settings.allow or any(_fits(pattern, agent_id) for pattern in settings.allow)


def _fits(pattern: str, agent_id: str) -> bool:
    """Whether an agent fits a name, letter by letter, or a pattern in which only `*` is special."""
    if "*" not in pattern:
        return pattern == agent_id
    parts = map(re.escape, pattern.lower().split("*"))
    return re.fullmatch(".*".join(parts), agent_id) is not None
