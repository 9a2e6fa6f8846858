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
        self._ends_in_cr = False
        self._has_begun = False

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
        """The piece with every kind of line end as one; whether a \\r at its end is half of one is seen in the next."""
        if not self._has_begun:
            self._has_begun, piece = True, piece.removeprefix(_MARK)
        if self._ends_in_cr:
            piece = b"\r" + piece
        self._ends_in_cr = piece.endswith(b"\r")
        if b"\r" not in piece:
            return piece
        return piece.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")


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
