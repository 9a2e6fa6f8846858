"""What is known about IRC without a connection: limits, spellings of addresses, ids of senders."""

import re

from crossclaw.channels.manifest import ChannelManifest, Rate, Target, Traits
from crossclaw_irc.settings import IrcSettings

_CHANNEL = re.compile(r"[#&+!][^\s,:\x07]{1,49}")
_NICK = re.compile(r"[A-Za-z\[\]\\`_^{|}][\w\[\]\\`^{|}-]{0,29}")
_MASK = re.compile(r"[^\s!@]+![^\s!@]+@[^\s!@]+")


def read_target(text: str) -> Target | None:
    """`#channel`, or a nick; each also after `irc:`."""
    chat = re.sub(r"^(irc:)?((user|channel|group):)?", "", text.strip(), flags=re.I)
    if _CHANNEL.fullmatch(chat):
        return Target(chat, None, ("group", "channel"))
    return Target(chat, None, ("direct",)) if _NICK.fullmatch(chat) else None


def normalize_sender(entry: str) -> str | None:
    """`nick!user@host`. A nick alone is none: it belongs to whoever takes it first."""
    mask = re.sub(r"^irc:", "", entry.strip(), flags=re.I)
    return mask if _MASK.fullmatch(mask) else None


MANIFEST = ChannelManifest(
    name="irc",
    title="IRC",
    settings=IrcSettings,
    open="crossclaw_irc.account:open_account",
    traits=Traits(
        dialect="plain",
        text_limit=400,  # a line has 512 bytes, with the sender's name and the words PRIVMSG and target
        mentions=True,
        rate=Rate(2, 1.0),  # servers cut off whoever says more
        id_label="nick!user@host",
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
