"""Bounds: recognises Markdown that is too costly to parse, before it is parsed.

Whoever talks with a model can make it write anything, and the parser is generous: a table of 500
columns fills up every short row, and a bracket looks for its partner through the whole paragraph.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore

CHARS_MAX = 40_000  # more than a model says at once
LINES_MAX = 4_000  # each may begin a block
CELLS_MAX = 2_000  # of all tables; some ten milliseconds
BLOCKS_MAX = 8_000  # tokens: about two thousand paragraphs or items
MARKS_MAX = 20_000  # of emphasis, code, links: about a tenth of a second
BRACKET_MARKS = 20  # what an opening bracket costs, compared with a star

_LINE_END = re.compile(r"\r\n?|\n")
_RULER = re.compile(r"[-:|> \t]*")
"""A pattern for the line below a table's head, also in quotes and lists."""
_MARKS = re.compile(r"[][*_~`<&\\!]")


class TooCostly(Exception):
    """Raised if the text costs too much to parse: it is shown as it was written."""


def check_text(markdown: str) -> None:
    if len(markdown) > CHARS_MAX or len(_LINE_END.findall(markdown)) > LINES_MAX:
        raise TooCostly
    if cells_in(markdown) > CELLS_MAX:
        raise TooCostly


def cells_in(markdown: str) -> int:
    """The most table cells that the parser has to make: it fills up each row until the next empty
    line."""
    cells, columns, rows = 0, 0, 0
    for line in [*_LINE_END.split(markdown), ""]:
        if not line.strip(" \t>"):
            cells += columns * rows
            columns, rows = 0, 0
        elif "-" in line and ("|" in line or ":" in line) and _RULER.fullmatch(line):
            columns = max(columns, line.strip(" \t>|").count("|") + 1)
        rows += 1
    return cells


def check_blocks(state: "StateCore") -> None:
    """A rule of the parser that counts blocks and marks, after its blocks are known and before
    their text is read: code has no marks."""
    marks = sum(marks_in(token.content) for token in state.tokens if token.type == "inline")
    if len(state.tokens) > BLOCKS_MAX or marks > MARKS_MAX:
        raise TooCostly


def marks_in(words: str) -> int:
    return len(_MARKS.findall(words)) + (BRACKET_MARKS - 1) * words.count("[")
