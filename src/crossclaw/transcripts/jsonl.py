"""Lines of a transcript: what one looks like, and what is wrong with those that look otherwise.

    {"type":"session","version":3,"id":…,"timestamp":…,"key":…,"agentId":…}
    {"type":"message","id":…,"parentId":…,"seq":1,"timestamp":…,"runId":…,"message":{…}}
    {"type":"compaction"|"note","id":…,"parentId":…,"seq":2,"timestamp":…,"runId":…,"data":{…}}

The same entries always give the same bytes; so a file can be compared with the ledger byte by byte.
A pin is not told, because it may change later and a line never does.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from crossclaw.domain.messages import Message
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.operations import Export

VERSION = 3

_LAST_MS = 253_402_300_799_999  # the year 9999: a clock gone mad must not stop the copy


class HeaderLine(msgspec.Struct, frozen=True, tag_field="type", tag="session", rename="camel"):
    version: int
    id: str
    timestamp: str
    key: str
    agent_id: str


class _EntryLine(msgspec.Struct, frozen=True, tag_field="type", rename="camel"):
    id: str
    parent_id: str | None
    seq: int
    timestamp: str
    run_id: str | None


class MessageLine(_EntryLine, frozen=True, tag="message"):
    message: Message


class NoteLine(_EntryLine, frozen=True, tag="note"):
    data: dict[str, Any]


class CompactionLine(_EntryLine, frozen=True, tag="compaction"):
    data: dict[str, Any]


EntryLine = MessageLine | NoteLine | CompactionLine

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[HeaderLine | EntryLine] = msgspec.json.Decoder(
    HeaderLine | EntryLine
)


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def header_line(export: Export) -> bytes:
    made_at = iso_time(export.created_at)
    header = HeaderLine(VERSION, export.session_id, made_at, export.key, export.agent_id)
    return _encoder.encode(header) + b"\n"


def entry_line(entry: Entry, parent_id: str | None) -> bytes:
    return _encoder.encode(_line_of(entry, parent_id)) + b"\n"


def entry_lines(entries: Sequence[Entry], parent_id: str | None) -> bytes:
    """The lines of consecutive entries; `parent_id` is the entry before the first."""
    parents = [parent_id, *(entry.entry_id for entry in entries)]
    return _encoder.encode_lines(map(_line_of, entries, parents))


def iso_time(at: int) -> str:
    seconds, ms = divmod(min(max(at, 0), _LAST_MS), 1000)
    return f"{_to_the_second(seconds)}.{ms:03}Z"


# Entries come close together: this was two thirds of what a line costs.
@lru_cache(maxsize=256)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")


def _line_of(entry: Entry, parent_id: str | None) -> EntryLine:
    place = (entry.entry_id, parent_id, entry.seq, iso_time(entry.at), entry.run_id)
    if entry.message is not None:
        return MessageLine(*place, entry.message)
    kind = CompactionLine if entry.type == "compaction" else NoteLine
    return kind(*place, entry.note or {})


# ── reading ────────────────────────────────────────────────────────────────────────────────────

DamageKind = Literal["torn", "unreadable", "foreign", "hole", "repeated"]

_KIND_TEXTS = {
    "torn": "the last line is cut off",
    "unreadable": "no JSON",
    "foreign": "not a line of this transcript",
    "hole": "entries are missing before it",
    "repeated": "its entry came before",
}


class Damage(msgspec.Struct, frozen=True):
    kind: DamageKind
    line: int
    """The number of the line, from 1 on, as in an editor."""

    def __str__(self) -> str:
        return f"line {self.line}: {_KIND_TEXTS[self.kind]}"


def read_lines(lines: Iterable[bytes]) -> Iterator[HeaderLine | EntryLine | Damage]:
    """Every valid line in order, and the faults in between. Lines keep their line end, as a file
    gives them."""
    expected, parent_id, session_id = 0, None, None
    for number, raw in enumerate(lines, start=1):
        line = _parse(raw, number)
        if isinstance(line, HeaderLine):
            # Only the first line is a header, so a later one came from another transcript or twice.
            if number > 1:
                line = Damage("repeated" if line.id == session_id else "foreign", number)
            else:
                session_id, expected = line.id, 1
        elif not isinstance(line, Damage):
            wrong = _out_of_place(line, expected, parent_id)
            if wrong is not None:
                yield Damage(wrong, number)
            if wrong == "repeated":
                continue
            expected, parent_id = line.seq + 1, line.id
        yield line


def _parse(raw: bytes, number: int) -> HeaderLine | EntryLine | Damage:
    if not raw.endswith(b"\n"):
        return Damage("torn", number)
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        return Damage("foreign", number)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Damage("unreadable", number)


def _out_of_place(line: EntryLine, expected: int, parent_id: str | None) -> DamageKind | None:
    if line.seq < expected:
        return "repeated"
    if line.seq > expected or expected == 0:
        return "hole"
    return None if line.parent_id == parent_id else "foreign"
