"""Reading: turns a webhook of the Cloud API into inbound messages and outcomes of sent ones. Pure.

Shapes from
https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages (read
2026-11-16). One webhook may carry several messages of several people, and statuses.
"""

from collections.abc import Iterator

import msgspec

from crossclaw.domain.addresses import Address, Attachment, AttachmentKind, Inbound, ReplyTo

CHANNEL = "whatsapp"


class WhatsAppFile(msgspec.Struct, frozen=True):
    id: str
    mime_type: str | None = None
    sha256: str | None = None
    caption: str = ""
    filename: str | None = None
    voice: bool = False


class WhatsAppText(msgspec.Struct, frozen=True):
    body: str


class WhatsAppPlace(msgspec.Struct, frozen=True):
    latitude: float
    longitude: float
    name: str = ""
    address: str = ""


class WhatsAppReaction(msgspec.Struct, frozen=True):
    message_id: str
    emoji: str = ""


class WhatsAppContext(msgspec.Struct, frozen=True, kw_only=True):
    id: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    forwarded: bool = False


class WhatsAppButton(msgspec.Struct, frozen=True):
    text: str = ""


class WhatsAppChoice(msgspec.Struct, frozen=True):
    title: str = ""


class WhatsAppInteractive(msgspec.Struct, frozen=True):
    button_reply: WhatsAppChoice | None = None
    list_reply: WhatsAppChoice | None = None


class CardName(msgspec.Struct, frozen=True):
    formatted_name: str = ""


class CardPhone(msgspec.Struct, frozen=True):
    phone: str = ""


class WhatsAppCard(msgspec.Struct, frozen=True):
    name: CardName = CardName()
    phones: list[CardPhone] = []


class WhatsAppMessage(msgspec.Struct, frozen=True, kw_only=True):
    from_: str = msgspec.field(name="from")
    id: str
    timestamp: str
    type: str
    group_id: str | None = None
    context: WhatsAppContext | None = None
    text: WhatsAppText | None = None
    image: WhatsAppFile | None = None
    audio: WhatsAppFile | None = None
    video: WhatsAppFile | None = None
    document: WhatsAppFile | None = None
    sticker: WhatsAppFile | None = None
    location: WhatsAppPlace | None = None
    contacts: list[WhatsAppCard] = []
    reaction: WhatsAppReaction | None = None
    button: WhatsAppButton | None = None
    interactive: WhatsAppInteractive | None = None


class CloudError(msgspec.Struct, frozen=True):
    code: int
    title: str = ""
    message: str = ""


class WhatsAppStatus(msgspec.Struct, frozen=True):
    """The outcome of a message that we sent."""

    id: str
    status: str
    biz_opaque_callback_data: str | None = None
    errors: list[CloudError] = []


class Profile(msgspec.Struct, frozen=True):
    name: str = ""


class WhatsAppContact(msgspec.Struct, frozen=True):
    wa_id: str = ""
    profile: Profile = Profile()


class NumberData(msgspec.Struct, frozen=True):
    phone_number_id: str
    display_phone_number: str = ""


class ChangeValue(msgspec.Struct, frozen=True):
    metadata: NumberData
    contacts: list[WhatsAppContact] = []
    messages: list[msgspec.Raw] = []
    """The messages; each is read on its own, so that an odd one does not affect the others."""
    statuses: list[msgspec.Raw] = []


class CloudChange(msgspec.Struct, frozen=True):
    field: str
    value: msgspec.Raw


class CloudEntry(msgspec.Struct, frozen=True):
    changes: list[CloudChange] = []


class CloudNotice(msgspec.Struct, frozen=True):
    object: str
    entry: list[CloudEntry] = []


class NotForUs(msgspec.Struct, frozen=True):
    """A part of a webhook that is skipped, and why."""

    why: str


def read_notice(body: bytes, phone_number_id: str, account_id: str) -> Iterator[Inbound | WhatsAppStatus | NotForUs]:  # fmt: skip
    """Everything in it, in its order. Raises msgspec.DecodeError where it is no notice at all."""
    notice = msgspec.json.decode(body, type=CloudNotice)
    for change in (change for entry in notice.entry for change in entry.changes):
        if change.field != "messages":
            yield NotForUs(f"a change of {change.field}")
            continue
        try:
            value = msgspec.json.decode(change.value, type=ChangeValue)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield NotForUs(f"a change that cannot be read: {error}")
            continue
        if value.metadata.phone_number_id != phone_number_id:
            yield NotForUs("for another number")
            continue
        yield from _read_value(value, account_id)


