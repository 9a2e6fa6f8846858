"""A document: Markdown as blocks of styled text. Messages to chats are made from it, and cut along
its blocks."""

from collections.abc import Sequence
from typing import Literal

import msgspec

Style = Literal["bold", "italic", "strike", "code"]


class StyledText(msgspec.Struct, frozen=True):
    """A stretch of words in one style. `styles` are in the order in which they were opened."""

    text: str
    styles: tuple[Style, ...] = ()
    href: str | None = None


Line = tuple[StyledText, ...]


class Paragraph(msgspec.Struct, frozen=True):
    words: Line


class Heading(msgspec.Struct, frozen=True):
    level: int
    words: Line


class Code(msgspec.Struct, frozen=True):
    text: str
    language: str = ""


class Items(msgspec.Struct, frozen=True):
    items: tuple[tuple["Block", ...], ...]
    first: int | None = None
    """The number of the first item; None if the items have bullets."""
    tight: bool = True


class Quote(msgspec.Struct, frozen=True):
    blocks: tuple["Block", ...]


class TableBlock(msgspec.Struct, frozen=True):
    head: tuple[Line, ...]
    rows: tuple[tuple[Line, ...], ...]


class ThematicBreak(msgspec.Struct, frozen=True):
    pass


Block = Paragraph | Heading | Code | Items | Quote | TableBlock | ThematicBreak


def words_in(line: Sequence[StyledText]) -> str:
    return "".join(span.text for span in line)
