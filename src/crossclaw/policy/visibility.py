"""Visibility: which sessions a session may see. The same rule for one session, with its reason, and for all
of them, as a sight that the ledger's reads take into their query."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Literal

import msgspec

from crossclaw.config import Config
from crossclaw.config.tools import AgentToAgent
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import InvalidKey
from crossclaw.domain.keys import SHARED, SessionKey
from crossclaw.domain.sight import Partners, Sight
from crossclaw.policy.agent_to_agent import decide_reach, reachable
from crossclaw.policy.decision import Decision
from crossclaw.policy.sandbox import sandbox_of, why_sandboxed

VisibilityMode = Literal["spawned", "self", "tree", "agent", "all", "partners"]


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """A session that looks at others, and how far the settings let it see."""

    key: SessionKey
    mode: VisibilityMode
    reach: AgentToAgent = AgentToAgent()
    sandboxed: bool = False
    roots: frozenset[str] | None = None
    given: frozenset[str] = frozenset()
    """The sessions that the owner gave a guest as partners."""

    @property
    def needs_line(self) -> bool:
        """Whether a decision depends on who is above a session."""
        return self.mode == "tree" or self.roots is not None

    @property
    def knows_paths(self) -> bool:
        """Whether paths of this machine mean anything to it: a sandboxed session and a guest work elsewhere."""
        return not (self.sandboxed or self.key.is_guest)

    @property
    def sees_every_agent(self) -> bool:
        free = reachable(self.reach, self.key.agent_id) is None
        return free and self.mode == "all" and self.roots is None


def viewer_of(config: Config, key: SessionKey, authority: Authority) -> Viewer:
    sandboxed = why_sandboxed(config.agents, key, authority) is not None
    boxed = sandboxed and sandbox_of(config.agents, key).session_tools_visibility == "spawned"
    given = given_to_guest(config, key) if key.is_guest else frozenset()
    mode: VisibilityMode = "spawned" if boxed else config.tools.sessions.visibility
    if key.is_guest and ANY not in given:
        mode = "partners"
    return Viewer(
        key=key,
        mode=mode,
        reach=config.tools.agent_to_agent,
        sandboxed=sandboxed,
        roots=authority.roots,
        given=given,
    )


ANY = "*"


def given_to_guest(config: Config, key: SessionKey) -> frozenset[str]:
    """The keys of sessions that the owner gave a guest as partners; `*` among them: as to a session of
    its agent."""
    settings = config.gateway.guests.sessions
    named = (*settings.get(key.name.removeprefix("mcp:"), ()), *settings.get(ANY, ()))
    return _keys(config, named)


def given_to_node(config: Config, node_id: str) -> frozenset[str]:
    """The keys of a node's own session and of those that the owner bound to it."""
    own = SessionKey.node(config.agents.default_id, node_id)
    return _keys(config, config.gateway.nodes.sessions.get(node_id, ())) | {own.text}


def _keys(config: Config, written: Iterable[str]) -> frozenset[str]:
    """The keys as people write them in a config. One that is no key gives nothing."""
    found = set()
    for text in written:
        if text.strip() == ANY:
            found.add(ANY)
            continue
        with suppress(InvalidKey):
            key = SessionKey.parse(text.strip(), agent_id=config.agents.default_id)
            found.add(config.meant_key(key).text)
    return frozenset(found)


def decide_visible(
    viewer: Viewer,
    target: SessionKey,
    spawned_by: str | None,
    line: frozenset[str],
    have_talked: bool = False,
) -> Decision:
    """Decides whether a session may be seen. `line` is the target and everything above it; only viewers that
    need it look at it. Only guests look at `have_talked`, whether the two have exchanged messages."""
    own = viewer.key
    # The shared session is every agent's own main one.
    agent_id = own.agent_id if target.text == SHARED else target.agent_id
    reach = decide_reach(viewer.reach, own.agent_id, agent_id, "listing")
    if not reach.allowed:
        return reach
    if viewer.roots is not None and not viewer.roots & line:
        return Decision(False, "the authority of this run is limited to other trees of sessions")
    match viewer.mode:
        case "spawned":
            return Decision(
                spawned_by == own.text,
                "sandboxed: only sessions that it spawned itself (sandbox.sessionToolsVisibility)",
            )
        case "self":
            return Decision(target == own, _mode("self", "its own session alone"))
        case "tree":
            return Decision(own.text in line, _mode("tree", "itself and what is below it"))
        case "agent":
            same = agent_id == own.agent_id
            return Decision(same, _mode("agent", "the sessions of its own agent"))
        case "all":
            return Decision(True, _mode("all", "everything that tools.agentToAgent lets reach"))
        case "partners":
            is_partner = target.text in viewer.given or have_talked or spawned_by == own.text
            return Decision(
                target == own or is_partner,
                "a guest sees itself, who has sent to it, and whom gateway.guests.sessions gives it",
            )


def _mode(mode: str, meaning: str) -> str:
    return f"tools.sessions.visibility is {mode}: {meaning}"


def sight_of(viewer: Viewer) -> Sight:
    """The sight that `decide_visible` allows, for all sessions at once."""
    own, agents = viewer.key, reachable(viewer.reach, viewer.key.agent_id)
    trees = () if viewer.roots is None else (viewer.roots,)
    match viewer.mode:
        case "spawned":
            return Sight(agents=agents, spawned_by=own.text, trees=trees)
        case "self":
            return Sight(key=own.text, trees=trees)
        case "tree":
            return Sight(agents=agents, trees=(frozenset({own.text}), *trees))
        case "agent":
            return Sight(agents=(own.agent_id,), trees=trees)
        case "all":
            return Sight(everything=agents is None and not trees, agents=agents, trees=trees)
        case "partners":
            return Sight(agents=agents, trees=trees, partners=Partners(own.text, viewer.given))