def _read_value(
    value: ChangeValue, account_id: str
) -> Iterator[Inbound | WhatsAppStatus | NotForUs]:
    names = {each.wa_id: each.profile.name for each in value.contacts}
    own = digits(value.metadata.display_phone_number)
    for raw in value.messages:
        try:
            message = msgspec.json.decode(raw, type=WhatsAppMessage)
            yield _read_message(message, names, own, account_id)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            yield NotForUs(f"a message that cannot be read: {error}")
    for raw in value.statuses:
        try:
            yield msgspec.json.decode(raw, type=WhatsAppStatus)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield NotForUs(f"a status that cannot be read: {error}")


def digits(number: str) -> str:
    return "".join(each for each in number if each.isdecimal())


def _read_message(
    message: WhatsAppMessage, names: dict[str, str], own: str, account_id: str
) -> Inbound | NotForUs:
    sender = digits(message.from_)
    if not sender or sender == own:
        return NotForUs("our own message")
    if message.group_id is not None:
        return NotForUs("groups are not read")
    if message.type == "system":
        return NotForUs(
            "a person's number has changed: the new one is another person until you allow it"
        )
    text, attachments = _words(message), tuple(_attachments(message))
    reaction = message.reaction
    if not text and not attachments and reaction is None:
        return NotForUs(f"a message of the type {message.type}")
    return Inbound(
        address=Address(CHANNEL, f"+{sender}", account_id),
        sender=f"+{sender}",
        sender_name=names.get(message.from_) or None,
        text=reaction.emoji if reaction else text,
        message_id=message.id,
        at_ms=int(message.timestamp) * 1000,
        attachments=attachments,
        reply_to=_reply(message, own),
        reaction_to=reaction.message_id if reaction else None,
    )


def _reply(message: WhatsAppMessage, own: str) -> ReplyTo | None:
    context = message.context
    if context is None or context.id is None:
        return None
    author = digits(context.from_ or "")
    return ReplyTo(
        message_id=context.id,
        sender=f"+{author}" if author else None,
        ours=bool(own) and author == own,
    )


def _words(message: WhatsAppMessage) -> str:
    parts: list[str] = []
    if message.context is not None and message.context.forwarded:
        parts.append("[forwarded]")
    if message.location is not None:
        place = message.location
        names = " ".join(f"{place.name}, {place.address}".strip(", ").split())
        where = f"{place.latitude}, {place.longitude}"
        parts.append(f"[place: {names} ({where})]" if names else f"[location: {where}]")
    for card in message.contacts:
        phones = ", ".join(each.phone for each in card.phones)
        parts.append(f"[contact: {' '.join(card.name.formatted_name.split())}, {phones}]")
    choice = message.interactive
    said = (
        message.text.body if message.text else "",
        message.button.text if message.button else "",
        choice.button_reply.title if choice and choice.button_reply else "",
        choice.list_reply.title if choice and choice.list_reply else "",
        *(file.caption for _kind, file in _files(message)),
    )
    return "\n".join([*parts, *filter(None, said)])


def _files(message: WhatsAppMessage) -> Iterator[tuple[AttachmentKind, WhatsAppFile]]:
    found: tuple[tuple[AttachmentKind, WhatsAppFile | None], ...] = (
        ("image", message.image),
        ("audio", message.audio),
        ("video", message.video),
        ("document", message.document),
        ("sticker", message.sticker),
    )
    for kind, file in found:
        if file is not None:
            yield kind, file


def _attachments(message: WhatsAppMessage) -> Iterator[Attachment]:
    for kind, file in _files(message):
        # The checksum travels with the id: the file is compared with it when it is fetched.
        yield Attachment(
            kind=kind,
            id=f"{file.id}#{file.sha256}" if file.sha256 else file.id,
            name=file.filename,
            mime=(file.mime_type or "").partition(";")[0] or None,
            voice=file.voice,
        )
