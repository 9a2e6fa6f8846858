"""Columns: aligns text in a fixed-width font."""

import unicodedata
from collections.abc import Sequence

GAP = "  "


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line a row, each column as wide as its widest cell."""
    count = max(map(len, rows), default=0)
    full = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [max(width(row[at]) for row in full) for at in range(count)]
    return [
        GAP.join(padded(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in full
    ]


def padded(text: str, wide: int) -> str:
    return text + " " * (wide - width(text))


def width(text: str) -> int:
    """The width of a text on a terminal: wide letters take two columns, combining marks none."""
    return sum(_width_of(letter) for letter in text)


def _width_of(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
