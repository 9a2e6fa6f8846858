"""Media: the pictures and files in messages. Their bytes are kept once in the ledger, by their hash; a message
there only names them. Who needs the bytes asks for them.
"""

import base64
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Image,
    MediaSource,
    Message,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)

AnyMessage = TypeVar("AnyMessage", bound=Message | None)
SourceChange = Callable[[MediaSource], MediaSource]

Kinds = tuple[str, ...]
PICTURES: Kinds = ("image",)
KINDS: Kinds = (*PICTURES, "document")


class Media(msgspec.Struct, frozen=True):
    """A picture or a file with all its bytes."""

    media_type: str
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()

    @property
    def source(self) -> MediaSource:
        """The source by which a message names it, once it is stored."""
        return MediaSource("stored", self.media_type, sha256=self.sha256, size=len(self.data))


SLICE_CHARS = 256 * 1024
"""The length of base64 decoded in one piece, which takes a millisecond: Python's other threads wait for that long."""


def decode_base64(text: str) -> bytes:
    """Decodes base64; raises ValueError if it is none. A large one is decoded in slices, so that in a thread
    it holds up nobody."""
    if len(text) <= SLICE_CHARS:
        return base64.b64decode(text, validate=True)
    if "=" in text[:-2]:
        raise ValueError("base64 with its end in the middle")
    slices = range(0, len(text), SLICE_CHARS)
    return b"".join(base64.b64decode(text[at : at + SLICE_CHARS], validate=True) for at in slices)


def carried(source: MediaSource) -> Media | None:
    """The media that a source carries in itself; None if it carries nothing, or nothing that can be read."""
    if source.type != "base64" or source.data is None:
        return None
    try:
        data = decode_base64(source.data)
    except ValueError:
        return None
    return Media(source.media_type or "application/octet-stream", data)


def carrying(source: MediaSource, data: bytes) -> MediaSource:
    """The source, with its bytes in it."""
    return MediaSource("base64", source.media_type, base64.b64encode(data).decode("ascii"))


def stored_in(message: Message | None, kinds: Kinds = KINDS) -> list[MediaSource]:
    """The media that a message names in the ledger."""
    return [source for source in sources_in(message, kinds) if source.type == "stored"]


def hidden_chars(message: Message | None, kinds: Kinds = KINDS) -> int:
    """How much longer a message is with the bytes that it only names, in base64."""
    return sum(base64_chars(source.size) for source in stored_in(message, kinds))


def base64_chars(size: int) -> int:
    return (size + 2) // 3 * 4


def shown_size(size: int) -> str:
    """A size in bytes, for people."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def sources_in(message: Message | None, kinds: Kinds = KINDS) -> Iterator[MediaSource]:
    if message is None or isinstance(message, AssistantMessage):
        return
    if isinstance(message, ToolResultMessage):
        yield from _sources_in_json(message.content, kinds)
    elif not isinstance(message.content, str):
        for block in message.content:
            if isinstance(block, ToolResult):
                yield from _sources_in_json(block.content, kinds)
            elif (source := _source_of(block, kinds)) is not None:
                yield source


def with_sources(message: AnyMessage, change: SourceChange, kinds: Kinds = KINDS) -> AnyMessage:
    """The message with every source changed; the same one where it has none."""
    if next(sources_in(message, kinds), None) is None:
        return message
    if isinstance(message, ToolResultMessage):
        return replace(message, content=_changed_json(message.content, change, kinds))
    assert isinstance(message, UserMessage)
    return replace(message, content=[_changed(block, change, kinds) for block in message.content])


def _changed(block: Any, change: SourceChange, kinds: Kinds) -> Any:
    if isinstance(block, ToolResult):
        return replace(block, content=_changed_json(block.content, change, kinds))
    source = _source_of(block, kinds)
    return block if source is None else replace(block, source=change(source))


# A tool answers any JSON. What looks like a block at its top is one.


def _sources_in_json(content: Any, kinds: Kinds) -> Iterator[MediaSource]:
    if isinstance(content, list):
        for part in content:
            if (source := _source_of(part, kinds)) is not None:
                yield source


def _changed_json(content: Any, change: SourceChange, kinds: Kinds) -> Any:
    if not isinstance(content, list):
        return content
    return [_changed_part(part, change, kinds) for part in content]


def _changed_part(part: Any, change: SourceChange, kinds: Kinds) -> Any:
    source = _source_of(part, kinds)
    if source is None:
        return part
    block = part if isinstance(part, dict) else msgspec.to_builtins(part)
    return {**block, "source": msgspec.to_builtins(change(source))}


def _source_of(part: Any, kinds: Kinds) -> MediaSource | None:
    if isinstance(part, Image):
        return part.source
    if isinstance(part, Document):
        return part.source if "document" in kinds else None
    if not isinstance(part, dict) or part.get("type") not in kinds or "source" not in part:
        return None
    try:
        return msgspec.convert(part["source"], MediaSource)
    except msgspec.ValidationError:
        return None  # some JSON that merely looks like one
