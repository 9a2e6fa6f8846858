"""Agent to agent: may one agent reach into another's sessions?"""

from fnmatch import fnmatchcase

from crossclaw.config.tools import AgentToAgent
from crossclaw.policy.decision import Decision


def decide_reach(settings: AgentToAgent, requester: str, target: str, verb: str) -> Decision:
    """`verb` is what is wanted: messaging, history, listing, status."""
    if requester == target:
        return Decision(True, "the same agent")
    if not settings.enabled:
        return Decision(
            False,
            f"agent-to-agent {verb} is switched off; set tools.agentToAgent.enabled=true to allow it",
        )
    for agent_id in (requester, target):
        if settings.allow and not any(_fits(pattern, agent_id) for pattern in settings.allow):
            return Decision(
                False,
                f"agent-to-agent {verb} is denied: tools.agentToAgent.allow does not name {agent_id}",
            )
    return Decision(True, "tools.agentToAgent allows it")


def _fits(pattern: str, agent_id: str) -> bool:
    return fnmatchcase(agent_id, pattern.lower()) if "*" in pattern else pattern == agent_id
