"""Reading: an envelope of signal-cli as a message for the gateway, or why it is none."""

from typing import Any, NamedTuple

import msgspec

from crossclaw.channels.signal.manifest import normalize_sender
from crossclaw.domain.addresses import Address, Attachment, Inbound, ReplyTo, kind_of

CHARS_MAX = 100_000


class SignalMention(msgspec.Struct, frozen=True):
    start: int = 0
    length: int = 1
    name: str | None = None
    number: str | None = None
    uuid: str | None = None


class SignalQuote(msgspec.Struct, frozen=True, rename="camel"):
    id: int
    author_number: str | None = None
    author_uuid: str | None = None
    text: str | None = None


class SignalFile(msgspec.Struct, frozen=True, rename="camel"):
    id: str | None = None
    content_type: str | None = None
    filename: str | None = None
    size: int | None = None


class SignalGroup(msgspec.Struct, frozen=True, rename="camel"):
    group_id: str
    group_name: str | None = None
    type: str | None = None


class SignalReaction(msgspec.Struct, frozen=True, rename="camel"):
    emoji: str
    target_sent_timestamp: int
    is_remove: bool = False


class SignalDeletion(msgspec.Struct, frozen=True):
    timestamp: int


class SignalMessage(msgspec.Struct, frozen=True, rename="camel"):
    timestamp: int
    message: str | None = None
    view_once: bool | None = None
    mentions: tuple[SignalMention, ...] | None = None
    attachments: tuple[SignalFile, ...] | None = None
    quote: SignalQuote | None = None
    reaction: SignalReaction | None = None
    remote_delete: SignalDeletion | None = None
    group_info: SignalGroup | None = None
    story_context: Any = None


class SignalEdit(msgspec.Struct, frozen=True, rename="camel"):
    target_sent_timestamp: int
    data_message: SignalMessage


class SignalEnvelope(msgspec.Struct, frozen=True, rename="camel"):
    source_number: str | None = None
    source_uuid: str | None = None
    source_name: str | None = None
    timestamp: int = 0
    data_message: SignalMessage | None = None
    edit_message: SignalEdit | None = None


class SignalSelf(NamedTuple):
    """The account's own ids: a message by either of them is its own."""

    number: str
    uuid: str | None = None

    def has(self, number: str | None, uuid: str | None) -> bool:
        by_uuid = uuid is not None and self.uuid is not None and uuid.lower() == self.uuid.lower()
        return by_uuid or (number is not None and number == self.number)


class SkippedEnvelope(NamedTuple):
    why: str


def read_envelope(params: Any, us: SignalSelf, account_id: str) -> Inbound | SkippedEnvelope:
    """Reads an envelope. `params` of a `receive` notification, also of a subscription, or the data of an
    event over HTTP."""
    if isinstance(params, dict) and isinstance(params.get("result"), dict):
        params = params["result"]
    if not isinstance(params, dict) or not isinstance(params.get("envelope"), dict):
        return SkippedEnvelope("no envelope")
    if params.get("account", us.number) != us.number:
        return SkippedEnvelope("for another account of the daemon")
    try:
        envelope = msgspec.convert(params["envelope"], SignalEnvelope)
    except (msgspec.ValidationError, RecursionError) as error:
        return SkippedEnvelope(f"not as signal-cli writes it: {error}")
    if us.has(envelope.source_number, envelope.source_uuid):
        return SkippedEnvelope("our own message")
    edit = envelope.edit_message
    data = edit.data_message if edit is not None else envelope.data_message
    if data is None:
        return SkippedEnvelope("a receipt, somebody typing, a call or a story")
    return _read_data(envelope, data, edit, us, account_id)


def _read_data(
    envelope: SignalEnvelope,
    data: SignalMessage,
    edit: SignalEdit | None,
    us: SignalSelf,
    account_id: str,
) -> Inbound | SkippedEnvelope:
    sender, aliases = sender_of(envelope.source_number, envelope.source_uuid)
    group = data.group_info
    if sender is None:
        return SkippedEnvelope("without a sender")
    if data.story_context is not None:
        return SkippedEnvelope("an answer to a story")
    mentions = data.mentions or ()
    mentioned = any(us.has(mention.number, mention.uuid) for mention in mentions)
    text = with_mentions((data.message or "")[:CHARS_MAX], mentions, us)
    files = () if data.view_once else tuple(map(_file, filter(_has_id, data.attachments or ())))
    reaction, deletion = data.reaction, data.remote_delete
    if reaction is not None:
        text = "" if reaction.is_remove else reaction.emoji
    elif deletion is None and not text.strip() and not files:
        return SkippedEnvelope("without words")
    return Inbound(
        address=Address("signal", f"group:{group.group_id}" if group else sender, account_id),
        sender=sender,
        sender_aliases=aliases,
        sender_name=envelope.source_name,
        text=text,
        message_id=str(data.timestamp),
        at_ms=data.timestamp,
        chat_type="group" if group else "direct",
        chat_id=group.group_id if group else None,
        chat_name=group.group_name if group else None,
        attachments=files,
        mentioned=mentioned,
        mentions_others=bool(mentions) and not mentioned,
        reply_to=_reply_to(data.quote, us),
        edit_of=str(edit.target_sent_timestamp) if edit else None,
        reaction_to=str(reaction.target_sent_timestamp) if reaction else None,
        deletion_of=str(deletion.timestamp) if deletion else None,
    )


def sender_of(number: str | None, uuid: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The sender's id and aliases: the number if there is one, as sessions are named; the uuid is the same person."""
    ids = [normalize_sender(each) for each in (number, uuid) if each]
    found = [each for each in ids if each is not None]
    return (found[0], tuple(found[1:])) if found else (None, ())


def with_mentions(text: str, mentions: tuple[SignalMention, ...], us: SignalSelf) -> str:
    """The text with names in place of placeholders. Our own at its beginning is left out: it only says whom
    the rest is for."""
    units = text.encode("utf-16-le", "surrogatepass")
    for mention in sorted(mentions, key=lambda each: each.start, reverse=True):
        begin, end = 2 * mention.start, 2 * (mention.start + mention.length)
        if not 0 <= begin < end <= len(units):
            continue
        ours = us.has(mention.number, mention.uuid)
        name = mention.name or mention.number or mention.uuid or "somebody"
        written = (
            "" if ours and not units[:begin].decode("utf-16-le", "replace").strip() else f"@{name}"
        )
        units = units[:begin] + written.encode("utf-16-le") + units[end:]
    return units.decode("utf-16-le", "replace").strip()


def _has_id(file: SignalFile) -> bool:
    return bool(file.id)


def _file(file: SignalFile) -> Attachment:
    kind = kind_of(file.content_type)
    return Attachment(
        kind=kind,
        id=file.id or "",
        name=file.filename,
        mime=file.content_type,
        size=file.size,
        voice=kind == "audio" and file.filename is None,
    )


def _reply_to(quote: SignalQuote | None, us: SignalSelf) -> ReplyTo | None:
    if quote is None:
        return None
    author, _ = sender_of(quote.author_number, quote.author_uuid)
    return ReplyTo(
        message_id=str(quote.id),
        sender=author,
        text=quote.text or None,
        ours=us.has(quote.author_number, quote.author_uuid),
    )
