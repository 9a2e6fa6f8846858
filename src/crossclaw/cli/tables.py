"""Tables: columns that fit the terminal, and times as people say them."""

import shutil
from collections.abc import Sequence

from crossclaw.cli.say import in_one_line, on_terminal
from crossclaw.display.columns import GAP, padded, width

_CELL_CHARS_MIN = 12  # narrower than this, a cut key says nothing


def terminal_columns() -> int:
    """The terminal's width; 160 in a pipe."""
    return shutil.get_terminal_size().columns if on_terminal() else 160


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """One line a row. On a terminal the widest columns give way; in a pipe nothing is cut."""
    cells = [[_cell(value) for value in row] for row in ([*head], *rows)]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    if on_terminal():
        _fit(widths, shutil.get_terminal_size().columns)
    return "\n".join(_line(row, widths) for row in cells)


def _fit(widths: list[int], columns: int) -> None:
    over = sum(widths) + len(GAP) * (len(widths) - 1) - columns
    while over > 0 and max(widths) > _CELL_CHARS_MIN:
        widths[widths.index(max(widths))] -= 1
        over -= 1


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (padded(_cut(text, wide), wide) for text, wide in zip(row, widths, strict=True))
    return GAP.join(cells).rstrip()


def _cut(text: str, wide: int) -> str:
    """The text without its middle: what tells one long key from another is mostly at its end, so that stays."""
    if width(text) <= wide:
        return text
    end = _last(text, wide // 3)
    return _first(text, wide - 1 - width(end)) + "…" + end


def beginning(text: str, wide: int) -> str:
    """The beginning of a text, with a sign if there is more."""
    return text if width(text) <= wide else _first(text, wide - 1) + "…"


def _first(text: str, wide: int) -> str:
    kept = text
    while width(kept) > wide:
        kept = kept[:-1]
    return kept


def _last(text: str, wide: int) -> str:
    kept = text
    while width(kept) > wide:
        kept = kept[1:]
    return kept


def _cell(value: object) -> str:
    return "–" if value is None else in_one_line(str(value))


def pairs(entries: Sequence[tuple[str, object]]) -> str:
    wide = max(len(name) for name, _ in entries)
    return "\n".join(f"{name:<{wide}}  {_cell(value)}" for name, value in entries)


def ago(then_ms: float | None, now_ms: float) -> str | None:
    if then_ms is None:
        return None
    passed_s = max(0, round((now_ms - then_ms) / 1000))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if passed_s >= size:
            return f"{passed_s // size} {unit} ago"
    return f"{passed_s} s ago"
