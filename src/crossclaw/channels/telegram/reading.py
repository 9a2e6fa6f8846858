"""Reading: turns an update of the Bot API into an inbound message, or into the reason why it is skipped. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from crossclaw.channels.telegram.updates import (
    ReactionChange,
    TelegramFile,
    TelegramMessage,
    TelegramUpdate,
    TelegramUser,
    TextEntity,
)
from crossclaw.domain.addresses import Address, Attachment, AttachmentKind, Inbound, ReplyTo

CHANNEL = "telegram"
GENERAL = "1"
"""The topic that every forum has. Messages in it carry no thread id, and sending to it by this number is refused."""

LONG_TEXT = "a long text"
"""Stands for the id of an album where people have pasted more than one message holds."""
TEXT_MAX, LONG_TEXT_UNITS = 4_096, 4_000  # UTF-16 units; programs cut at a blank, if there is one
LONG_TEXT_MS = 2_000  # between two parts; Telegram tells whole seconds
LONG_TEXT_PARTS_MAX = 12

_COMMAND_FIRST = re.compile(r"/\S")


class ReadingBot(msgspec.Struct, frozen=True):
    """The bot's own ids, by which its own messages and mentions are recognised."""

    id: int
    username: str
    account_id: str


class Skipped(msgspec.Struct, frozen=True):
    """An update that is skipped, and why."""

    why: str


class ChatMoved(msgspec.Struct, frozen=True):
    """A group became a supergroup: the same chat under another id."""

    old: str
    new: str


Read = Inbound | ChatMoved | Skipped


def read_update(update: TelegramUpdate, bot: ReadingBot) -> Read:
    if update.message_reaction is not None:
        return _read_reaction(update.message_reaction, bot)
    message = update.message or update.edited_message
    if message is None:
        return Skipped("a kind of update that is not read")
    if message.migrate_to_chat_id is not None:
        return ChatMoved(str(message.chat.id), str(message.migrate_to_chat_id))
    if message.chat.type not in ("private", "group", "supergroup"):
        return Skipped("posts of broadcast channels are not read")
    if message.is_automatic_forward:
        return Skipped("a post of the linked channel")
    return _read_message(message, bot, is_edit=update.edited_message is not None)


def join_albums(parts: Iterable[tuple[int, Read]], whole_at: int = 0) -> Iterator[tuple[int, Read]]:
    """The updates with the parts of one message joined: pictures that were sent together, and a text that was
    too long for one. The number is that of the last part. Nothing is added to the message that ended with
    `whole_at`."""
    number, held = 0, list[Inbound]()
    for number_now, read in parts:
        is_open = bool(held) and number != whole_at
        if is_open and isinstance(read, Inbound) and follows(held, read):
            number = number_now
            held.append(read)
            continue
        if held:
            yield number, join_parts(held)
        number, held = number_now, []
        if isinstance(read, Inbound) and read.group_of is not None:
            held.append(read)
        else:
            yield number_now, read
    if held:
        yield number, join_parts(held)


def follows(parts: Sequence[Inbound], other: Inbound) -> bool:
    """Whether a message is one more of these parts."""
    last = parts[-1]
    if (last.address, last.sender, last.edit_of) != (other.address, other.sender, other.edit_of):
        return False
    if last.group_of != LONG_TEXT:
        return last.group_of is not None and last.group_of == other.group_of
    is_text = other.edit_of is None and not other.attachments and other.reply_to is None
    is_next = other.message_id == str(int(last.message_id) + 1)
    at_once = (other.at_ms or 0) - (last.at_ms or 0) <= LONG_TEXT_MS
    return is_text and is_next and at_once and len(parts) < LONG_TEXT_PARTS_MAX


def join_parts(parts: Sequence[Inbound]) -> Inbound:
    """Joins the parts in their order; the whole has the id of the first."""
    whole = parts[0]
    for last, part in pairwise(parts):
        # A client that finds no blank to cut at fills the message to its end.
        is_cut = last.group_of == LONG_TEXT and len(last.text.encode("utf-16-le")) >= 2 * TEXT_MAX
        whole = _joined(whole, part, "" if is_cut else "\n")
    return whole


def _joined(one: Inbound, other: Inbound, between: str) -> Inbound:
    return msgspec.structs.replace(
        one,
        text=between.join(filter(None, (one.text, other.text))),
        attachments=one.attachments + other.attachments,
        mentioned=one.mentioned or other.mentioned,
        mentions_others=one.mentions_others or other.mentions_others,
        joined=True,
    )


