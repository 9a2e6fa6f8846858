"""Sub-agents: which agents an agent may spawn, and which tools a child has."""

from crossclaw.config.agents import Agents
from crossclaw.config.tools import SubagentTools
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.tools import ToolDeclaration
from crossclaw.policy.decision import Decision
from crossclaw.policy.tools import Layer

SPAWN_TOOL = "sessions_spawn"
NO_SPAWN = Layer("being a sub-agent", deny=(SPAWN_TOOL,))


def decide_spawn(agents: Agents, parent: SessionKey, agent_id: str) -> Decision:
    """Decides whether a run of this session may give a task to a sub-agent of that agent."""
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


def child_layers(settings: SubagentTools) -> tuple[Layer, ...]:
    """The layers of a child's tools. Children have the tools that declare so: all but the session tools.
    `allow`, when given, is the whole list; naming a session tool gives it back, but never the one that
    spawns."""
    policy = settings.tools
    given = (*(policy.allow or ()), *policy.also_allow)
    named = tuple(word for word in given if "*" not in word)
    whole = None if policy.allow is None else given
    return (
        Layer("tools.subagents.tools", whole, policy.deny),
        Layer(
            "being a sub-agent (see tools.subagents.tools)", closed=_not_for_children, unless=named
        ),
        NO_SPAWN,
    )


def _not_for_children(tool: ToolDeclaration) -> bool:
    return not tool.children
