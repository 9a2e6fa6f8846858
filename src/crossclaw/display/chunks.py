"""Chunks: splits a reply into messages that a platform accepts.

A block is put whole into one message if it fits; one that fits into none is cut at the best place,
and each piece is complete in itself: fences and marks are closed and opened again, a table repeats
its head.
"""

from collections.abc import Callable, Iterator

import msgspec

from crossclaw.display.dialects import PLAIN, ChatDialect, as_items
from crossclaw.display.document import (
    Block,
    Code,
    Heading,
    Items,
    Line,
    Paragraph,
    Quote,
    TableBlock,
)
from crossclaw.display.reading import read
from crossclaw.display.signs import sign_end

CHARS_MIN = 64  # below this the marks of a fence would leave no room for its words
_GAP = "\n\n"

Fits = Callable[[Block], bool]


def piece_pairs(
    markdown: str, dialect: ChatDialect, chars_max: int | None = None, *, apart: bool = False
) -> list[tuple[str, str]]:
    """The messages in their order, each in plain text and formatted; none of them is empty. `apart`: every block is a message of its own."""
    room = max(chars_max or dialect.chars_max, CHARS_MIN)
    made: list[tuple[str, str]] = []
    for plain, text in _pieces(read(markdown), dialect, room):
        joined = f"{made[-1][1]}{_GAP}{text}" if made else text
        if made and not apart and dialect.length(joined) <= room:
            made[-1] = (f"{made[-1][0]}{_GAP}{plain}", joined)
        else:
            made.append((plain, text))
    return made


def _pieces(
    blocks: tuple[Block, ...], dialect: ChatDialect, room: int
) -> Iterator[tuple[str, str]]:
    def fits(block: Block) -> bool:
        return dialect.length(dialect.block(block)) <= room

    for block in blocks:
        for piece in _cut(block, fits):
            text = dialect.block(piece).strip("\n")
            if text.strip():
                yield PLAIN.block(piece).strip("\n"), text


def _cut(block: Block, fits: Fits) -> Iterator[Block]:
    if fits(block):
        yield block
        return
    match block:
        case Code():
            yield from _cut_code(block, fits)
        case Paragraph() | Heading():
            yield from _cut_words(block, fits)
        case Items():
            yield from _cut_items(block, fits)
        case Quote(blocks=blocks):
            for inner in blocks:
                quoted = _cut(inner, lambda piece: fits(Quote((piece,))))
                yield from (Quote((piece,)) for piece in quoted)
        case TableBlock():
            yield from _cut_table(block, fits)
        case _:
            yield block


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number that fits; at least one, so that cutting comes to an end."""
    low, high = 1, 2
    while high < count and fits(high):
        low, high = high, high * 2
    high = min(high, count)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _cut_code(code: Code, fits: Fits) -> Iterator[Block]:
    rest = code.text
    while rest:
        take = _most(len(rest), lambda n: fits(Code(rest[:n], code.language)))  # noqa: B023
        if take < len(rest):
            line_end = rest.rfind("\n", 1, take + 1)
            take = line_end if line_end > 0 else sign_end(rest, take)
        yield Code(rest[:take], code.language)
        rest = rest[take:].removeprefix("\n")


def _cut_words(block: Paragraph | Heading, fits: Fits) -> Iterator[Block]:
    rest = block.words
    while text := "".join(span.text for span in rest):
        take = _most(len(text), lambda n: fits(_with(block, _part(rest, 0, n))))  # noqa: B023
        if take < len(text):
            take = _word_end(text, take)
        yield _with(block, _part(rest, 0, take))
        begin = take + len(text[take:]) - len(text[take:].lstrip())
        rest = _part(rest, begin, len(text))


def _with(block: Paragraph | Heading, words: Line) -> Block:
    return msgspec.structs.replace(block, words=words)


def _word_end(text: str, take: int) -> int:
    """The end of a line, a sentence or a word before `take`, if there is one in the second half."""
    for end in ("\n", ". ", " "):
        at = text.rfind(end, take // 2, take + 1)
        if at > 0:
            return at + len(end.rstrip(" \n"))
    return sign_end(text, take)


def _part(words: Line, begin: int, end: int) -> Line:
    spans, at = [], 0
    for span in words:
        piece = span.text[max(0, begin - at) : max(0, end - at)]
        at += len(span.text)
        if piece:
            spans.append(msgspec.structs.replace(span, text=piece))
    return tuple(spans)


def _cut_items(items: Items, fits: Fits) -> Iterator[Block]:
    at = 0
    while at < len(items.items):
        rest = _items_from(items, at, len(items.items))
        take = _most(len(rest.items), lambda n: fits(_items_from(items, at, at + n)))  # noqa: B023
        some = _items_from(items, at, at + take)
        yield from [some] if fits(some) else _cut_item(some, fits)
        at += take


def _items_from(items: Items, begin: int, end: int) -> Items:
    first = None if items.first is None else items.first + begin
    return Items(items.items[begin:end], first, items.tight)


def _cut_item(single: Items, fits: Fits) -> Iterator[Block]:
    """Cuts one item that is too long: only the first piece has its bullet."""

    def with_bullet(piece: Block) -> Items:
        return Items(((piece,),), single.first, single.tight)

    pieces = (
        piece
        for block in single.items[0]
        for piece in _cut(block, lambda piece: fits(with_bullet(piece)))
    )
    for at, piece in enumerate(pieces):
        yield piece if at else with_bullet(piece)


def _cut_table(table: TableBlock, fits: Fits) -> Iterator[Block]:
    at = 0
    while at < len(table.rows):
        take = _most(
            len(table.rows) - at,
            lambda n: fits(TableBlock(table.head, table.rows[at : at + n])),  # noqa: B023
        )
        some = TableBlock(table.head, table.rows[at : at + take])
        yield from [some] if fits(some) else _cut(as_items(some), fits)
        at += take
