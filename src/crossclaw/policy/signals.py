"""Signals: which chats see that the agent is typing, and which messages get a reaction that says they were
received."""

from crossclaw.config.session import TypingMode
from crossclaw.policy.decision import Decision


def decide_ack(scope: str, *, direct: bool, called: bool) -> Decision:
    """Decides whether a message gets the reaction. `called`: the group's message had to call the agent, and did."""
    if scope in ("off", "none"):
        return Decision(False, "messages.ackReactionScope is off")
    if scope == "all":
        return Decision(True, "all messages")
    if scope == "direct":
        return Decision(direct, "direct messages only")
    if scope == "group-all":
        return Decision(not direct, "messages of groups only")
    return Decision(not direct and called, "messages of groups that call the agent only")


def decide_typing(wanted: TypingMode | None, *, direct: bool, called: bool) -> TypingMode:
    """Decides when typing begins. By default a group that did not call the agent sees it with the first word
    only: the agent may have nothing to say there."""
    if wanted is not None:
        return wanted
    return "instant" if direct or called else "message"