def _read_message(message: TelegramMessage, bot: ReadingBot, *, is_edit: bool) -> Read:
    sender = _sender(message)
    if sender is None:
        return Skipped("nobody has sent it")
    if sender.id == bot.id or (message.via_bot is not None and message.via_bot.id == bot.id):
        return Skipped("our own message")
    raw, entities = message.text or message.caption, message.entities or message.caption_entities
    if _is_for_another_bot(raw, entities, bot):
        return Skipped("a command for another bot")
    text = _words(message, _without_own_name(raw, entities, bot))
    attachments = tuple(_attachments(message))
    if not text and not attachments:
        return Skipped("nothing to read in it")
    is_group = message.chat.type != "private"
    return Inbound(
        address=_address(message, bot),
        sender=str(sender.id),
        sender_name=sender.name or None,
        sender_is_bot=sender.is_bot,
        text=text,
        message_id=f"{message.message_id}:edit:{message.edit_date}"
        if is_edit
        else str(message.message_id),
        at_ms=(message.edit_date if is_edit and message.edit_date else message.date) * 1000,
        chat_type="group" if is_group else "direct",
        chat_name=message.chat.title or None,
        chat_id=str(message.chat.id) if is_group else None,
        attachments=attachments,
        reply_to=_reply(message, bot),
        mentioned=_is_mentioned(raw, entities, bot) if is_group else None,
        mentions_others=_mentions_others(raw, entities, bot),
        edit_of=str(message.message_id) if is_edit else None,
        group_of=message.media_group_id or (LONG_TEXT if _is_full(message, is_edit) else None),
    )


def _is_full(message: TelegramMessage, is_edit: bool) -> bool:
    """Whether a message is nearly as long as one may be: people paste more than that, and their programs send
    it in parts."""
    return not is_edit and len(message.text.encode("utf-16-le")) >= 2 * LONG_TEXT_UNITS


def _read_reaction(change: ReactionChange, bot: ReadingBot) -> Read:
    if change.user is None or change.user.id == bot.id:
        return Skipped("a reaction of nobody in particular")
    is_group = change.chat.type != "private"
    emoji = " ".join(each.emoji for each in change.new_reaction if each.emoji)
    return Inbound(
        address=Address(CHANNEL, str(change.chat.id), bot.account_id),
        sender=str(change.user.id),
        sender_name=change.user.name or None,
        sender_is_bot=change.user.is_bot,
        text=emoji,
        message_id=f"{change.message_id}:reaction:{change.user.id}:{change.date}",
        at_ms=change.date * 1000,
        chat_type="group" if is_group else "direct",
        chat_name=change.chat.title or None,
        chat_id=str(change.chat.id) if is_group else None,
        reaction_to=str(change.message_id),
    )


def _sender(message: TelegramMessage) -> TelegramUser | None:
    """The sender. Whoever writes in the name of a chat (an anonymous administrator) is that chat: Telegram
    names a shared helper bot as the sender of all of those."""
    if message.sender_chat is not None and message.chat.type != "private":
        chat = message.sender_chat
        return TelegramUser(id=chat.id, first_name=chat.title, username=chat.username)
    return message.from_


def _address(message: TelegramMessage, bot: ReadingBot) -> Address:
    return Address(CHANNEL, str(message.chat.id), bot.account_id, _thread(message))


def _thread(message: TelegramMessage) -> str | None:
    """The topic's id. Only topics: in a group without them the same field marks a chain of replies."""
    if message.is_topic_message and message.message_thread_id is not None:
        return str(message.message_thread_id)
    return GENERAL if message.chat.is_forum and message.chat.type != "private" else None


def _reply(message: TelegramMessage, bot: ReadingBot) -> ReplyTo | None:
    """The message that this one replies to. In a topic every message says that it replies to the one that
    opened the topic: that is no reply."""
    replied = message.reply_to_message
    if replied is None or replied.forum_topic_created is not None:
        return None
    if message.is_topic_message and replied.message_id == message.message_thread_id:
        return None
    author = _sender(replied)
    text = (message.quote.text if message.quote else "") or replied.text or replied.caption
    return ReplyTo(
        message_id=str(replied.message_id),
        sender=str(author.id) if author else None,
        sender_name=(author.name or None) if author else None,
        sender_is_bot=author is not None and author.is_bot,
        text=text or None,
        ours=author is not None and author.id == bot.id,
    )


# ── mentions ───────────────────────────────────────────────────────────────────────────────────


