"""EventStream: reads server-sent events from the bytes of an answer (WHATWG HTML, "Server-sent events"; 2026-11-18).

Of an event only its name and its data are kept. Names of lines that nobody knows, comments, and an event that the end of
the stream has cut are passed over, as the standard says.
"""

from typing import NamedTuple

_MARK = b"\xef\xbb\xbf"  # which some servers put before a text in UTF-8


class StreamedEvent(NamedTuple):
    name: str
    data: str


class EventTooLarge(Exception):
    """An event has more bytes than anybody can use."""


class EventStream:
    """Finds the events in a stream of bytes that arrives in pieces of any size."""

    def __init__(self, event_bytes_max: int) -> None:
        self._bytes_max = event_bytes_max
        self._held = bytearray()
        """What came since the last empty line, with lines that end in \\n."""
        self._ended_in_return = False
        self._beginning: bytes | None = b""
        """What came so far, while it may still become the mark."""

    def feed(self, piece: bytes) -> list[StreamedEvent]:
        """The events that are whole with this piece."""
        looked_at = max(0, len(self._held) - 1)
        self._held += self._lines(piece)
        end = self._held.rfind(b"\n\n", looked_at)
        if end < 0:
            blocks = []
        else:
            blocks = bytes(self._held[:end]).split(b"\n\n")
            del self._held[: end + 2]
        if len(self._held) > self._bytes_max or max(map(len, blocks), default=0) > self._bytes_max:
            raise EventTooLarge
        return [event for block in blocks if (event := _event(block)) is not None]

    def _lines(self, piece: bytes) -> bytes:
        """The piece with every kind of line end as one. A \\r ends its line at once, also where it is half of an end."""
        if self._beginning is not None:
            piece = self._behind_mark(self._beginning + piece)
        if not piece:
            return b""
        if self._ended_in_return:
            piece = piece.removeprefix(b"\n")
        self._ended_in_return = piece.endswith(b"\r")
        if b"\r" not in piece:
            return piece
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _behind_mark(self, text: bytes) -> bytes:
        if len(text) < len(_MARK) and _MARK.startswith(text):
            self._beginning = text
            return b""
        self._beginning = None
        return text.removeprefix(_MARK)


def _event(block: bytes) -> StreamedEvent | None:
    name, data = b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if not data:
        return None
    return StreamedEvent(
        name.decode("utf-8", "replace"), b"\n".join(data).decode("utf-8", "replace")
    )
