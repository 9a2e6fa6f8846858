"""`read`: reads a text, a PDF or an image in the session's workspace, and nowhere else."""

import base64
import io
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import anyio.to_thread
import msgspec

from crossclaw.domain.counts import count_of
from crossclaw.domain.errors import Invalid
from crossclaw.domain.messages import Image, MediaSource, Text
from crossclaw.domain.tools import built_in
from crossclaw.sandbox.contract import WorkPlace
from crossclaw.sandbox.files import open_file
from crossclaw.sandbox.places import Places
from crossclaw.tools.contract import Tool, ToolContext
from crossclaw.tools.documents import Documents

LINES_DEFAULT = 2_000  # a long source file; more is asked for with offset
BYTES_MAX = 256 * 1024  # shown at once
SCAN_BYTES_MAX = 64 * 1024 * 1024  # read over on the way to offset; beyond, exec has better tools
IMAGE_BYTES_MAX = 2 * 1024 * 1024  # what every provider takes; it is stored with the transcript

PDF_BYTES_MAX = 32 * 1024 * 1024  # a book with pictures
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


class ReadParams(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    offset: int = 1
    limit: int = LINES_DEFAULT


class ReadTool(Tool[ReadParams]):
    declared = built_in("read")
    description = (
        "Read a text file or a PDF, or look at a picture, in your workspace. Use it rather than exec with cat. A "
        "long file comes in parts; the answer says at which offset to go on."
    )
    about: ClassVar = {
        "path": "of the file, from the workspace's folder",
        "offset": "first line, from 1",
        "limit": "lines at most",
    }
    params = ReadParams

    def __init__(self, places: Places) -> None:
        self._places = places
        self._documents = Documents()

    async def call(self, context: ToolContext, params: ReadParams) -> str | list[Text | Image]:
        if params.offset < 1 or params.limit < 1:
            raise Invalid("offset and limit begin at 1")
        place = await self._places.of(context.key, context.authority)
        found = await anyio.to_thread.run_sync(_read, place, params)
        if not isinstance(found, bytes):
            return found
        text = await self._documents.words_of(found, params.path)
        return _text(io.BytesIO(text.encode()), params)


def _read(place: WorkPlace, params: ReadParams) -> str | list[Text | Image] | bytes:
    """The file's content; a PDF comes as its bytes."""
    with open_file(place, params.path) as file:
        beginning = file.read(16)
        file.seek(0)
        if beginning.startswith(b"%PDF-"):
            return _whole(file, params.path)
        media_type = _image_type(beginning)
        return _image(file, params.path, media_type) if media_type else _text(file, params)


def _whole(file: BinaryIO, name: str) -> bytes:
    data = file.read(PDF_BYTES_MAX + 1)
    if len(data) > PDF_BYTES_MAX:
        raise Invalid(f"{name} is larger than {PDF_BYTES_MAX} bytes; take it apart with exec")
    return data


def _image_type(beginning: bytes) -> str | None:
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES.items() if beginning.startswith(magic)), None)


def _image(file: BinaryIO, name: str, media_type: str) -> list[Text | Image]:
    data = file.read(IMAGE_BYTES_MAX + 1)
    if len(data) > IMAGE_BYTES_MAX:
        raise Invalid(f"{name} is larger than {IMAGE_BYTES_MAX} bytes; make a smaller copy first")
    source = MediaSource("base64", media_type, base64.b64encode(data).decode("ascii"))
    return [Text(f"{name}, {media_type}, {len(data)} bytes"), Image(source)]


def _text(file: BinaryIO, params: ReadParams) -> str:
    shown: list[str] = []
    room, number, left = BYTES_MAX, 0, 0
    for number, line in enumerate(_lines(file, params.path), 1):
        if number < params.offset:
            continue
        if len(shown) == params.limit or (shown and len(line) > room):
            left += 1
            continue
        shown.append(_shortened(line, room))
        room -= len(line)
    if number and params.offset > number:
        raise Invalid(
            f"{params.path} has {count_of(number, 'line')}; offset={params.offset} is after its end"
        )
    next_line = params.offset + len(shown)
    note = f"\n[{left} more lines; go on with offset={next_line}]" if left else ""
    return "\n".join(shown) + note


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    scanned = 0
    while line := file.readline(BYTES_MAX + 1):
        scanned += len(line)
        if b"\0" in line:
            raise Invalid(f"{name} is not a text file")
        if scanned > SCAN_BYTES_MAX:
            raise Invalid(f"{name} has more than {SCAN_BYTES_MAX} bytes; use exec to look into it")
        yield line.rstrip(b"\r\n")


def _shortened(line: bytes, room: int) -> str:
    text = line[:room].decode("utf-8", "replace")
    return text + (f"\n[the line goes on after {room} bytes]" if len(line) > room else "")
