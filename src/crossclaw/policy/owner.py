"""The owner: which senders on a chat channel count as the person who runs the gateway."""

from collections.abc import Iterable

from crossclaw.config.doors import CommandsConfig
from crossclaw.policy.decision import Decision


def decide_commands(
    settings: CommandsConfig, channel: str, sender: str, aliases: Iterable[str] = ()
) -> Decision:
    """Decides whether a sender may use slash commands. `commands.allowFrom`, if it is given, is the whole
    list; the owner may always. `aliases` are other ids by which the platform knows the same person."""
    ids = {sender, *aliases}
    if not settings.allow_from or decide_owner(settings, channel, sender, ids).allowed:
        return Decision(True, "commands.allowFrom keeps nobody out")
    by_channel = {name.lower(): senders for name, senders in settings.allow_from.items()}
    named = {str(each) for each in (*by_channel.get(channel.lower(), ()), *by_channel.get("*", ()))}
    allowed = bool(named & {*ids, "*"})
    return Decision(
        allowed, f"commands.allowFrom {'names' if allowed else 'does not name'} {channel}:{sender}"
    )


def decide_owner(
    settings: CommandsConfig, channel: str, sender: str, aliases: Iterable[str] = ()
) -> Decision:
    """Decides whether a sender is the owner. `commands.ownerAllowFrom` names senders, with or without their
    channel; an id may itself contain colons (`@ana:example.org`, `uuid:…`). An empty list: nobody, and `*` is
    nobody's id."""
    ids = {sender, *aliases} - {"*", ""}
    spellings = {*ids, *(f"{channel.lower()}:{each}" for each in ids)}
    for entry in map(str, settings.owner_allow_from):
        place, colon, name = entry.partition(":")
        written = f"{place.lower()}:{name}" if colon and place.lower() == channel.lower() else entry
        if written in spellings:
            return Decision(True, f"commands.ownerAllowFrom names {entry}")
    return Decision(False, f"commands.ownerAllowFrom does not name {channel}:{sender}")
