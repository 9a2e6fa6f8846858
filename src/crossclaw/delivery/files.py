"""Files to send: their type by content, and which are refused."""

import mimetypes
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple
from urllib.parse import unquote

from crossclaw.domain.attachments import BYTES_MAX, sniffed
from crossclaw.domain.errors import Invalid
from crossclaw.domain.media import Media, decode_base64, shown_size
from crossclaw.ledger.media import KeepMedia
from crossclaw.ledger.operations import DeliveryFile, media_holder
from crossclaw.sandbox.files import read_file

FILE_BYTES_MAX = BYTES_MAX  # of one; most chats take less
FILES_MAX = 10  # of one message
NAME_CHARS_MAX = 120
_NOT_SENT = ("program", "SQLite")
_PLAIN = "application/octet-stream"


class FileToSend(NamedTuple):
    file: DeliveryFile
    media: Media

    def keep(self, delivery_key: str, agent_id: str, at: int) -> KeepMedia:
        """The operation that keeps the file until it has arrived. Put it into the step that puts
        the delivery."""
        return KeepMedia(
            media=self.media, agent_id=agent_id, at=at, holder=media_holder(delivery_key)
        )


def file_to_send(data: bytes, name: str) -> FileToSend:
    """Checks a file to send. Raises Invalid if it is empty, too large, or a program."""
    called = _name(name)
    if not data:
        raise Invalid(f"{called} is empty")
    if len(data) > FILE_BYTES_MAX:
        most = shown_size(FILE_BYTES_MAX)
        raise Invalid(f"{called} has {shown_size(len(data))}; at most {most} are sent")
    kind, mime = _what(data, called)
    media = Media(mime, data)
    file = DeliveryFile(sha256=media.sha256, kind=kind, mime=mime, name=called, size=len(data))
    return FileToSend(file, media)


def _what(data: bytes, name: str) -> tuple[Literal["image", "audio", "video", "document"], str]:
    """The kind and type of a file, by its content; the name counts only if the content agrees."""
    picture, other = sniffed(data)
    if other in _NOT_SENT:
        raise Invalid(f"{name} is a {other} file; such files are not sent to chats")
    if picture is not None:
        return "image", picture
    guessed = mimetypes.guess_type(name)[0] or _PLAIN
    if other == "sound":
        return "audio", guessed if guessed.startswith("audio/") else _sound(data)
    if other == "video":
        if guessed.startswith("audio/"):  # one kind of container holds both
            return "audio", guessed
        return "video", guessed if guessed.startswith("video/") else "video/mp4"
    if other == "PDF":
        return "document", "application/pdf"
    said_otherwise = guessed.startswith(("image/", "audio/", "video/"))
    return "document", _PLAIN if said_otherwise else guessed


def _sound(data: bytes) -> str:
    if data.startswith(b"OggS"):
        return "audio/ogg"
    if data.startswith(b"fLaC"):
        return "audio/flac"
    return "audio/wav" if data.startswith(b"RIFF") else "audio/mpeg"


def _name(name: str) -> str:
    """The last part of a name, in printable letters."""
    last = PurePosixPath(name.replace("\\", "/")).name
    letters = "".join(each if each.isprintable() and each not in '"<>|' else "_" for each in last)
    return letters.strip()[-NAME_CHARS_MAX:] or "file"


def read_media_url(url: str, workspace: Path | None) -> FileToSend:
    """A file that travels in the call, or one of the workspace for whoever may read there. Nothing is fetched from
    elsewhere: an address would be asked from inside of the gateway's network."""
    if url.startswith("data:"):
        return _from_data(url)
    if "://" in url and not url.startswith("file://"):
        raise Invalid("files are not fetched from addresses; give a data: URL or a path")
    if workspace is None:
        raise Invalid("a path needs the scope operator.admin; give the file as a data: URL")
    path = url.removeprefix("file://")
    data = read_file(workspace, path, FILE_BYTES_MAX)
    if data is None:
        raise Invalid(f"there is no file {path} in the agent's workspace, {workspace}")
    return file_to_send(data, path)


def _from_data(url: str) -> FileToSend:
    head, comma, content = url.partition(",")
    words = head.removeprefix("data:").split(";")
    if not comma or words[-1] != "base64":
        raise Invalid("a data: URL must be data:<type>;base64,<content>")
    named = next((each[5:] for each in words if each.startswith("name=")), None)
    name = unquote(named) if named else f"file{mimetypes.guess_extension(words[0]) or ''}"
    try:
        return file_to_send(decode_base64(content), name)
    except ValueError:
        raise Invalid("the content of a data: URL is no base64") from None
