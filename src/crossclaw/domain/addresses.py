"""Addresses: where a reply goes, and what arrives from there."""

from typing import Literal

import msgspec

WEBCHAT = "webchat"
"""The channel of the page, the terminal and clients: no chat platform."""
SEPARATOR = "\x1f"
"""The separator between the parts of an inbound message's key."""


class Address(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One chat on one account of one channel; on the wire it is called deliveryContext."""

    channel: str
    to: str
    account_id: str | None = None
    thread_id: str | None = None
    named: bool = False
    """Whether somebody named it; what came from a chat says what kind of chat it is, a name may not."""

    @property
    def chat(self) -> "Address":
        """The address of the chat alone: the same for the same chat, however its address came about."""
        return msgspec.structs.replace(self, named=False) if self.named else self


AttachmentKind = Literal["image", "audio", "video", "document", "sticker"]


def kind_of(mime: str | None) -> AttachmentKind:
    """The kind of a file by the platform's media type; what is no picture, sound or film is a document."""
    match (mime or "").partition("/")[0]:
        case "image" | "audio" | "video" as kind:
            return kind
        case _:
            return "document"


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a message and was not fetched yet."""

    kind: AttachmentKind
    id: str
    """The id by which the account fetches it: the platform's file id, or an address."""
    name: str | None = None
    mime: str | None = None
    """The media type according to the platform; the content decides."""
    size: int | None = None
    voice: bool = False
    """Whether it is a voice note: spoken to us, not a piece of music."""


class ReplyTo(msgspec.Struct, frozen=True, kw_only=True):
    """The message that somebody replies to."""

    message_id: str
    sender: str | None = None
    """The writer's immutable id."""
    sender_name: str | None = None
    sender_is_bot: bool = False
    text: str | None = None
    ours: bool = False
    """Whether we wrote it: then the reply is meant for us, as if we were mentioned."""


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message that arrived on a channel and is not yet in a session. Ids are the platform's own, never
    in another case; names are for people to read and decide nothing."""

    address: Address
    sender: str
    """The sender's immutable id on the platform."""
    text: str
    message_id: str
    """The platform's own id: the same message twice is stored once. An edit, a deletion or a reaction has an
    id of its own, such as `<id>:edit:<time>`."""
    chat_type: str = "direct"
    chat_name: str | None = None
    chat_id: str | None = None
    """The group's id, when it is a group."""
    parent_chat_id: str | None = None
    """The chat that a thread or topic with an id of its own is in."""
    guild_id: str | None = None
    """The server (Discord) or team (Slack) that the chat is on."""
    sender_name: str | None = None
    sender_aliases: tuple[str, ...] = ()
    """Other immutable ids of the same sender: a uuid beside a number."""
    member_of: tuple[str, ...] = ()
    """Names by which lists may mean a whole group in place of its members: the chat itself, as the channel's
    lists spell it. It is nobody's id: it makes no owner, and no direct chat is opened by it."""
    sender_is_bot: bool = False
    at_ms: int | None = None
    """The time at which it was written, according to the platform."""
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTo | None = None
    mentioned: bool | None = None
    """Whether its writer mentioned us by the platform's own means; None: the platform cannot tell."""
    mentions_others: bool = False
    edit_of: str | None = None
    """The message whose text it replaces."""
    deletion_of: str | None = None
    """The message that was deleted."""
    reaction_to: str | None = None
    """The message that its text is a reaction to; the text is empty if one was taken back."""
    joined: bool = False
    """Whether it was put together from several messages of the platform; it has the id of the first."""
    group_of: str | None = None
    """The id of an album: messages with the same one are one message in several parts."""

    @property
    def dedupe_key(self) -> str:
        where = self.address
        parts = (where.channel, where.account_id or "", where.to, self.sender, self.message_id)
        return SEPARATOR.join(parts)

    @property
    def is_direct(self) -> bool:
        return self.chat_type not in ("group", "channel")
