"""What is known about iMessage without a connection."""

import re

from crossclaw.channels.imessage.settings import IMessageSettings
from crossclaw.channels.manifest import ChannelManifest, Rate, Target, Traits
from crossclaw.domain.keys import ChatType

_PREFIX = re.compile(r"(?:imessage|bluebubbles|sms|auto|user|dm|chat_guid):", re.I)
_GUID = re.compile(r"[A-Za-z]+;([+-]);(.+)")
_MAIL = re.compile(r"[^@\s;:]+@[^@\s;:]+\.[^@\s;:]+")
_CHAT = "chat:"
_NAMED_CHAT = re.compile(r"chat_identifier:(\S+)", re.I)


def handle(text: str) -> str | None:
    """A person's handle: a number with its country, or an e-mail address in small letters."""
    text = text.strip()
    if _MAIL.fullmatch(text):
        return text.lower()
    number = re.sub(r"[ ().-]", "", text)
    if re.fullmatch(r"\+\d{5,15}", number) or re.fullmatch(r"[1-9]\d{6,14}", number):
        return f"+{number.lstrip('+')}"
    return None


def _bare(text: str) -> str:
    text = text.strip()
    while found := _PREFIX.match(text):
        text = text[found.end() :].strip()
    return text


def normalize_sender(entry: str) -> str | None:
    """A handle; or a chat, as `chat_guid:…` or `chat_identifier:…`, which means everybody in it."""
    if found := _NAMED_CHAT.fullmatch(entry.strip()):
        return f"{_CHAT}{found[1]}"
    text = _bare(entry)
    return f"{_CHAT}{text}" if _GUID.fullmatch(text) else handle(text)


def names_of_chat(guid: str) -> tuple[str, ...]:
    """The names of a group in lists. No handle begins so: a chat that is called like a person is not that person."""
    return f"{_CHAT}{guid}", f"{_CHAT}{guid.rpartition(';')[2]}"


def read_target(text: str) -> Target | None:
    """Parses an address: a handle, `chat_guid:iMessage;+;chat…`, or `chat_identifier:chat…`; each also after
    `imessage:` or `bluebubbles:`."""
    text = _bare(text)
    if found := _GUID.fullmatch(text):
        types: tuple[ChatType, ...] = ("direct",) if found[1] == "-" else ("group",)
        return Target(text, None, types)
    if found := _NAMED_CHAT.fullmatch(text):
        return Target(f"any;+;{found[1]}", None, ("group",))
    if found := re.fullmatch(r"group:(.+)", text, re.I):
        return read_target(found[1])
    person = handle(text)
    return Target(person, None, ("direct",)) if person else None


MANIFEST = ChannelManifest(
    name="imessage",
    title="iMessage",
    aliases=("bluebubbles",),
    settings=IMessageSettings,
    open="crossclaw.channels.imessage.account:open_account",
    traits=Traits(
        dialect="imessage",
        text_limit=4_000,
        media_max_mb=8.0,
        files=True,
        caption_limit=0,  # words are a message of their own
        typing_every_s=10.0,
        reactions=True,
        replies=True,
        mentions=False,
        webhook="/bluebubbles-webhook",
        rate=Rate(1, 1.0),
        id_label="iMessage handle",
    ),
    chat_shapes=(
        (r"[^;]*;\+;.+", ("group",)),
        (r"[^;]*;-;.+", ("direct",)),
        (r"[^@\s;]+@[^@\s;]+", ("direct",)),
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
