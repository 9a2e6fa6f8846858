"""Updates as the Bot API sends them: only the fields that are read, each of the type that the documents give it.

What does not fit is skipped with a word in the log, never guessed at. From https://core.telegram.org/bots/api (9.3).
"""

from typing import Any

import msgspec


class TelegramUser(msgspec.Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.username


class TelegramChat(msgspec.Struct, frozen=True):
    id: int
    type: str
    title: str = ""
    username: str = ""
    is_forum: bool = False


class TextEntity(msgspec.Struct, frozen=True):
    """A part of the text, in UTF-16 units."""

    type: str
    offset: int
    length: int
    user: TelegramUser | None = None


class TelegramFile(msgspec.Struct, frozen=True):
    """A photo, document, voice note, …: what all of them have."""

    file_id: str
    file_size: int | None = None
    file_name: str | None = None
    mime_type: str | None = None
    width: int = 0
    emoji: str = ""
    is_animated: bool = False
    is_video: bool = False


class Place(msgspec.Struct, frozen=True):
    latitude: float
    longitude: float


class Venue(msgspec.Struct, frozen=True):
    location: Place
    title: str = ""
    address: str = ""


class ContactCard(msgspec.Struct, frozen=True):
    phone_number: str
    first_name: str = ""
    last_name: str = ""


class PollOption(msgspec.Struct, frozen=True):
    text: str


class TelegramPoll(msgspec.Struct, frozen=True):
    question: str
    options: list[PollOption] = []


class Quoted(msgspec.Struct, frozen=True):
    text: str = ""


class ForwardOrigin(msgspec.Struct, frozen=True):
    type: str
    sender_user: TelegramUser | None = None
    sender_user_name: str = ""
    sender_chat: TelegramChat | None = None
    chat: TelegramChat | None = None

    @property
    def name(self) -> str:
        chat = self.chat or self.sender_chat
        return (
            (self.sender_user.name if self.sender_user else "")
            or self.sender_user_name
            or (chat.title if chat else "")
            or "somebody"
        )


class TelegramMessage(msgspec.Struct, frozen=True, kw_only=True):
    message_id: int
    date: int
    chat: TelegramChat
    from_: TelegramUser | None = msgspec.field(name="from", default=None)
    sender_chat: TelegramChat | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    is_automatic_forward: bool = False
    edit_date: int | None = None
    media_group_id: str | None = None
    via_bot: TelegramUser | None = None
    forward_origin: ForwardOrigin | None = None
    reply_to_message: "TelegramMessage | None" = None
    quote: Quoted | None = None
    text: str = ""
    entities: list[TextEntity] = []
    caption: str = ""
    caption_entities: list[TextEntity] = []
    photo: list[TelegramFile] = []
    document: TelegramFile | None = None
    animation: TelegramFile | None = None
    audio: TelegramFile | None = None
    voice: TelegramFile | None = None
    video: TelegramFile | None = None
    video_note: TelegramFile | None = None
    sticker: TelegramFile | None = None
    location: Place | None = None
    venue: Venue | None = None
    contact: ContactCard | None = None
    poll: TelegramPoll | None = None
    migrate_to_chat_id: int | None = None
    forum_topic_created: dict[str, Any] | None = None


class TelegramReaction(msgspec.Struct, frozen=True):
    type: str
    emoji: str = ""


class ReactionChange(msgspec.Struct, frozen=True, kw_only=True):
    chat: TelegramChat
    message_id: int
    date: int
    user: TelegramUser | None = None
    new_reaction: list[TelegramReaction] = []


class TelegramUpdate(msgspec.Struct, frozen=True, kw_only=True):
    update_id: int
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    message_reaction: ReactionChange | None = None


class UpdateNumber(msgspec.Struct, frozen=True):
    """All that must be readable of an update, so that it can be passed over."""

    update_id: int


KINDS = ("message", "edited_message", "message_reaction")
"""The kinds of updates that are asked for; the Bot API sends nothing else then."""
