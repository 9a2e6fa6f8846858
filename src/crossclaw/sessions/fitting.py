"""Fitting: how much of a history goes into one answer. Every history is cut here and nowhere else.

From one end, as many messages as a limit of bytes allows; one that is over it all by itself comes shortened, as
its id, role, size and beginning. So an answer is never empty while there are messages, and nothing is left out
silently.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from crossclaw.domain.media import PICTURES, hidden_chars
from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Image,
    Message,
    Thinking,
    ToolResultMessage,
    UserMessage,
    words_of,
)
from crossclaw.domain.sessions import Entry
from crossclaw.domain.texts import with_ellipsis
from crossclaw.ledger.contract import Ledger
from crossclaw.sessions.rows import UNREADABLE, is_unreadable

BEGINNING_CHARS = 400

T = TypeVar("T")


class PageWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a transcript is asked for, and how large the answer may be."""

    limit: int
    bytes_max: int
    alone_max: int | None = None
    """How large one entry may be that comes alone; None: as large as all."""
    before: int | None = None
    after: int | None = None
    """Given: the oldest after it, in place of the newest."""
    tool_results: bool = True
    notes: bool = False
    """Whether all that a transcript has is shown, also what is no message."""


class HistoryPage(NamedTuple, Generic[T]):
    shown: list[T]
    dropped: int
    """How many were read and had no room."""
    first: int
    """The number of the first entry that is shown, or was read; 0 where there is none."""
    last: int


def is_said(entry: Entry) -> bool:
    """Whether an entry is a message, or stands for one that is damaged."""
    return entry.message is not None or is_unreadable(entry)


async def read_page(
    ledger: Ledger,
    session_id: str,
    show: Callable[[Entry], T],
    shorten: Callable[[Entry, int], T],
    wanted: PageWanted,
) -> HistoryPage[T]:
    bytes_max, alone_max, forward = wanted.bytes_max, wanted.alone_max, wanted.after is not None
    read = await ledger.list_entries(
        session_id,
        limit=wanted.limit,
        before=wanted.before,
        after=wanted.after or 0,
        forward=forward,
        tool_results=wanted.tool_results,
        notes=wanted.notes,
    )
    found = [entry for entry in read if wanted.notes or is_said(entry)]
    found = await _with_media(ledger, found, bytes_max, alone_max=alone_max, oldest=forward)
    shown = fitting(found, bytes_max, show, shorten, alone_max=alone_max, oldest=forward)
    kept = found[: len(shown)] if forward else found[len(found) - len(shown) :]
    ends = kept or read
    return HistoryPage(
        shown,
        dropped=len(found) - len(shown),
        first=ends[0].seq if ends else 0,
        last=ends[-1].seq if ends else 0,
    )


async def _with_media(
    ledger: Ledger,
    entries: Sequence[Entry],
    bytes_max: int,
    *,
    alone_max: int | None = None,
    oldest: bool = False,
) -> list[Entry]:
    """The entries as `fitting` takes them with the same limits: with the bytes of their pictures and files in them,
    as far as these fit. Of others only the size is needed."""
    most = alone_max or bytes_max

    def weigh(entry: Entry) -> tuple[Entry, int]:
        hidden = hidden_chars(entry.message, PICTURES)
        return entry, hidden if hidden <= most else 0

    near = _within(entries, bytes_max, weigh, oldest=oldest)
    return await _filled(ledger, entries, [entry for entry in near if weigh(entry)[1]])


async def with_small_media(ledger: Ledger, entries: Sequence[Entry], bytes_max: int) -> list[Entry]:
    """The entries with the bytes of their pictures and files, as far as each alone fits."""
    wanted = [entry for entry in entries if 0 < hidden_chars(entry.message, PICTURES) <= bytes_max]
    return await _filled(ledger, entries, wanted)


async def _filled(ledger: Ledger, entries: Sequence[Entry], wanted: Sequence[Entry]) -> list[Entry]:
    """All entries; the wanted ones with their bytes."""
    found = await ledger.with_media(wanted, PICTURES) if wanted else []
    filled = {entry.seq: entry for entry in found}
    return [filled.get(entry.seq, entry) for entry in entries]


def fitting(
    entries: Sequence[Entry],
    bytes_max: int,
    show: Callable[[Entry], T],
    shorten: Callable[[Entry, int], T],
    *,
    alone_max: int | None = None,
    oldest: bool = False,
) -> list[T]:
    """The entries that fit, in order, from the newest on or from the oldest. `alone_max`, where given, is how large one
    may be that comes alone."""
    most = alone_max or bytes_max
    return _within(
        entries, bytes_max, lambda entry: _fitted(entry, most, show, shorten), oldest=oldest
    )


def _within(
    entries: Sequence[Entry],
    bytes_max: int,
    fit: Callable[[Entry], tuple[T, int]],
    *,
    oldest: bool,
) -> list[T]:
    """Takes from one end as many as there is room for, by the size that `fit` says; the first in any case."""
    room, taken = bytes_max, list[T]()
    for entry in entries if oldest else reversed(entries):
        made, size = fit(entry)
        room -= size
        if room < 0 and taken:
            break
        taken.append(made)
    return taken if oldest else taken[::-1]


def _fitted(
    entry: Entry, bytes_max: int, show: Callable[[Entry], T], shorten: Callable[[Entry, int], T]
) -> tuple[T, int]:
    shown = show(entry)
    size = len(msgspec.json.encode(shown)) + hidden_chars(entry.message, PICTURES)
    if size <= bytes_max or entry.message is None:
        return shown, size
    short = shorten(entry, size)
    return short, len(msgspec.json.encode(short))


def shortened(entry: Entry, size: int) -> dict[str, Any]:
    """A message that is too large, as the session tools show it."""
    message = entry.message
    assert message is not None
    return {
        "id": entry.entry_id,
        "role": role_of(message),
        "timestamp": message.timestamp or entry.at,
        "omitted": True,
        "bytes": size,
        "beginning": beginning_of(message),
    }


def role_of(message: Message) -> str:
    match message:
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case ToolResultMessage():
            return "toolResult"


def previewed(entry: Entry, chars_max: int) -> dict[str, str]:
    """An entry as sessions.preview shows it: a line for whoever looks at many sessions."""
    message = entry.message
    if message is None:
        return {"role": "system", "text": UNREADABLE[:chars_max]}
    role = "tool" if isinstance(message, ToolResultMessage) else role_of(message)
    text = words_of(message) or beginning_of(message)
    return {"role": role, "text": with_ellipsis(text, chars_max)}


def beginning_of(message: Message) -> str:
    """The first words of a message, and what else it holds that is not words."""
    begun = with_ellipsis(words_of(message), BEGINNING_CHARS)
    return "\n".join(filter(None, [begun, *_wordless(message)]))


def _wordless(message: Message) -> list[str]:
    content = message.content
    if not isinstance(content, list):
        return []
    if isinstance(message, ToolResultMessage):
        pictures = sum(isinstance(each, dict) and each.get("type") == "image" for each in content)
        return [f"[pictures: {pictures}]"] if pictures else []
    kinds = [each.source.media_type for each in content if isinstance(each, Image)]
    files = [each.title or "file" for each in content if isinstance(each, Document)]
    thoughts = any(isinstance(each, Thinking) for each in content)
    return [
        *(f"[picture: {kind or 'image'}]" for kind in kinds),
        *(f"[file: {name}]" for name in files),
        *(["[thinking]"] if thoughts else []),
    ]
