"""The main session's chat: where its announces, reminders and heartbeats go.

Everybody who may write directly shares the main session unless `session.dmScope` says otherwise. Each is
answered in their own chat; but what comes later goes where the session was last written from, and that must not
be the chat of somebody who was only let in.
"""

from collections.abc import Iterable

from crossclaw.config.doors import CommandsConfig
from crossclaw.domain.aliases import Senders
from crossclaw.policy.channel_access import EVERYBODY
from crossclaw.policy.decision import Decision


def decide_main_address(
    commands: CommandsConfig,
    allowed: Iterable[Senders],
    *,
    is_owner: bool,
    is_named: bool,
    is_free: bool,
) -> Decision:
    """Decides whether a message moves it. The owner's always does. If `commands.ownerAllowFrom` names one,
    others whom an `allowFrom` names have it only while it is nobody else's (`is_free`); else they move it, if
    any `allowFrom` (of `allowed`) names somebody. Who was only let in does so if nobody at all is named, as
    with OpenClaw."""
    if is_owner:
        return Decision(True, "commands.ownerAllowFrom names the sender")
    if _names(commands.owner_allow_from):
        return Decision(is_named and is_free, "the owner's chat is not taken by others")
    if any(map(_names, allowed)):
        why = "allowFrom names the sender" if is_named else "only whom an allowFrom names moves it"
        return Decision(is_named, why)
    return Decision(True, "no owner is named, and nobody in an allowFrom")


def _names(entries: Senders) -> bool:
    return any(str(each).strip() != EVERYBODY for each in entries)
