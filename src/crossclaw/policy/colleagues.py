"""Colleagues: the other agents that a session may reach, and how."""

from typing import NamedTuple

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.agent_to_agent import decide_reach
from crossclaw.policy.subagents import decide_spawn
from crossclaw.policy.visibility import decide_visible, viewer_of


class Colleague(NamedTuple):
    agent_id: str
    may_send: bool
    may_spawn: bool


def colleagues(config: Config, key: SessionKey, authority: Authority) -> list[Colleague]:
    """The other agents by their ids. Whether one may be sent to is decided for its main session; to the one that
    all share it is not, from there."""
    viewer = viewer_of(config, key, authority)
    found: list[Colleague] = []
    for agent_id in sorted(config.agents.ids()):
        if agent_id == key.agent_id:
            continue
        main = config.main_key(agent_id)
        sees = main != key and decide_visible(viewer, main, None, frozenset({main.text})).allowed
        reach = decide_reach(
            config.tools.agent_to_agent, key.agent_id, agent_id, "messaging"
        ).allowed
        spawn = authority.may_spawn and decide_spawn(config.agents, key, agent_id).allowed
        if (sees and reach) or spawn:
            found.append(Colleague(agent_id, sees and reach, spawn))
    return found
