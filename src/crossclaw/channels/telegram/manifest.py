"""What is known about Telegram without a connection: limits, spellings of addresses, ids of senders."""

import re

from crossclaw.channels.manifest import ChannelManifest, Rate, Target, Traits
from crossclaw.channels.telegram.settings import TelegramSettings
from crossclaw.domain.keys import ChatType

_PREFIX = re.compile(r"(?:telegram|tg):", re.I)
_LINK = re.compile(r"(?:https?://)?t\.me/(?:c/)?([A-Za-z]\w{3,31})/?", re.I)
_NAME = re.compile(r"@?([A-Za-z]\w{3,31})")
_CHAT = re.compile(r"(?:(user|dm|group|channel):)?(-?\d+)(?::(?:topic:)?(\d+))?", re.I)


def read_target(text: str) -> Target | None:
    """Parses an address: `123`, `-100123`, `-100123:topic:7`, `-100123:7`, `@name`, `t.me/name`, each also
    after `telegram:` or `tg:`."""
    chat = text.strip()
    while found := _PREFIX.match(chat):
        chat = chat[found.end() :].strip()
    if found := _CHAT.fullmatch(chat):
        types: tuple[ChatType, ...] = (
            ("group", "channel") if found[2].startswith("-") else ("direct",)
        )
        return Target(found[2], found[3], types)
    if found := _LINK.fullmatch(chat) or _NAME.fullmatch(chat):
        return Target(f"@{found[1]}", None, ("group", "channel"))
    return None


def normalize_sender(entry: str) -> str | None:
    """A sender's id: digits, also after `telegram:` or `tg:`. None for a name: it can be given up and taken
    by somebody else."""
    found = re.fullmatch(r"(?:(?:telegram|tg|user):)*(-?\d+)", entry.strip(), re.I)
    return str(int(found[1])) if found else None


MANIFEST = ChannelManifest(
    name="telegram",
    title="Telegram",
    settings=TelegramSettings,
    open="crossclaw.channels.telegram.account:open_account",
    identify="crossclaw.channels.telegram.account:identify",
    environ={"TELEGRAM_BOT_TOKEN": "botToken"},
    traits=Traits(
        dialect="telegram",
        text_limit=4_096,
        caption_limit=1_024,
        media_max_mb=5.0,
        files=True,
        edits=True,
        typing_every_s=4.0,
        reactions=True,
        replies=True,
        threads="topic",
        webhook="/telegram-webhook",
        rate=Rate(30, 1.0),
        chat_rate=Rate(1, 1.0),
        reply_to_mode="first",
        id_label="Telegram user id",
    ),
    chat_shapes=(
        (r"-\d+", ("group", "channel")),
        (r"\d+", ("direct",)),
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
