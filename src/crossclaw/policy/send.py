"""The send policy: whether anything may be said in a session. By channel and chat type, not by session id."""

from crossclaw.config.session import SendMatch, SendPolicy
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.policy.decision import Decision

BLOCKED = "send blocked by session policy"


def decide_send(
    policy: SendPolicy, key: SessionKey, session: Session | None, channel: str | None = None
) -> Decision:
    """Decides a send: the session's own override first, then any rule that denies, then one that allows, then
    the default. `channel` is where it is said: a session may be spoken with on several."""
    if session is not None and session.send_policy in ("allow", "deny"):
        return Decision(session.send_policy == "allow", "the session's own send policy")
    where = channel or channel_of(key, session)
    matching = [rule for rule in policy.rules if _matches(rule.match, key, where)]
    for action in ("deny", "allow"):
        if any(rule.action == action for rule in matching):
            return Decision(action == "allow", f"a rule of session.sendPolicy says {action}")
    return Decision(policy.default == "allow", f"session.sendPolicy.default is {policy.default}")


def _matches(match: SendMatch, key: SessionKey, channel: str | None) -> bool:
    prefix = match.key_prefix or match.raw_key_prefix
    return (
        _same(match.channel, channel)
        and _same("direct" if match.chat_type == "dm" else match.chat_type, key.chat_type)
        and (prefix is None or key.shown.lower().startswith(prefix.lower()))
    )


def channel_of(key: SessionKey, session: Session | None) -> str | None:
    """The session's channel, else the one in its key."""
    if session is not None:
        last = session.last_address.channel if session.last_address else None
        return session.channel or last or key.channel
    return key.channel


def _same(wanted: str | None, found: str | None) -> bool:
    return wanted is None or (found is not None and wanted.lower() == found.lower())
