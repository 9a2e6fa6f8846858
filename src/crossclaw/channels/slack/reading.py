"""Reading: turns an event of Slack into an inbound message, or into the reason why it is skipped. Pure."""

import re
from collections.abc import Iterator

import msgspec

from crossclaw.channels.slack.payloads import SlackMessage
from crossclaw.domain.addresses import Address, Attachment, Inbound, ReplyTo, kind_of

CHANNEL = "slack"
SPOKEN = (None, "file_share", "thread_broadcast", "me_message", "bot_message")
"""Subtypes in which somebody says something; the others are notices of Slack itself."""

_ANGLES = re.compile(r"<([^<>]*)>")


class SlackReader(msgspec.Struct, frozen=True):
    """The app's own ids, by which its own messages and mentions are recognised."""

    user_id: str
    bot_id: str | None
    account_id: str


class SlackSkipped(msgspec.Struct, frozen=True):
    """An event that is skipped, and why."""

    why: str


def read_event(
    event: SlackMessage, me: SlackReader, team_id: str | None = None
) -> Inbound | SlackSkipped:
    if event.type not in ("message", "app_mention"):
        return SlackSkipped("a kind of event that is not read")
    if event.subtype == "message_changed":
        return _read_change(event, me, team_id)
    if event.subtype == "message_deleted":
        return _read_deletion(event, me, team_id)
    if event.subtype not in SPOKEN:
        return SlackSkipped("a notice of Slack itself")
    return _read_words(event, event, me, team_id)


def _read_words(
    event: SlackMessage,
    said: SlackMessage,
    me: SlackReader,
    team_id: str | None,
    *,
    edited_at: str | None = None,
) -> Inbound | SlackSkipped:
    """Reads a message. `said` is the message itself; `event` says where."""
    sender = said.user or said.bot_id
    if not (sender and said.ts and event.channel):
        return SlackSkipped("it does not say who wrote it, where or when")
    if said.user == me.user_id or (said.bot_id is not None and said.bot_id == me.bot_id):
        return SlackSkipped("our own message")
    text = _plain(said.text, me)
    attachments = tuple(_attachments(said))
    if not text and not attachments:
        return SlackSkipped("nothing to read in it")
    chat_type = chat_type_of(event)
    return Inbound(
        address=_address(event, said, sender, chat_type, me),
        sender=sender,
        sender_is_bot=said.bot_id is not None,
        text=text,
        message_id=f"{said.ts}:edit:{edited_at}" if edited_at else said.ts,
        at_ms=written_at_ms(said.ts),
        chat_type=chat_type,
        chat_id=None if chat_type == "direct" else event.channel,
        guild_id=None if chat_type == "group" else team_id,
        attachments=attachments,
        reply_to=_reply(said, me),
        mentioned=None if chat_type == "direct" else f"<@{me.user_id}" in said.text,
        mentions_others=any(each != me.user_id for each in re.findall(r"<@([UW]\w+)", said.text)),
        edit_of=said.ts if edited_at else None,
    )


def _read_change(
    event: SlackMessage, me: SlackReader, team_id: str | None
) -> Inbound | SlackSkipped:
    """Reads an edit. Slack also sends one when a link gets its preview: then the words are the same."""
    now, before = event.message, event.previous_message
    if now is None or (before is not None and before.text == now.text):
        return SlackSkipped("its words have not changed")
    edited_at = str((now.edited or {}).get("ts") or event.ts)
    return _read_words(event, now, me, team_id, edited_at=edited_at)


def _read_deletion(
    event: SlackMessage, me: SlackReader, team_id: str | None
) -> Inbound | SlackSkipped:
    gone = event.previous_message
    if gone is None or gone.user is None or gone.user == me.user_id or not event.channel:
        return SlackSkipped("nobody knows whose message was deleted")
    chat_type, ts = chat_type_of(event), event.deleted_ts or gone.ts
    return Inbound(
        address=_address(event, gone, gone.user, chat_type, me),
        sender=gone.user,
        text="",
        message_id=f"{ts}:deleted",
        chat_type=chat_type,
        chat_id=None if chat_type == "direct" else event.channel,
        guild_id=None if chat_type == "group" else team_id,
        mentioned=None if chat_type == "direct" else False,
        deletion_of=ts,
    )


def chat_type_of(event: SlackMessage) -> str:
    """The kind of chat: as Slack says, else by the first letter of the id."""
    kind = event.channel_type or {"D": "im", "G": "mpim"}.get(event.channel[:1], "channel")
    return {"im": "direct", "mpim": "group"}.get(kind, "channel")


def written_at_ms(ts: str) -> int | None:
    try:
        return int(float(ts) * 1000)
    except (ValueError, OverflowError):
        return None


def _address(
    event: SlackMessage, said: SlackMessage, sender: str, chat_type: str, me: SlackReader
) -> Address:
    to = (
        f"user:{sender}"
        if chat_type == "direct" and sender[0] in "UW"
        else f"channel:{event.channel}"
    )
    thread = said.thread_ts if said.thread_ts != said.ts else None
    return Address(CHANNEL, to, me.account_id, thread)


def _reply(said: SlackMessage, me: SlackReader) -> ReplyTo | None:
    """The message that a reply belongs to: the first of its thread; Slack does not say what that was."""
    if said.thread_ts is None or said.thread_ts == said.ts:
        return None
    return ReplyTo(
        message_id=said.thread_ts,
        sender=said.parent_user_id,
        ours=said.parent_user_id == me.user_id,
    )


def _plain(text: str, me: SlackReader) -> str:
    """The text with Slack's marks as people read them. Our own name at the beginning is left out: it only
    says whom it is for."""
    text = text.strip()
    own = re.compile(rf"<@{re.escape(me.user_id)}(?:\|[^>]*)?>[\s,:]*")
    while found := own.match(text):
        text = text[found.end() :]
    text = _ANGLES.sub(lambda found: _named(found[1]), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def _named(inside: str) -> str:
    what, _, label = inside.partition("|")
    if what[:1] in ("@", "#"):
        return f"{what[0]}{label or what[1:]}"
    if what[:1] == "!":
        return label or f"@{what[1:].partition('^')[0]}"
    return f"{label} ({what})" if label and label not in what else what


def _attachments(said: SlackMessage) -> Iterator[Attachment]:
    for file in said.files:
        where = file.url_private_download or file.url_private
        if where is not None:
            yield Attachment(
                kind=kind_of(file.mimetype),
                id=where,
                name=file.name,
                mime=file.mimetype,
                size=file.size,
                voice=file.subtype == "slack_audio",
            )
