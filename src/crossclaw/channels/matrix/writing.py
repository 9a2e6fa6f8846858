"""Writing: a piece of a reply as the content of an event."""

from typing import Literal

from crossclaw.channels.contract import OutgoingFile, Piece
from crossclaw.channels.matrix.events import EventContent

KINDS = {"image": "m.image", "audio": "m.audio", "video": "m.video", "document": "m.file"}
ThreadReplies = Literal["off", "inbound", "always"]


def write_words(piece: Piece) -> EventContent:
    """Mentions nobody: what a model writes calls no one."""
    content: EventContent = {"msgtype": "m.text", "body": piece.text, "m.mentions": {}}
    if piece.formatted and piece.formatted != piece.text:
        content |= {"format": "org.matrix.custom.html", "formatted_body": piece.formatted}
    return content


def write_file(media: OutgoingFile, where: EventContent, caption: str) -> EventContent:
    """`where` has its address, and its key where the room is encrypted."""
    return {
        "msgtype": KINDS[media.kind],
        "body": caption or media.name,
        "filename": media.name,
        "info": {"mimetype": media.mime, "size": len(media.data)},
        "m.mentions": {},
        **where,
    }


def write_relation(
    thread_id: str | None, reply_to: str | None, mode: ThreadReplies
) -> EventContent:
    """The relation of a message: in which thread it stands, and which message it answers."""
    root = thread_id if mode != "off" else None
    if root is None and mode == "always":
        root = reply_to
    if root is not None:
        answered = {"event_id": reply_to or root}
        falls_back = reply_to is None or reply_to == root
        return {
            "rel_type": "m.thread",
            "event_id": root,
            "is_falling_back": falls_back,
            "m.in_reply_to": answered,
        }
    return {"m.in_reply_to": {"event_id": reply_to}} if reply_to else {}


def write_edit(event_id: str, content: EventContent) -> EventContent:
    """The words are also before it, for clients that know no edits."""
    return content | {
        "body": f"* {content['body']}",
        "m.new_content": content,
        "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
    }
