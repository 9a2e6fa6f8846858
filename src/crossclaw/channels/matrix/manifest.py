"""What is known about Matrix without a connection: limits, spellings of addresses, ids of senders."""

import re

from crossclaw.channels.manifest import ChannelManifest, Target, Traits
from crossclaw.channels.matrix.settings import MatrixSettings

_WORDS = re.compile(r"(?:matrix|room|channel|group|user|dm):(?=[@!#])", re.I)
_USER = re.compile(r"@[^:\s]+:[^\s]+")
_ROOM = re.compile(r"![^\s]+")  # newer rooms name no server
_ALIAS = re.compile(r"#[^:\s]+:[^\s]+")


def _bare(text: str) -> str:
    text = text.strip()
    while found := re.match(r"matrix:", text, re.I):
        text = text[found.end() :].strip()
    found = _WORDS.match(text)
    return text[found.end() :] if found else text


def read_target(text: str) -> Target | None:
    """Parses an address: `@user:server`, `!room`, `#alias:server`, each also after `matrix:`, `room:`,
    `channel:` or `user:`."""
    chat = _bare(text)
    if _USER.fullmatch(chat):
        return Target(chat, None, ("direct",))
    if _ROOM.fullmatch(chat):
        return Target(chat, None, ("direct", "channel"))
    if _ALIAS.fullmatch(chat):
        return Target(chat, None, ("channel",))
    return None


def normalize_sender(entry: str) -> str | None:
    """A whole id, with its server. Servers give ids in small letters since long ago."""
    bare = _bare(entry)
    return bare.lower() if _USER.fullmatch(bare) else None


MANIFEST = ChannelManifest(
    name="matrix",
    title="Matrix",
    settings=MatrixSettings,
    open="crossclaw.channels.matrix.account:open_account",
    environ={
        "MATRIX_HOMESERVER": "homeserver",
        "MATRIX_ACCESS_TOKEN": "accessToken",
        "MATRIX_USER_ID": "userId",
        "MATRIX_PASSWORD": "password",
        "MATRIX_DEVICE_NAME": "deviceName",
    },
    traits=Traits(
        dialect="matrix",
        text_limit=8_000,  # of HTML; beside it stands the plain text, and both have 64 KiB
        media_max_mb=20.0,
        files=True,
        edits=True,
        typing_every_s=20.0,
        reactions=True,
        replies=True,
        history=50,
        id_label="Matrix user id",
    ),
    chat_shapes=(
        (r"@[^:\s]+:.+", ("direct",)),
        (r"#[^:\s]+:.+", ("group", "channel")),
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
