"""What is known about Discord without a connection: limits, spellings of addresses, ids of senders."""

import re

from crossclaw.channels.discord.settings import DiscordSettings
from crossclaw.channels.manifest import ChannelManifest, Rate, Target, Traits
from crossclaw.domain.keys import ChatType

_ID = r"\d{15,20}"
_PREFIX = re.compile(r"discord:", re.I)
_USER = re.compile(rf"(?:(?:user|dm):|<@!?|@)({_ID})>?", re.I)
_CHANNEL = re.compile(rf"(?:(?:channel|group|thread):|<#|#)({_ID})>?", re.I)
_SENDER = re.compile(rf"(?:(?:discord|user):|<@!?|@)*({_ID})>?", re.I)
_PLURALKIT = re.compile(r"pk:([A-Za-z0-9-]+)", re.I)


def read_target(text: str) -> Target | None:
    """Parses an address. `user:<id>`, `<@id>`, `@<id>`, `discord:<id>`: a person. `channel:<id>`, `<#id>`, a
    bare id: a channel, a thread or a group chat. Names are not accepted: they can be given up and taken by
    somebody else."""
    chat = text.strip()
    prefixed = _PREFIX.match(chat) is not None
    while found := _PREFIX.match(chat):
        chat = chat[found.end() :].strip()
    if found := _USER.fullmatch(chat):
        return Target(f"user:{found[1]}", None, ("direct",))
    if found := _CHANNEL.fullmatch(chat):
        types: tuple[ChatType, ...] = ("group", "channel")
        return Target(f"channel:{found[1]}", None, types)
    if re.fullmatch(_ID, chat):
        if prefixed:
            return Target(f"user:{chat}", None, ("direct",))
        return Target(f"channel:{chat}", None, ("direct", "group", "channel"))
    return None


def normalize_sender(entry: str) -> str | None:
    """A sender's id, also as `<@id>` or after `discord:` or `user:`; `pk:<id>` for a member of a PluralKit
    system. None for a name or a tag."""
    text = entry.strip()
    if found := _SENDER.fullmatch(text):
        return found[1]
    found = _PLURALKIT.fullmatch(text)
    return f"pk:{found[1]}" if found else None


MANIFEST = ChannelManifest(
    name="discord",
    title="Discord",
    settings=DiscordSettings,
    open="crossclaw.channels.discord.account:open_account",
    identify="crossclaw.channels.discord.account:identify",
    environ={"DISCORD_BOT_TOKEN": "token"},
    traits=Traits(
        dialect="discord",
        text_limit=2_000,
        media_max_mb=8.0,
        files=True,
        edits=True,
        typing_every_s=8.0,  # it is shown for ten seconds
        reactions=True,
        replies=True,
        rate=Rate(
            40, 1.0
        ),  # Discord counts 50 requests a second; the rest is for what is no message
        history=20,
        id_label="Discord user id",
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
