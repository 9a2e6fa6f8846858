"""Answering: whether there is an agent to answer in a session.

A session may outlive its agent's place in the config. It is then listed, read, exported, archived and deleted
like any other, also when it was its agent's main one; only nobody answers in it.
"""

from crossclaw.config.agents import Agents
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision


def is_gone(agents: Agents, key: SessionKey) -> bool:
    """Whether the session's agent is no longer configured; a guest answers for itself."""
    return not (key.agent_id in agents.by_id or key.is_guest)


def decide_answers(agents: Agents, key: SessionKey) -> Decision:
    if not is_gone(agents, key):
        return Decision(True, "there is somebody who answers")
    return Decision(
        False,
        f'the agent "{key.agent_id}" is no longer configured, so nobody answers in {key.shown}; put '
        f"it back (crossclaw agents add {key.agent_id}), or delete the session "
        f"(crossclaw sessions delete {key.shown})",
    )


def is_lasting(agents: Agents, key: SessionKey) -> bool:
    """Whether a session is neither archived nor deleted: an agent's main one, as long as the agent is there."""
    return key.kind == "main" and not is_gone(agents, key)
