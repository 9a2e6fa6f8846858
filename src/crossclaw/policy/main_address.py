"""The main session's chat: where its announces, reminders and heartbeats go.

Everybody who may write directly shares the main session unless `session.dmScope` says otherwise. Each is answered in
their own chat; but what comes later goes where the session was last written from, and that must not be the chat of
somebody who was only let in.
"""

from collections.abc import Iterable

from crossclaw.config.channels import Senders
from crossclaw.config.doors import CommandsConfig
from crossclaw.policy.channel_access import EVERYBODY
from crossclaw.policy.decision import Decision


def decide_main_address(
    commands: CommandsConfig, allowed: Iterable[Senders], *, is_owner: bool, is_named: bool
) -> Decision:
    """May what is said here move it? By the owner alone, where `commands.ownerAllowFrom` names one; else by whom an
    `allowFrom` names, where any of them (`allowed`) names somebody; else by whoever wrote last, as with OpenClaw."""
    if _names(commands.owner_allow_from):
        why = "commands.ownerAllowFrom names the sender" if is_owner else "only the owner moves it"
        return Decision(is_owner, why)
    if any(map(_names, allowed)):
        why = "allowFrom names the sender" if is_named else "only whom an allowFrom names moves it"
        return Decision(is_named, why)
    return Decision(True, "no owner is named, and nobody in an allowFrom")


def _names(entries: Senders) -> bool:
    return any(str(each).strip() != EVERYBODY for each in entries)
