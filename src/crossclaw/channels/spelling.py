"""Spelling: what the name of a chat says about it, for addresses that somebody named.

A message that arrives says whether it comes from a group. An address that a client, a job or a hook names
does not; but platforms spell groups, channels and people differently, and OpenClaw's users write
`channel:<id>`, `group:<id>` or `user:<id>` where they are not told apart by themselves.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from crossclaw.channels.registry import find_manifest
from crossclaw.domain.addresses import WEBCHAT, Address
from crossclaw.domain.keys import ChatType

ANY: tuple[ChatType, ...] = ("direct", "group", "channel")

_SAID: dict[str, tuple[ChatType, ...]] = {
    "user": ("direct",),
    "dm": ("direct",),
    "group": ("group",),
    "channel": ("channel",),
}
_SAID_FIRST = re.compile(r"(?:(?P<said>user|dm|group|channel)):(?P<chat>.+)", re.I | re.S)

_Shape = tuple[re.Pattern[str], tuple[ChatType, ...]]

_PHONE: _Shape = (re.compile(r"\+\d[\d ]{4,}"), ("direct",))  # a telephone number is a person
_WEBCHAT: _Shape = (re.compile(r".+", re.S), ("direct",))


@lru_cache(maxsize=64)
def _shapes(channel: str) -> tuple[_Shape, ...]:
    """The patterns of a channel; the first that fits counts. A pattern goes before a word: `group:4711` is a
    person all the same where the platform gives such numbers to people."""
    if channel == WEBCHAT:
        return (_WEBCHAT,)
    manifest = find_manifest(channel)
    named = manifest.chat_shapes if manifest else ()
    return (*((re.compile(shape, re.I), types) for shape, types in named), _PHONE)


class Spelled(NamedTuple):
    chat: str
    """The chat without a word before it that only says what it is."""
    types: tuple[ChatType, ...]
    """The kinds of chat it may be: one, or several where the name does not tell."""


def read_chat(where: Address) -> Spelled:
    chat = where.to.strip()
    if chat.lower().startswith(f"{where.channel.lower()}:"):
        chat = chat[len(where.channel) + 1 :]
    word: tuple[ChatType, ...] = ANY
    if said := _SAID_FIRST.fullmatch(chat):
        chat, word = said["chat"], _SAID[said["said"].lower()]
    if _SAID_FIRST.fullmatch(chat):
        return Spelled(chat, ANY)  # two words that may say different things
    for shape, types in _shapes(where.channel.lower()):
        if shape.fullmatch(chat):
            return Spelled(chat, types)
    return Spelled(chat, word)
