"""Copies: how far each file has come, stored in memory and, a little later, in the ledger."""

from collections import OrderedDict
from itertools import islice
from math import inf

import msgspec

from crossclaw.domain.media import hidden_chars
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Export, MarkExported
from crossclaw.transcripts.files import CopyName
from crossclaw.transcripts.jsonl import entry_line, entry_lines, header_line

COPIES_MAX = 4_096  # some 500 bytes each; one that was forgotten costs three reads to know again
MARKS_AT_ONCE = 1_000  # one step of the ledger stays short

# Entries read at once: few at first, because each may carry pictures of megabytes, and more while
# they turn out small. Five hundred small ones keep the event loop for some three milliseconds.
STRIDE_FIRST, STRIDE_MAX = 32, 500
STRIDE_BYTES = 1024 * 1024


MEDIA_CHARS_MAX = 8 * 1024 * 1024
"""How many characters of media (base64) are read at once; a larger one is read alone."""


def _within(entries: list[Entry]) -> list[Entry]:
    room = MEDIA_CHARS_MAX
    for number, entry in enumerate(entries):
        room -= hidden_chars(entry.message)
        if room < 0:
            return entries[: max(1, number)]
    return entries


class Chunk(msgspec.Struct, frozen=True):
    """The next lines of a file, for these entries, after the header if it begins here."""

    data: bytes
    entries: list[Entry]
    has_header: bool
    is_full: bool
    """Whether there may be more."""

    def first(self, size: int) -> "Chunk":
        """The lines that are complete within so many bytes."""
        data = self.data[: self.data.rfind(b"\n", 0, size) + 1]
        count = data.count(b"\n") - self.has_header
        return Chunk(data, self.entries[: max(count, 0)], self.has_header, is_full=True)


class Copy:
    """One file: it should have `size` bytes and end with the line of entry `seq`."""

    __slots__ = ("ending", "export", "name", "parent_id", "repaired_at", "seq", "size", "stride")

    def __init__(self, export: Export) -> None:
        self.export = export
        self.name = CopyName(export.agent_id, export.session_id)
        self.seq = 0
        self.size = 0
        self.parent_id: str | None = None
        self.ending = b""
        """The last line that the file should have, as long as that was not compared with the
        file."""
        self.stride = STRIDE_FIRST
        self.repaired_at = -inf

    def note_plain(self) -> None:
        """Notes that it is no compressed file any more."""
        self.export = msgspec.structs.replace(self.export, compressed_at=None)

    def note_repaired(self, at_s: float) -> None:
        self.repaired_at = at_s

    def take(self, chunk: Chunk) -> None:
        """Notes that the file has got these lines."""
        self.size += len(chunk.data)
        self.ending = b""
        if chunk.entries:
            self.seq, self.parent_id = chunk.entries[-1].seq, chunk.entries[-1].entry_id


class Copies:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: OrderedDict[str, Copy] = OrderedDict()
        self._unmarked: dict[str, tuple[int, int]] = {}

    @property
    def has_unmarked(self) -> bool:
        return bool(self._unmarked)

    async def find(self, session_id: str) -> Copy | None:
        copy = self._known.get(session_id)
        if copy is None:
            return await self.load(session_id)
        self._known.move_to_end(session_id)
        return copy

    async def load(self, session_id: str) -> Copy | None:
        """Loads a copy as it was last known, with the line that the file must end with if that is
        still true."""
        export = await self._ledger.find_export(session_id)
        if export is None:
            self.forget(session_id)
            return None
        copy = Copy(export)
        seq, size = self.progress(export)
        if size and export.compressed_at is None:
            await self._recall(copy, seq, size)
        return self._keep(copy)

    def progress(self, export: Export) -> tuple[int, int]:
        """The last seq and the size of a file: from memory, else from the ledger."""
        marked = (export.exported_seq, export.exported_bytes)
        return self._unmarked.get(export.session_id, marked)

    async def read(self, copy: Copy) -> Chunk:
        limit = copy.stride
        entries = await self._ledger.list_entries(
            copy.name.session_id, after=copy.seq, before=copy.seq + limit + 1, limit=limit
        )
        is_full = len(entries) == limit
        taken = _within(entries)
        lines = entry_lines(await self._ledger.with_media(taken), copy.parent_id)
        if len(lines) > STRIDE_BYTES:
            copy.stride = max(1, limit // 2)
        elif is_full:
            copy.stride = min(STRIDE_MAX, limit * 2)
        is_full = is_full or len(taken) < len(entries)
        entries = taken
        header = b"" if copy.size else header_line(copy.export)
        return Chunk(header + lines, entries, bool(header), is_full)

    def note(self, copy: Copy) -> None:
        """Stores in memory how far a copy has come; the ledger gets it later."""
        self._keep(copy)
        self._unmarked[copy.name.session_id] = (copy.seq, copy.size)

    def forget(self, session_id: str) -> None:
        self._known.pop(session_id, None)
        self._unmarked.pop(session_id, None)

    async def mark(self) -> None:
        while self._unmarked:
            marks = list(islice(self._unmarked.items(), MARKS_AT_ONCE))
            exports = [(session_id, seq, size) for session_id, (seq, size) in marks]
            await self._ledger.do(MarkExported(exports=exports))
            for session_id, _ in marks:
                del self._unmarked[session_id]

    def _keep(self, copy: Copy) -> Copy:
        before = self._known.get(copy.name.session_id, copy)
        copy.repaired_at = max(copy.repaired_at, before.repaired_at)
        self._known[copy.name.session_id] = copy
        if len(self._known) > COPIES_MAX:
            self._known.popitem(last=False)
        return copy

    async def _recall(self, copy: Copy, seq: int, size: int) -> None:
        """Sets a copy to the stored mark. A mark that cannot be true (the ledger was restored from
        a backup) is ignored; then the file is read from its beginning."""
        parent_id, ending = None, header_line(copy.export)
        if seq:
            entries = await self._ledger.list_entries(
                copy.name.session_id, after=max(0, seq - 2), before=seq + 1, limit=2
            )
            if not entries or entries[-1].seq != seq:
                return
            before_id = entries[0].entry_id if len(entries) > 1 else None
            (last,) = await self._ledger.with_media(entries[-1:])
            parent_id, ending = last.entry_id, entry_line(last, before_id)
        if size >= len(ending):
            copy.seq, copy.size, copy.parent_id, copy.ending = seq, size, parent_id, ending
