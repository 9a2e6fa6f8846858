"""Sub-agents: whom an agent may spawn, and which tools a child has."""

from collections.abc import Collection
from fnmatch import fnmatchcase

from crossclaw.config import Config
from crossclaw.config.agents import Agents
from crossclaw.config.tools import SubagentTools
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision

SPAWN_TOOL = "sessions_spawn"
SESSION_TOOLS = frozenset(
    {
        "sessions_list",
        "sessions_history",
        "sessions_send",
        SPAWN_TOOL,
        "agents_list",
        "session_status",
    }
)


def decide_spawn(agents: Agents, parent: SessionKey, agent_id: str) -> Decision:
    """May a run of this session give a task to a sub-agent of that agent?"""
    if parent.is_subagent:
        return Decision(False, "a sub-agent cannot spawn sub-agents of its own; answer its parent")
    if agent_id == parent.agent_id:
        return Decision(True, "an agent may always spawn its own")
    known = agents.find(parent.agent_id) is not None  # a session may outlive its agent
    allowed = agents.spawn_allowed(parent.agent_id) if known else ()
    if "*" in allowed or agent_id in allowed:
        return Decision(True, f"subagents.allowAgents of {parent.agent_id} names it")
    names = ", ".join([parent.agent_id, *allowed])
    return Decision(
        False,
        f"agent {parent.agent_id} may not spawn {agent_id}; it may spawn: {names}. To allow it, add "
        f'"{agent_id}" to subagents.allowAgents of {parent.agent_id} in agents.list',
    )


def decide_child_tool(settings: SubagentTools, key: SessionKey, tool: str) -> Decision:
    """Children have all tools but the session tools. `allow`, when given, is the whole list; naming
    a session tool gives it back, but never the one that spawns."""
    if not key.is_subagent:
        return Decision(True, "not a sub-agent")
    if tool == SPAWN_TOOL:
        return Decision(False, "a sub-agent cannot spawn")
    policy = settings.tools
    if named(policy.deny, tool):
        return Decision(False, "tools.subagents.tools.deny names it")
    given = (*(policy.allow or ()), *policy.also_allow)
    if tool in SESSION_TOOLS:
        is_named = any(word.strip().lower() in (tool, "group:sessions") for word in given)
        return Decision(
            is_named, "a sub-agent has a session tool only by its name in tools.subagents"
        )
    if policy.allow is not None:
        return Decision(named(given, tool), "tools.subagents.tools.allow is the whole list")
    return Decision(True, "sub-agents have every other tool")


def named(patterns: Collection[str], tool: str) -> bool:
    words = [pattern.strip().lower() for pattern in patterns]
    in_group = tool in SESSION_TOOLS and "group:sessions" in words
    return in_group or any(fnmatchcase(tool, word) for word in words)


def may_use_tool(config: Config, key: SessionKey, authority: Authority, tool: str) -> bool:
    """Asked by the session's key as well as by the run's authority: whoever writes into a child's
    session does not make it more than a child."""
    if not authority.allows_tool(tool) or (tool == SPAWN_TOOL and not authority.may_spawn):
        return False
    return decide_child_tool(config.tools.subagents, key, tool).allowed
