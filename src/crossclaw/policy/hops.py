"""Hops: what somebody may do in what they begin, and how far one message may lead to others."""

import msgspec

from crossclaw.config.session import AgentToAgentConfig
from crossclaw.domain.authority import Authority
from crossclaw.policy.decision import Decision


def begun_by(authority: Authority, rules: AgentToAgentConfig, *, owner: bool) -> Authority:
    """The authority of what somebody begins: their own, within the hops of the config, since clients have no
    limit of their own. `owner`: whether it may have the owner's rights."""
    hops = min(authority.hops_left, rules.max_hops)
    return msgspec.structs.replace(authority, owner=authority.owner and owner, hops_left=hops)


def one_hop_less(authority: Authority, rules: AgentToAgentConfig) -> Authority:
    """The authority of what a send or a spawn begins: at most `maxHops - 1` may follow from it."""
    hops = min(authority.hops_left, rules.max_hops)
    return msgspec.structs.replace(authority, hops_left=hops - 1)


def decide_hop(authority: Authority, rules: AgentToAgentConfig) -> Decision:
    """Decides whether a chain may go on into another session."""
    if authority.hops_left > 0:
        return Decision(True, "the chain has hops left")
    hops = rules.max_hops
    return Decision(
        False, f"this chain of sends has used its {hops} hops (session.agentToAgent.maxHops)"
    )
