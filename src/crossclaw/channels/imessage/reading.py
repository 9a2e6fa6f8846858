"""Reading: turns a message of BlueBubbles into an inbound message. Pure. Shapes: its server's
MessageSerializer (2026-07)."""

from collections.abc import Iterator

import msgspec

from crossclaw.channels.imessage.manifest import handle, names_of_chat
from crossclaw.domain.addresses import Address, Attachment, Inbound, ReplyTo, kind_of

CHANNEL = "imessage"
_OBJECT = "\ufffc"
"""The character that stands in the text where a file is."""
_TAPBACKS = {
    2000: "love",
    2001: "like",
    2002: "dislike",
    2003: "laugh",
    2004: "emphasize",
    2005: "question",
}
_SHOWN = {
    "love": "❤",
    "like": "👍",
    "dislike": "👎",
    "laugh": "😂",
    "emphasize": "‼",
    "question": "❓",
}


class BlueHandle(msgspec.Struct, frozen=True):
    address: str


class BlueChat(msgspec.Struct, frozen=True, rename="camel"):
    guid: str
    display_name: str | None = None


class BlueFile(msgspec.Struct, frozen=True, rename="camel"):
    guid: str
    mime_type: str | None = None
    transfer_name: str | None = None
    total_bytes: int | None = None
    is_sticker: bool | None = None


class BlueMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    guid: str
    row: int | None = msgspec.field(name="originalROWID", default=None)
    text: str | None = None
    handle: BlueHandle | None = None
    is_from_me: bool = False
    date_created: int | None = None
    date_edited: int | None = None
    date_retracted: int | None = None
    attachments: list[BlueFile] | None = None
    chats: list[BlueChat] | None = None
    item_type: int = 0
    group_action_type: int = 0
    associated_message_guid: str | None = None
    associated_message_type: str | int | None = None
    thread_originator_guid: str | None = None
    is_audio_message: bool | None = None
    temp_guid: str | None = None
    error: int = 0


class BlueEvent(msgspec.Struct, frozen=True):
    type: str
    data: msgspec.Raw = msgspec.Raw(b"null")


class PassedOver(msgspec.Struct, frozen=True):
    why: str


def read_message(
    message: BlueMessage, account_id: str, *, is_update: bool = False
) -> Inbound | PassedOver:
    """Reads a message. `is_update`: the server reports that something about an old message changed, mostly
    that it was read."""
    if message.is_from_me:
        return PassedOver("our own message")
    if message.item_type or message.group_action_type:
        return PassedOver("an event of the group")
    if is_update and not (message.date_edited or message.date_retracted):
        return PassedOver("a receipt")
    sender = handle(message.handle.address) if message.handle else None
    chat = message.chats[0] if message.chats else None
    if message.handle is not None and sender is None:
        sender = (
            message.handle.address
        )  # a business chat or a short number: allowed only as it is written
    if sender is None:
        return PassedOver("nobody has sent it")
    if chat is None:
        return PassedOver("it belongs to no chat")
    is_group = ";+;" in chat.guid
    changes = _changes(message, is_update=is_update)
    text = (message.text or "").replace(_OBJECT, "").strip()
    attachments = tuple(_attachments(message))
    if not text and not attachments and not changes:
        return PassedOver("nothing to read in it")
    return Inbound(
        address=Address(CHANNEL, chat.guid, account_id),
        sender=sender,
        member_of=names_of_chat(chat.guid) if is_group else (),
        text=str(changes.pop("text", text)),
        chat_type="group" if is_group else "direct",
        chat_id=chat.guid if is_group else None,
        chat_name=chat.display_name or None,
        at_ms=message.date_created,
        attachments=() if "reaction_to" in changes else attachments,
        reply_to=ReplyTo(message_id=message.thread_originator_guid)
        if message.thread_originator_guid
        else None,
        mentioned=None,
        message_id=str(changes.pop("message_id", message.guid)),
        reaction_to=changes.get("reaction_to"),
        edit_of=changes.get("edit_of"),
        deletion_of=changes.get("deletion_of"),
    )


def _changes(message: BlueMessage, *, is_update: bool) -> dict[str, str]:
    if is_update and message.date_retracted:
        return {"deletion_of": message.guid, "message_id": f"{message.guid}:deleted"}
    if is_update and message.date_edited:
        return {"edit_of": message.guid, "message_id": f"{message.guid}:edit:{message.date_edited}"}
    kind = _tapback(message.associated_message_type)
    if kind is not None and message.associated_message_guid:
        target = message.associated_message_guid.rpartition("/")[2].removeprefix("bp:")
        return {
            "reaction_to": target,
            "text": "" if kind.startswith("-") else _SHOWN.get(kind, kind),
        }
    return {}


def _tapback(kind: str | int | None) -> str | None:
    """The reaction of a tapback: 2000 to 2999 puts one on, 3000 to 3999 takes it off; newer servers write a word."""
    if isinstance(kind, str) and kind.isdecimal():
        kind = int(kind)
    if isinstance(kind, int):
        if not 2000 <= kind <= 3999:
            return None
        word = _TAPBACKS.get(kind % 1000 + 2000, "like")
        return word if kind < 3000 else f"-{word}"
    return kind if kind and kind.lstrip("-") in _SHOWN else None


def _attachments(message: BlueMessage) -> Iterator[Attachment]:
    for file in message.attachments or ():
        kind = "sticker" if file.is_sticker else kind_of(file.mime_type)
        yield Attachment(
            kind=kind,
            id=file.guid,
            name=file.transfer_name,
            mime=file.mime_type,
            size=file.total_bytes,
            voice=bool(message.is_audio_message) and kind == "audio",
        )