def _part(text: str, entity: TextEntity) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    begin, end = entity.offset * 2, (entity.offset + entity.length) * 2
    return units[max(0, begin) : max(0, end)].decode("utf-16-le", "replace")


def _own_name(bot: ReadingBot) -> str:
    return f"@{bot.username}".lower()


def _is_mentioned(text: str, entities: list[TextEntity], bot: ReadingBot) -> bool:
    own = _own_name(bot)
    for entity in entities:
        match entity.type:
            case "mention" if _part(text, entity).lower() == own:
                return True
            case "text_mention" if entity.user is not None and entity.user.id == bot.id:
                return True
            case "bot_command" if _part(text, entity).lower().endswith(own):
                return True
    return False


def _mentions_others(text: str, entities: list[TextEntity], bot: ReadingBot) -> bool:
    own = _own_name(bot)
    return any(
        (entity.type == "mention" and _part(text, entity).lower() != own)
        or (entity.type == "text_mention" and entity.user is not None and entity.user.id != bot.id)
        for entity in entities
    )


def _is_for_another_bot(text: str, entities: list[TextEntity], bot: ReadingBot) -> bool:
    for entity in entities:
        if entity.type == "bot_command" and entity.offset == 0:
            _, at, name = _part(text, entity).partition("@")
            return bool(at) and name.lower() != bot.username.lower()
    return False


def _without_own_name(text: str, entities: list[TextEntity], bot: ReadingBot) -> str:
    """The text without our name: `/new@ourbot` is `/new`, and so is `@ourbot /new`: the name only says whom
    the command is for."""
    own = _own_name(bot)
    for entity in entities:
        if entity.type == "bot_command" and entity.offset == 0:
            command = _part(text, entity)
            if command.lower().endswith(own):
                return command[: -len(own)] + text[len(command) :]
    if text.lower().startswith(own) and _COMMAND_FIRST.match(
        rest := text[len(own) :].lstrip(" ,:")
    ):
        return rest
    return text


# ── what it says ───────────────────────────────────────────────────────────────────────────────


def _words(message: TelegramMessage, text: str) -> str:
    """The text with a description of what has no words, and a mark before forwarded text: somebody else wrote
    it, so it is no command either."""
    parts = [*_put_into_words(message), *([text] if text else [])]
    if message.forward_origin is not None:
        parts.insert(0, f"[forwarded from {_one_line(message.forward_origin.name)}]")
    return "\n".join(parts)


def _put_into_words(message: TelegramMessage) -> Iterator[str]:
    if message.venue is not None:
        place = message.venue.location
        names = _one_line(f"{message.venue.title}, {message.venue.address}".strip(", "))
        yield f"[place: {names} ({place.latitude}, {place.longitude})]"
    elif message.location is not None:
        yield f"[location: {message.location.latitude}, {message.location.longitude}]"
    if message.contact is not None:
        card = message.contact
        yield f"[contact: {_one_line(f'{card.first_name} {card.last_name}'.strip())}, {card.phone_number}]"
    if message.poll is not None:
        options = "; ".join(_one_line(option.text) for option in message.poll.options)
        yield f"[poll: {_one_line(message.poll.question)} — {options}]"
    if message.sticker is not None and (message.sticker.is_animated or message.sticker.is_video):
        yield f"[sticker {message.sticker.emoji}]".replace(" ]", "]")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _attachments(message: TelegramMessage) -> Iterator[Attachment]:
    if message.photo:
        best = max(message.photo, key=lambda size: (size.width, size.file_size or 0))
        yield _attachment("image", best, mime="image/jpeg")
    if message.sticker is not None and not (
        message.sticker.is_animated or message.sticker.is_video
    ):
        yield _attachment("sticker", message.sticker, mime="image/webp")
    if message.voice is not None:
        yield _attachment("audio", message.voice, voice=True)
    kinds: tuple[tuple[AttachmentKind, TelegramFile | None], ...] = (
        ("audio", message.audio),
        ("video", message.video),
        ("video", message.video_note),
        # An animation comes as a document too, for old clients.
        ("video", message.animation),
        ("document", None if message.animation else message.document),
    )
    for kind, file in kinds:
        if file is not None:
            yield _attachment(kind, file)


def _attachment(
    kind: AttachmentKind, file: TelegramFile, *, mime: str | None = None, voice: bool = False
) -> Attachment:
    is_picture = kind == "document" and (file.mime_type or "").startswith("image/")
    return Attachment(
        kind="image" if is_picture else kind,
        id=file.file_id,
        name=file.file_name,
        mime=file.mime_type or mime,
        size=file.file_size,
        voice=voice,
    )
