"""Attachments: turns a sent file into a block of a message, by its content and not by its name.

Whoever takes messages in (a client's method, a channel) makes its blocks here, so that all accept the same
things and refuse the others in the same words.
"""

from typing import NamedTuple

from crossclaw.domain.errors import Invalid
from crossclaw.domain.media import Media, shown_size
from crossclaw.domain.messages import Document, Image, MediaSource

BYTES_MAX = 16_000_000
"""The largest attachment: a large photo, a book as a PDF. In base64 it fits into a frame of the wire (25 MiB)."""

COUNT_MAX = 100
"""The most attachments of one message: as many pictures as services take. Each is a row of the store and a
look before each answer."""

NAME_CHARS_MAX = 1_000

TEXT_BYTES_MAX = 2_000_000
"""The largest text: far beyond every window."""

_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_NAMED = (
    (4, b"ftypheic", "HEIC"), (4, b"ftypheix", "HEIC"), (4, b"ftyphevc", "HEIC"), (4, b"ftypmif1", "HEIC"),
    (4, b"ftypmsf1", "HEIC"), (4, b"ftypavif", "AVIF"), (4, b"ftyp", "video"), (0, b"BM", "BMP"),
    (0, b"II*\0", "TIFF"), (0, b"MM\0*", "TIFF"), (0, b"%PDF-", "PDF"), (0, b"PK\x03\x04", "ZIP or Office"),
    (0, b"\xd0\xcf\x11\xe0", "old Office"), (0, b"\x1f\x8b", "gzip"), (0, b"7z\xbc\xaf", "7-Zip"),
    (0, b"Rar!", "RAR"), (0, b"OggS", "sound"), (0, b"ID3", "sound"), (0, b"\xff\xfb", "sound"), (0, b"fLaC", "sound"),
    (0, b"\x1aE\xdf\xa3", "video"), (0, b"\x7fELF", "program"), (0, b"MZ", "program"), (0, b"SQLite format 3\0", "SQLite"),
)  # fmt: skip

_SOUNDS = (
    (0, b"OggS", "audio/ogg"), (0, b"ID3", "audio/mpeg"), (0, b"\xff\xfb", "audio/mpeg"), (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"), (0, b"fLaC", "audio/flac"), (8, b"WAVE", "audio/wav"), (4, b"ftyp", "audio/mp4"),
    (0, b"\x1aE\xdf\xa3", "audio/webm"),
)  # fmt: skip

CONVERTED = ("BMP", "TIFF", "AVIF")
"""Kinds of pictures that no service takes, and that are converted to one that all take."""
_INSTEAD = {
    "HEIC": "send it as JPEG (a phone can be set to take “most compatible” photos)",
    "SVG": "send it as PNG",
    "ZIP or Office": "send what is in it as PDF, text or pictures",
    "old Office": "send it as PDF or text",
    "sound": "write down what it says",
    "video": "send single pictures of it",
}


def sniffed(data: bytes) -> tuple[str | None, str | None]:
    """The type by the first bytes: a type of picture that services take, or the name of something else that
    is known. (None, None) may be a text or anything."""
    if data[:4] == b"RIFF":
        kind = {b"WEBP": "image/webp"}.get(data[8:12])
        return (kind, None) if kind else (None, "sound" if data[8:12] == b"WAVE" else "video")
    for magic, media_type in _PICTURES.items():
        if data.startswith(magic):
            return media_type, None
    for place, magic, name in _NAMED:
        if data[place:].startswith(magic):
            return None, name
    beginning = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if beginning.startswith(b"%pdf-"):
        return None, "PDF"
    if beginning.startswith(b"<svg") or (beginning.startswith(b"<?xml") and b"<svg" in beginning):
        return None, "SVG"
    return None, None


class Attached(NamedTuple):
    """A file that was sent along, and the block that names it in a message."""

    media: Media
    is_picture: bool
    name: str | None

    def block(self, source: MediaSource | None = None) -> Image | Document:
        """The block of a message, with a source that carries the bytes, or one that names them (`KeepMedia`
        is in the same step then)."""
        where = source or self.media.source
        return Image(where) if self.is_picture else Document(where, self.name)


def attached(data: bytes, said: str | None, name: str | None) -> Attached:
    """Recognises a file. Raises Invalid if nothing can be made of it."""
    called = name or "the attachment"
    if not data:
        raise Invalid(f"{called} is empty")
    if len(data) > BYTES_MAX:
        raise Invalid(
            f"{called} has {shown_size(len(data))}, and an attachment at most {shown_size(BYTES_MAX)}"
        )
    media_type, kind = sniffed(data)
    if media_type is not None or kind in CONVERTED:
        return Attached(Media(media_type or f"image/{str(kind).lower()}", data), True, name)
    if kind == "PDF":
        return Attached(Media("application/pdf", data), False, name)
    if kind is None and (said or "").startswith("image/"):
        raise Invalid(
            f"{called} is called {said} and is no picture that is known; send PNG or JPEG"
        )
    if kind is not None or not is_text(data):
        raise _refused(called, kind, said)
    if len(data) > TEXT_BYTES_MAX:
        most = shown_size(TEXT_BYTES_MAX)
        raise Invalid(f"{called} has {shown_size(len(data))} of text, and at most {most} are read")
    return Attached(Media(_text_type(said), data), False, name)


def sound_type(data: bytes, said: str | None) -> str | None:
    """The media type of a recording, by its first bytes, else as its platform says; None if it is something else."""
    for place, magic, media_type in _SOUNDS:
        if data[place:].startswith(magic):
            return media_type
    plain = (said or "").partition(";")[0].strip().lower()
    known = plain.startswith("audio/") and plain.removeprefix("audio/").replace("-", "").isalnum()
    return plain if known and sniffed(data) == (None, None) else None


def is_recording(block: object) -> bool:
    """Whether it is a voice note or a sound file: models only get its transcript."""
    return isinstance(block, Document) and (block.source.media_type or "").startswith("audio/")


def is_text(data: bytes) -> bool:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return True
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        # Old tables and letters are in an older code: no control letters, mostly plain ones.
        plain = sum(letter >= 32 or letter in b"\t\r\n\f" for letter in data[:4096])
        return plain == len(data[:4096])
    return True


def text_of(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _text_type(said: str | None) -> str:
    known = said is not None and said.startswith(("text/", "application/json", "application/xml"))
    return said if known and said else "text/plain"


def _refused(called: str, kind: str | None, said: str | None) -> Invalid:
    what = kind or said or "of a type that is not known"
    instead = _INSTEAD.get(kind or "", "send a picture (PNG, JPEG, GIF, WebP), a PDF or a text")
    return Invalid(f"{called} is {what}, which no model here can read; {instead}")
