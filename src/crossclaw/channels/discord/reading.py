"""Reading: turns a message of Discord into an inbound message, or into the reason why it is skipped. Pure."""

import re
from collections.abc import Iterator

import msgspec

from crossclaw.channels.discord.payloads import (
    DM,
    GROUP_DM,
    THREADS,
    DiscordChannel,
    DiscordMessage,
    QuotedMessage,
)
from crossclaw.domain.addresses import Address, Attachment, Inbound, ReplyTo, kind_of

CHANNEL = "discord"
WORDS_OF_PEOPLE = (0, 19)
"""The types of an ordinary message and of a reply; all others are notices of Discord itself."""
VOICE_FLAG = 1 << 13
FORWARD = 1
EPOCH_MS = 1_420_070_400_000
"""Ids count milliseconds from the first second of 2015, in their upper 42 bits."""

_MENTION = re.compile(r"<@!?(\d+)>")


class DiscordReader(msgspec.Struct, frozen=True):
    """The bot's own ids, by which its own messages and mentions are recognised."""

    id: str
    account_id: str


class NothingRead(msgspec.Struct, frozen=True):
    """A message that is skipped, and why."""

    why: str


def written_at_ms(snowflake: str) -> int:
    return (int(snowflake) >> 22) + EPOCH_MS


def snowflake_at(ms: int) -> int:
    """The smallest id that a message of this time can have."""
    return max(0, ms - EPOCH_MS) << 22


def read_message(
    message: DiscordMessage, place: DiscordChannel, me: DiscordReader, *, is_edit: bool = False
) -> Inbound | NothingRead:
    author = message.author
    if author is None:
        return NothingRead("nobody has written it")
    if why := _why_not(message, author.id, me, is_edit=is_edit):
        return NothingRead(why)
    text = "\n".join(_words(message, me))
    attachments = tuple(_attachments(message))
    if not text and not attachments:
        return NothingRead("nothing to read in it; is the Message Content Intent on?")
    is_direct = place.type == DM
    nick = message.member.nick if message.member else None
    return Inbound(
        address=_address(message.channel_id, author.id if is_direct else None, me),
        sender=author.id,
        sender_name=nick or author.name or None,
        sender_is_bot=author.bot,
        text=text,
        message_id=f"{message.id}:edit:{message.edited_timestamp}" if is_edit else message.id,
        at_ms=written_at_ms(message.id),
        chat_type=_chat_type(place),
        chat_name=None if is_direct else place.name,
        chat_id=None if is_direct else message.channel_id,
        parent_chat_id=place.parent_id if place.type in THREADS else None,
        guild_id=message.guild_id or place.guild_id,
        attachments=attachments,
        reply_to=_reply(message, me),
        mentioned=None if is_direct else any(user.id == me.id for user in message.mentions),
        mentions_others=any(user.id != me.id for user in message.mentions),
        edit_of=message.id if is_edit else None,
    )


def _why_not(
    message: DiscordMessage, author_id: str, me: DiscordReader, *, is_edit: bool
) -> str | None:
    if author_id == me.id:
        return "our own message"
    if message.webhook_id is not None:
        return "written by a webhook"
    if message.type not in WORDS_OF_PEOPLE:
        return "a notice of Discord itself"
    if is_edit and message.edited_timestamp is None:
        return "only its preview has changed"
    return None


def _address(channel_id: str, direct: str | None, me: DiscordReader) -> Address:
    """The address of a chat. A direct chat is named by its person, not by the channel that Discord has for it."""
    to = f"user:{direct}" if direct else f"channel:{channel_id}"
    return Address(CHANNEL, to, me.account_id)


def _chat_type(place: DiscordChannel) -> str:
    if place.type == DM:
        return "direct"
    return "group" if place.type == GROUP_DM else "channel"


def _reply(message: DiscordMessage, me: DiscordReader) -> ReplyTo | None:
    replied, reference = message.referenced_message, message.message_reference
    if reference is None or reference.type == FORWARD or reference.message_id is None:
        return None
    author = replied.author if replied else None
    return ReplyTo(
        message_id=reference.message_id,
        sender=author.id if author else None,
        sender_name=(author.name or None) if author else None,
        sender_is_bot=replied is not None and replied.by_program,
        text=(replied.content or None) if replied else None,
        ours=author is not None and author.id == me.id,
    )


def _words(message: DiscordMessage, me: DiscordReader) -> Iterator[str]:
    """The text of a message. What was passed on is marked: somebody else wrote it, so it is no command either."""
    for passed_on in _passed_on(message):
        yield f"[forwarded]\n{passed_on.content}".strip()
    for sticker in message.sticker_items:
        yield f"[sticker: {' '.join(sticker.name.split())}]"
    if text := _named(message, me):
        yield text


def _passed_on(message: DiscordMessage) -> list[QuotedMessage]:
    return [snapshot.message for snapshot in message.message_snapshots]


def _named(message: DiscordMessage, me: DiscordReader) -> str:
    """The text with mentions as names. Our own at the beginning is left out: it only says whom the message is for."""
    text = message.content.strip()
    while (first := _MENTION.match(text)) and first[1] == me.id:
        text = text[first.end() :].lstrip(" ,:\n")
    names = {user.id: user.name for user in message.mentions}
    return _MENTION.sub(lambda found: f"@{names.get(found[1]) or found[1]}", text)


def _attachments(message: DiscordMessage) -> Iterator[Attachment]:
    files = [*message.attachments, *(f for each in _passed_on(message) for f in each.attachments)]
    for file in files:
        yield Attachment(
            kind=kind_of(file.content_type),
            id=file.url,
            name=file.filename or None,
            mime=file.content_type,
            size=file.size,
            voice=bool(message.flags & VOICE_FLAG),
        )
