"""Pictures: what a model is shown in the place of those that people and tools send.

The history keeps the original. A model gets one that it takes: of a known type whatever its label says,
upright, and no larger than services look at. What cannot be shown is said by a note that names the reason.
The same picture always becomes the same bytes, so prompt caches hold.
"""

import base64
import binascii
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec

import anyio

from crossclaw.domain.messages import Image, ImageSource, Text
from crossclaw.providers.contract import ToolReturn, Turn, UserTurn
from crossclaw.sandbox.environment import host_environment
from crossclaw.tools import page_reader, picture_reader

READERS_MAX = 2  # pictures that are made ready at once; the processor is there for others too
READING_S = 2 * page_reader.READING_S
HELD_BYTES_MAX = 32_000_000  # of pictures that are ready; one that has left is made ready again
AS_IT_IS_BYTES = 200_000
"""A picture of a plain type that is no larger goes as it is: it costs little, and most are screenshots."""

_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}
_NAMED = (
    (4, b"ftypheic", "HEIC"), (4, b"ftypheix", "HEIC"), (4, b"ftypmif1", "HEIC"), (4, b"ftypavif", "AVIF"),
    (0, b"<svg", "SVG"), (0, b"<?xml", "SVG"), (0, b"BM", "BMP"), (0, b"II*\0", "TIFF"), (0, b"MM\0*", "TIFF"),
    (0, b"%PDF", "PDF"),
)  # fmt: skip
_NOT_MADE = ("HEIC", "SVG", "PDF")
"""Of these no picture is made here."""
BLIND = "this model cannot look at pictures"
_PYTHON = ("PYTHONPATH", "PYTHONHOME")  # where the reader's program is found


class Pictures:
    def __init__(self) -> None:
        self._ready: OrderedDict[tuple[int, int], Image | Text] = OrderedDict()
        self._bytes = 0
        self._readers = anyio.CapacityLimiter(READERS_MAX)

    async def shown(self, turns: Sequence[Turn], *, can_see: bool) -> list[Turn]:
        """The same turns with pictures that the model takes, or notes in their place."""
        if not can_see:
            return without_pictures(turns)
        return [await self._in_turn(turn) if isinstance(turn, UserTurn) else turn for turn in turns]

    async def _in_turn(self, turn: UserTurn) -> UserTurn:
        results = [
            ToolReturn(each.tool_use_id, await self._in(each.content), each.is_error)
            if any(isinstance(block, Image) for block in each.content)
            else each
            for each in turn.results
        ]
        return UserTurn(results, await self._in(turn.content))

    async def _in(self, blocks: list[Text | Image]) -> list[Text | Image]:
        if not any(isinstance(block, Image) for block in blocks):
            return blocks
        return [await self._one(block) if isinstance(block, Image) else block for block in blocks]

    async def _one(self, image: Image) -> Image | Text:
        data = image.source.data
        if data is None:
            return image  # an address: the service fetches it
        key = (
            hash(data),
            len(data),
        )  # a text's hash is kept with it, and nobody outside can aim at it
        if (ready := self._ready.get(key)) is not None:
            self._ready.move_to_end(key)
            return ready
        ready = await self._made_ready(image, data)
        self._keep(key, ready)
        return ready

    async def _made_ready(self, image: Image, data: str) -> Image | Text:
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return _note(image, "its data is damaged")
        media_type, name = sniffed(raw)
        if name in _NOT_MADE:
            return _note(
                image, f"it is {name}, of which no picture can be made here; send it as PNG or JPEG"
            )
        if media_type is not None and len(raw) <= AS_IT_IS_BYTES and media_type != "image/jpeg":
            return _picture(media_type, raw)  # a photo may lie on its side
        if find_spec("PIL") is None:
            return _unread(image, media_type, raw)
        return await self._converted(image, raw)

    async def _converted(self, image: Image, raw: bytes) -> Image | Text:
        """By another process, which is ended with the call however that ends."""
        try:
            async with self._readers:
                with anyio.fail_after(READING_S):
                    read = await anyio.run_process(
                        [sys.executable, "-P", "-m", picture_reader.__name__],
                        input=raw,
                        stderr=subprocess.DEVNULL,
                        check=False,
                        env=host_environment(os.environ, _PYTHON),
                    )
        except TimeoutError:
            return _note(image, "it takes too long to be read")
        if read.returncode == picture_reader.REFUSED:
            return _note(image, read.stdout.decode("utf-8", "replace"))
        if read.returncode:
            return _note(image, "it takes too much time or memory to be read")
        media_type, _, made = read.stdout.partition(b"\n")
        return _picture(media_type.decode(), made)

    def _keep(self, key: tuple[int, int], ready: Image | Text) -> None:
        self._ready[key] = ready
        self._bytes += _size(ready)
        while self._bytes > HELD_BYTES_MAX and len(self._ready) > 1:
            _, oldest = self._ready.popitem(last=False)
            self._bytes -= _size(oldest)


def sniffed(raw: bytes) -> tuple[str | None, str | None]:
    """What it is by its first bytes: a type that services take, or the name of one that they do not."""
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp", None
    for magic, media_type in _MAGIC.items():
        if raw.startswith(magic):
            return media_type, None
    beginning = raw.lstrip()[:64]
    for place, magic, name in _NAMED:
        if beginning[place:].startswith(magic):
            return None, name
    return None, None


def without_pictures(turns: Sequence[Turn]) -> list[Turn]:
    """For a model that cannot look at any."""

    def plain(blocks: list[Text | Image]) -> list[Text | Image]:
        return [_note(b, BLIND) if isinstance(b, Image) else b for b in blocks]

    return [
        UserTurn(
            [ToolReturn(r.tool_use_id, plain(r.content), r.is_error) for r in turn.results],
            plain(turn.content),
        )
        if isinstance(turn, UserTurn)
        else turn
        for turn in turns
    ]


def _picture(media_type: str, raw: bytes) -> Image:
    return Image(ImageSource("base64", media_type, base64.b64encode(raw).decode("ascii")))


def _unread(image: Image, media_type: str | None, raw: bytes) -> Image | Text:
    """Without a reader: what is of a plain type and not too large goes as it is."""
    if media_type is not None and len(raw) <= picture_reader.BYTES_MAX:
        return _picture(media_type, raw)
    why = "it is too large" if media_type else "it is of a type that models do not take"
    return _note(image, f"{why}; with crossclaw[pictures] installed it would be converted")


def _note(image: Image, why: str) -> Text:
    said = f" ({image.source.media_type})" if image.source.media_type else ""
    return Text(f"[A picture{said} is not shown: {why}.]")


def _size(ready: Image | Text) -> int:
    return len(ready.text) if isinstance(ready, Text) else len(ready.source.data or "")
