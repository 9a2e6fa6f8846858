"""The sandbox: whether a run is confined. One answer for session tools, for files and for programs."""

from crossclaw.config.agents import Agents, SandboxConfig
from crossclaw.domain.authority import Authority, Delegator
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision

_LOCKED_IN = Authority(owner=True, sandboxed=True)  # takes nothing else away


def decide_sandbox(settings: SandboxConfig, key: SessionKey, authority: Authority) -> Decision:
    """Decides whether a session is sandboxed (`allowed`). What came from a sandboxed session stays so,
    whatever the mode: authority only shrinks."""
    if authority.sandboxed:
        return Decision(True, "it acts for a sandboxed session")
    if settings.mode == "non-main":
        is_main = key.kind == "main"
        which = "the main session" if is_main else "not the main session"
        return Decision(not is_main, f"sandbox.mode is non-main, and this is {which}")
    return Decision(settings.mode == "all", f"sandbox.mode is {settings.mode}")


def why_sandboxed(agents: Agents, key: SessionKey, authority: Authority) -> str | None:
    """The reason why a run is sandboxed, or None if it is not."""
    decision = decide_sandbox(sandbox_of(agents, key), key, authority)
    return decision.reason if decision.allowed else None


def confined(agents: Agents, key: SessionKey, authority: Authority) -> Authority:
    """The authority with which a session acts: what it causes is sandboxed when it is."""
    locked = why_sandboxed(agents, key, authority) is not None
    return authority.meet(_LOCKED_IN) if locked else authority


def with_delegator(agents: Agents, key: SessionKey, authority: Authority, model: str) -> Authority:
    """The authority of a session that acts on this one's behalf: no more than this one in any way, and
    nothing that is the owner's alone. `model` is what this one uses, since some rules are for one model only."""
    mine = confined(agents, key, authority)
    if mine.sandboxed:
        settings = sandbox_of(agents, key)
        mine = mine.meet(
            Authority(
                network=settings.allows_network,
                workspace=settings.workspace_access,
                workspaces=frozenset({key.agent_id}),
            )
        )
    delegator = Delegator(key.agent_id, model, mine.sandboxed)
    return mine.meet(Authority(arms=frozenset({delegator})))


def sandbox_of(agents: Agents, key: SessionKey) -> SandboxConfig:
    """The sandbox settings of a session. It may outlive its agent's place in the config; then the defaults hold."""
    known = agents.find(key.agent_id) is not None
    return agents.sandbox_for(key.agent_id) if known else agents.defaults.sandbox


def sandboxes_write(agents: Agents) -> bool:
    """Whether a sandboxed session can write in any workspace. What one of them causes at another agent is
    sandboxed there too, so all agents count together."""
    found = [agents.sandbox_for(each) for each in agents.ids()]
    is_one_boxed = any(settings.mode != "off" for settings in found)
    return is_one_boxed and any(settings.workspace_access == "rw" for settings in found)
