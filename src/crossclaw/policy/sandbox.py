"""The sandbox: is a run locked in? One answer for session tools, for files and for programs."""

from crossclaw.config.agents import Agents, Sandbox
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey

_LOCKED_IN = Authority(owner=True, sandboxed=True)  # takes nothing else away


def why_sandboxed(agents: Agents, key: SessionKey, authority: Authority) -> str | None:
    """The reason, or None for a run that is free."""
    if authority.sandboxed:
        return "a sandboxed session began this run"
    mode = sandbox_of(agents, key).mode
    if mode == "all":
        return f"sandbox.mode of agent {key.agent_id} is all"
    if mode == "non-main" and key.kind != "main":
        return f"sandbox.mode of agent {key.agent_id} is non-main, and this is not its main session"
    return None


def confined(agents: Agents, key: SessionKey, authority: Authority) -> Authority:
    """The authority with which a session acts: what it causes is locked in when it is."""
    locked = why_sandboxed(agents, key, authority) is not None
    return authority.meet(_LOCKED_IN) if locked else authority


def sandbox_of(agents: Agents, key: SessionKey) -> Sandbox:
    """A session may outlive its agent's place in the config; then the defaults hold."""
    known = agents.find(key.agent_id) is not None
    return agents.sandbox_for(key.agent_id) if known else agents.defaults.sandbox
