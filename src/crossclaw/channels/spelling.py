"""Spelling: what the name of a chat says about it, for addresses that somebody named.

A message that arrives says whether it comes from a group. An address that a client, a job or a hook names
does not; but platforms spell groups, channels and people differently, and OpenClaw's users write
`channel:<id>`, `group:<id>` or `user:<id>` where they are not told apart by themselves.
"""

import re
from typing import NamedTuple

from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import ChatType

ANY: tuple[ChatType, ...] = ("direct", "group", "channel")

_SAID: dict[str, tuple[ChatType, ...]] = {
    "user": ("direct",),
    "dm": ("direct",),
    "group": ("group",),
    "channel": ("channel",),
}
_SAID_FIRST = re.compile(r"(?:(?P<said>user|dm|group|channel)):(?P<chat>.+)", re.I | re.S)

# Of a channel, or of all of them (None); the first that fits. Only what leaves no doubt: a wrong guess
# would let a message through where a rule forbids it. For the same reason a shape goes before a word:
# `group:4711` is a person all the same where the platform gives such numbers to people.
_SHAPES: tuple[tuple[str | None, re.Pattern[str], tuple[ChatType, ...]], ...] = (
    ("telegram", re.compile(r"-\d+"), ("group", "channel")),
    ("telegram", re.compile(r"\d+"), ("direct",)),
    ("whatsapp", re.compile(r".+@g\.us", re.I), ("group",)),
    ("whatsapp", re.compile(r".+@newsletter", re.I), ("channel",)),
    ("whatsapp", re.compile(r".+@(s\.whatsapp\.net|c\.us|lid)", re.I), ("direct",)),
    ("imessage", re.compile(r"[^;]*;\+;.+"), ("group",)),
    ("imessage", re.compile(r"[^;]*;-;.+"), ("direct",)),
    ("imessage", re.compile(r"[^@\s;]+@[^@\s;]+"), ("direct",)),
    ("matrix", re.compile(r"@[^:\s]+:.+"), ("direct",)),
    ("matrix", re.compile(r"#[^:\s]+:.+"), ("group", "channel")),
    ("webchat", re.compile(r".+", re.S), ("direct",)),
    (None, re.compile(r"\+\d[\d ]{4,}"), ("direct",)),  # a telephone number is a person
)


class Spelled(NamedTuple):
    chat: str
    """Without a word before it that only says what it is."""
    types: tuple[ChatType, ...]
    """What it may be: one, or several where the name does not tell."""


def read_chat(where: Address) -> Spelled:
    chat = where.to.strip()
    if chat.lower().startswith(f"{where.channel.lower()}:"):
        chat = chat[len(where.channel) + 1 :]
    word: tuple[ChatType, ...] = ANY
    if said := _SAID_FIRST.fullmatch(chat):
        chat, word = said["chat"], _SAID[said["said"].lower()]
    if _SAID_FIRST.fullmatch(chat):
        return Spelled(chat, ANY)  # two words that may say different things
    for channel, shape, types in _SHAPES:
        if channel in (None, where.channel.lower()) and shape.fullmatch(chat):
            return Spelled(chat, types)
    return Spelled(chat, word)
