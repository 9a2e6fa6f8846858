"""Tables: columns that fit the terminal, and times as people say them."""

import shutil
import unicodedata
from collections.abc import Sequence

from crossclaw.cli.say import cleaned, on_terminal

_GAP = "  "
_CELL_CHARS_MIN = 12  # narrower than this, a cut key says nothing


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """One line a row. On a terminal the widest column gives way; in a pipe nothing is cut."""
    cells = [[_cell(value) for value in row] for row in ([*head], *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    if on_terminal():
        _fit(widths, shutil.get_terminal_size().columns)
    return "\n".join(_line(row, widths) for row in cells)


def _fit(widths: list[int], columns: int) -> None:
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - columns
    if over > 0:
        widest = widths.index(max(widths))
        widths[widest] = max(widths[widest] - over, _CELL_CHARS_MIN)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (_padded(text, width) for text, width in zip(row, widths, strict=True))
    return _GAP.join(padded).rstrip()


def _padded(text: str, width: int) -> str:
    if _width(text) > width:
        text = text[: width - 1] + "…"
    return text + " " * (width - _width(text))


def _cell(value: object) -> str:
    return "–" if value is None else " ".join(cleaned(str(value)).split())


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pairs(entries: Sequence[tuple[str, object]]) -> str:
    width = max(len(name) for name, _ in entries)
    return "\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in entries)


def ago(then_ms: float | None, now_ms: float) -> str | None:
    if then_ms is None:
        return None
    passed_s = max(0, round((now_ms - then_ms) / 1000))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if passed_s >= size:
            return f"{passed_s // size} {unit} ago"
    return f"{passed_s} s ago"
