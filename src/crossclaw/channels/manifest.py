"""Manifests: what is known about a channel before any account of it is opened.

`channels/<name>/manifest.py` has one as MANIFEST. It is imported to read the config, so it imports nothing heavy;
the account itself is imported when it is opened.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.keys import ChatType


class Rate(msgspec.Struct, frozen=True):
    """A rate limit: so many messages in so many seconds."""

    messages: int
    seconds: float


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform can do."""

    dialect: str | None = None
    """The dialect of messages (display/dialects), which also says how their length is counted. None: as the
    model wrote them."""
    text_limit: int = 4_000
    caption_limit: int | None = None
    """How much text a message with a file can have; what is longer follows as messages of its own. None: as
    any other."""
    media_max_mb: float = 5.0
    """The largest file if the config says nothing."""
    files: bool = False
    """Whether a message can carry a file (`Piece.media`)."""
    edits: bool = False
    """Whether sent messages can be changed: then replies may be shown while they are written."""
    edit_every_s: float = 1.5
    """The shortest time between two changes while a reply is written."""
    typing_every_s: float | None = None
    """How often "is typing" has to be repeated; None: it cannot be shown."""
    reactions: bool = False
    replies: bool = False
    """Whether a message can be marked as the answer to another one."""
    threads: Literal["topic", "thread"] | None = None
    """The word before a thread's id in session keys. None: a thread has a chat id of its own, or there are none."""
    mentions: bool = True
    """Whether the platform tells that we were mentioned. If not, groups need patterns."""
    webhook: str | None = None
    """The path at which the platform calls us where the config says nothing."""
    rate: Rate | None = None
    """The limit for all messages of one account."""
    chat_rate: Rate | None = None
    """The limit for messages to one chat."""
    history: int = 50
    """Messages of a group that are kept as context where the config says nothing."""
    reply_to_mode: Literal["off", "first", "all"] = "off"
    """Which pieces of a reply are marked as answers where the config says nothing."""
    id_label: str = "id"
    """What people call a sender's id there: `Telegram user id`."""


class Target(msgspec.Struct, frozen=True):
    """An address as somebody wrote it, parsed."""

    to: str
    thread_id: str | None = None
    types: tuple[ChatType, ...] = ("direct", "group", "channel")
    """The kinds of chat it may be: one, or several where the spelling does not tell."""


class ChannelManifest(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """The name in session keys and addresses: `telegram`."""
    title: str
    """The name for people: `Telegram`."""
    settings: type[ChannelSettings]
    """The type of one account's section in the config."""
    open: str
    """`package.module:function`, imported when an account starts; called with its settings and its host,
    returns a ChannelAccount."""
    identify: str | None = None
    """`package.module:function` that looks at an account before it is set up: called with its settings and
    `HttpClients`, returns `AccountFacts`, or raises AccountBroken where the platform does not know the token. None: it cannot be asked without a
    gateway."""
    aliases: tuple[str, ...] = ()
    """Other names in config, bindings and targets."""
    environ: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Variables that stand for keys of the default account, by the variable's name: `TELEGRAM_BOT_TOKEN` →
    `botToken`."""
    traits: Traits = Traits()
    chat_shapes: tuple[tuple[str, tuple[ChatType, ...]], ...] = ()
    """Patterns of chats whose spelling tells what they are, such as `-\\d+` for Telegram's groups; the first that fits
    the whole. Only what leaves no doubt: a wrong guess would let a message through where a rule forbids it."""
    read_target: Callable[[str], Target | None]
    """Parses the platform's spellings of an address; None: this cannot be one. For the channel's own `send`,
    and for the thread that an address may name."""
    normalize_sender: Callable[[str], str | None]
    """Turns an entry of an allow list into the immutable id that it is compared with; None: it is none, such
    as a name."""
