"""The owner: whose words on a chat channel count as those of the person who runs the gateway."""

from crossclaw.config.doors import Commands
from crossclaw.policy.decision import Decision


def decide_owner(settings: Commands, channel: str, sender: str) -> Decision:
    """`commands.ownerAllowFrom` names senders, with or without their channel. An empty list: nobody."""
    for entry in map(str, settings.owner_allow_from):
        place, colon, name = entry.partition(":")
        wanted = (channel.lower(), sender) if colon else (None, sender)
        if wanted == ((place.lower(), name) if colon else (None, entry)):
            return Decision(True, f"commands.ownerAllowFrom names {entry}")
    return Decision(False, f"commands.ownerAllowFrom does not name {channel}:{sender}")
