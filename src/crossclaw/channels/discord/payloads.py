"""What Discord sends, as types: only the fields that are read. What does not fit is skipped, never guessed at.

From https://discord.com/developers/docs (API v10, as of August 2026): gateway-events, resources/message, /channel.
"""

import msgspec

DM, GROUP_DM = 1, 3
THREADS = (10, 11, 12)


class DiscordUser(msgspec.Struct, frozen=True):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str:
        return self.global_name or self.username


class DiscordApplication(msgspec.Struct, frozen=True):
    id: str
    flags: int = 0

    @property
    def hears_words(self) -> bool:
        """Whether the bot gets the words of messages: GATEWAY_MESSAGE_CONTENT, or its form for bots on fewer
        than a hundred servers."""
        return bool(self.flags & (1 << 18 | 1 << 19))


class DiscordMember(msgspec.Struct, frozen=True):
    nick: str | None = None


class DiscordAttachment(msgspec.Struct, frozen=True):
    id: str
    url: str
    filename: str = ""
    content_type: str | None = None
    size: int | None = None
    duration_secs: float | None = None


class StickerItem(msgspec.Struct, frozen=True):
    name: str = ""


class MessageReference(msgspec.Struct, frozen=True):
    type: int = 0
    """0: a reply; 1: a message passed on."""
    message_id: str | None = None
    channel_id: str | None = None


class QuotedMessage(msgspec.Struct, frozen=True):
    """The message that a reply answers. A forwarded one has no id and no author."""

    id: str = ""
    author: DiscordUser | None = None
    content: str = ""
    webhook_id: str | None = None
    attachments: list[DiscordAttachment] = []

    @property
    def by_program(self) -> bool:
        """Whether a bot or a webhook wrote it."""
        return self.webhook_id is not None or (self.author is not None and self.author.bot)


class MessageSnapshot(msgspec.Struct, frozen=True):
    message: QuotedMessage = QuotedMessage()


class DiscordMessage(msgspec.Struct, frozen=True):
    id: str
    channel_id: str
    author: DiscordUser | None = None
    content: str = ""
    timestamp: str | None = None
    edited_timestamp: str | None = None
    type: int = 0
    flags: int = 0
    webhook_id: str | None = None
    mentions: list[DiscordUser] = []
    attachments: list[DiscordAttachment] = []
    sticker_items: list[StickerItem] = []
    message_reference: MessageReference | None = None
    referenced_message: QuotedMessage | None = None
    message_snapshots: list[MessageSnapshot] = []
    guild_id: str | None = None
    member: DiscordMember | None = None
    channel_type: int | None = None


class DiscordChannel(msgspec.Struct, frozen=True):
    id: str
    type: int
    name: str | None = None
    guild_id: str | None = None
    parent_id: str | None = None
    last_message_id: str | None = None


class DiscordGuild(msgspec.Struct, frozen=True):
    id: str
    name: str = ""
    unavailable: bool = False
    channels: list[DiscordChannel] = []
    threads: list[DiscordChannel] = []


class ReadyEvent(msgspec.Struct, frozen=True):
    session_id: str
    resume_gateway_url: str
    user: DiscordUser


class GatewayFrame(msgspec.Struct, frozen=True):
    op: int
    d: msgspec.Raw = msgspec.Raw(b"null")
    s: int | None = None
    t: str | None = None


class HelloEvent(msgspec.Struct, frozen=True):
    heartbeat_interval: int


class SessionStartLimit(msgspec.Struct, frozen=True):
    remaining: int = 1
    reset_after: int = 0
    """The time until the limit is reset, in milliseconds."""


class GatewayPlace(msgspec.Struct, frozen=True):
    url: str
    session_start_limit: SessionStartLimit = SessionStartLimit()


class DiscordError(msgspec.Struct, frozen=True):
    """The body of a refusal."""

    code: int = 0
    message: str = ""
    retry_after: float | None = None
    global_: bool = msgspec.field(name="global", default=False)
