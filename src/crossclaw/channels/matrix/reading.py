"""Reading: an event of a room as a message for the gateway, or why it is none. Nothing here asks the homeserver."""

import html
import re
from typing import NamedTuple

from crossclaw.channels.matrix.events import EventContent, MatrixEvent, content_in, text_in
from crossclaw.domain.addresses import AttachmentKind

TEXT_KINDS = ("m.text", "m.emote", "m.location")
MEDIA_KINDS: dict[str, AttachmentKind] = {
    "m.image": "image",
    "m.file": "document",
    "m.audio": "audio",
    "m.video": "video",
}
REPLY_FALLBACK = re.compile(r"(?:> ?.*\n?)+\n?")
NAMED_FALLBACK = re.compile(r"> (?:\* )?<@[^>\n]+>")
"""The beginning of a fallback: who wrote the words, and a star before what they do."""
HTML_FALLBACK = re.compile(r"<mx-reply>.*?</mx-reply>", re.I | re.S)
CHARS_MAX = 65_536  # an event has no more bytes than that, unless its server is broken


class MatrixSelf(NamedTuple):
    """The account itself: its id, and how people see it."""

    user_id: str
    name: str | None


class SkippedEvent(NamedTuple):
    why: str


class MatrixFile(NamedTuple):
    kind: AttachmentKind
    uri: str
    name: str | None
    mime: str | None
    size: int | None
    voice: bool
    secret: EventContent | None
    """How to decrypt it, where the room is encrypted."""


class MatrixText(NamedTuple):
    """What somebody said, before it is known who may."""

    text: str
    mentioned: bool
    thread_id: str | None
    reply_to: str | None
    edit_of: str | None
    file: MatrixFile | None


def read_said(event: MatrixEvent, own_id: str, own_name: str | None) -> MatrixText | SkippedEvent:
    """Reads a message. `own_name` is how people see us: a message that begins with it speaks to us, and loses it."""
    if event.sender == own_id:
        return SkippedEvent("our own message")
    if event.state_key is not None:
        return SkippedEvent("a change of the room")
    if event.type == "m.room.encrypted":
        return SkippedEvent("encrypted, and its key is not here")
    if event.type not in ("m.room.message", "m.sticker"):
        return SkippedEvent(f"an event {event.type[:100]}")
    content, is_edit = _content_of(event)
    edit_of = text_in(event.relation, "event_id") if is_edit else None
    kind = "m.image" if event.type == "m.sticker" else text_in(content, "msgtype")
    if kind == "m.notice":
        return SkippedEvent("a notice, as bots write them")
    if kind is None or (kind not in TEXT_KINDS and kind not in MEDIA_KINDS):
        return SkippedEvent("removed" if not content else f"a message of kind {str(kind)[:100]}")
    return _read_content(event, content, kind, edit_of, own_id, own_name)


def _read_content(
    event: MatrixEvent,
    content: EventContent,
    kind: str,
    edit_of: str | None,
    own_id: str,
    own_name: str | None,
) -> MatrixText | SkippedEvent:
    body = (text_in(content, "body") or "")[:CHARS_MAX]
    thread_id, reply_to = read_relation(event.relation)
    if event.relation:
        body = _without_fallback(event, body)
    file = _file(content, kind) if kind in MEDIA_KINDS else None
    if kind in MEDIA_KINDS and file is None:
        return SkippedEvent("a file without an address")
    if file is not None and text_in(content, "filename") in (None, body):
        body = ""  # the name of the file, not words
    mentioned = is_mentioned(content, own_id)
    if mentioned:
        body = without_name(body, own_id, own_name)
    if not body.strip() and file is None:
        return SkippedEvent("without words")
    return MatrixText(body, mentioned, thread_id, reply_to, edit_of, file)


def read_quoted(event: MatrixEvent, own_id: str) -> tuple[str | None, bool]:
    """The own words of a message that somebody answers to, and whether they are a notice, as bots write them.
    Our own messages have no fallback before them."""
    content, _ = _content_of(event)
    body = (text_in(content, "body") or "")[:CHARS_MAX]
    if event.sender != own_id:
        body = _without_fallback(event, body)
    return body or None, text_in(content, "msgtype") == "m.notice"


def _content_of(event: MatrixEvent) -> tuple[EventContent, bool]:
    """What it says, and whether it says so in place of an earlier message."""
    if event.relation.get("rel_type") == "m.replace":
        return content_in(event.content, "m.new_content"), True
    return event.content, False


def _without_fallback(event: MatrixEvent, body: str) -> str:
    """The body without the quotation that clients put before an answer, for those that show no answers. A
    message in a thread or an edit may begin with a quotation of its own: there only what names its writer is
    such a fallback."""
    _, reply_to = read_relation(event.relation)
    is_put_before = body.startswith("> ") if reply_to is not None else NAMED_FALLBACK.match(body)
    return REPLY_FALLBACK.sub("", body, count=1) if is_put_before else body


def read_relation(relation: EventContent) -> tuple[str | None, str | None]:
    """The thread, and what it answers. A message in a thread names the last one before it for clients that know no
    threads; that is no reply."""
    in_thread = relation.get("rel_type") == "m.thread"
    thread_id = text_in(relation, "event_id") if in_thread else None
    reply_to = text_in(content_in(relation, "m.in_reply_to"), "event_id")
    if in_thread and relation.get("is_falling_back") is True:
        reply_to = None
    return thread_id, reply_to


def is_mentioned(content: EventContent, own_id: str) -> bool:
    """Whether a message mentions us: by m.mentions, or, from clients that do not write it, by a link to us outside of
    what is quoted."""
    if "m.mentions" in content:
        mentions = content_in(content, "m.mentions")
        named = mentions.get("user_ids")
        return mentions.get("room") is True or (isinstance(named, list) and own_id in named)
    formatted = (text_in(content, "formatted_body") or "")[:CHARS_MAX]
    links = re.findall(r'href="https://matrix\.to/#/([^"?]+)', HTML_FALLBACK.sub("", formatted))
    return own_id in (html.unescape(link).replace("%40", "@").replace("%3A", ":") for link in links)


def without_name(body: str, own_id: str, own_name: str | None) -> str:
    """The body without our name before it: `Bot: /status` is a command."""
    local = own_id[1:].partition(":")[0]
    for name in filter(None, (own_id, own_name, local)):
        for called in (f"@{name}", name):
            if body[: len(called)].casefold() == called.casefold():
                rest = body[len(called) :]
                if not rest or not rest[0].isalnum():
                    return rest.lstrip(" \t:,")
    return body


def _file(content: EventContent, kind: str) -> MatrixFile | None:
    secret = content_in(content, "file") or None
    uri = text_in(secret or content, "url")
    if uri is None or not uri.startswith("mxc://"):
        return None
    info = content_in(content, "info")
    size = info.get("size")
    return MatrixFile(
        kind=MEDIA_KINDS[kind],
        uri=uri,
        name=text_in(content, "filename") or text_in(content, "body"),
        mime=text_in(info, "mimetype"),
        size=size if isinstance(size, int) and size >= 0 else None,
        voice="org.matrix.msc3245.voice" in content,
        secret=secret,
    )
