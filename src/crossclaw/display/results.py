"""Tool results for people: a table if there are rows, names and values if there are few, otherwise
JSON with line breaks.

A long one is shortened to its beginning, its end, and how much is between. The result is Markdown,
so that every place shows it in its own way.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from crossclaw.display.columns import columns
from crossclaw.domain.texts import with_ellipsis

LINES_MAX = 24  # about a screen; the transcript has it whole
TAIL_LINES = 6  # an error is usually said at the end
LINE_CHARS_MAX = 500  # minified files have lines of megabytes
CELL_CHARS_MAX = 48
COLUMNS_MAX = 6  # more do not fit a screen side by side
JSON_CHARS_MAX = 400_000  # what a tool may answer; beyond that nobody reads it as JSON


def result_markdown(content: Any) -> str:
    texts = _texts(content)
    if texts is not None:
        return "\n\n".join(_of_text(text) for text in texts if text.strip())
    return _of_value(content)


def fold(text: str, lines_max: int = LINES_MAX) -> str:
    lines = [with_ellipsis(line, LINE_CHARS_MAX) for line in text.strip("\n").split("\n")]
    if len(lines) <= lines_max + 1:
        return "\n".join(lines)
    tail = min(TAIL_LINES, lines_max // 2)
    head = lines_max - tail
    left_out = f"… {len(lines) - lines_max:,} more lines …"
    return "\n".join([*lines[:head], left_out, *lines[len(lines) - tail :]])


def fenced(text: str, language: str = "") -> str:
    """The text in a fence longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _texts(content: Any) -> list[str] | None:
    """The texts of a string or of content blocks; None for anything else."""
    if isinstance(content, str):
        return [content]
    is_block = (
        isinstance(part, dict) and part.get("type") in ("text", "image") for part in content or []
    )
    if not isinstance(content, list) or not content or not all(is_block):
        return None
    return [
        str(part.get("text") or "") if part["type"] == "text" else "(a picture)" for part in content
    ]


def _of_text(text: str) -> str:
    if text.lstrip()[:1] in ("{", "[") and len(text) <= JSON_CHARS_MAX:
        try:
            return _of_value(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            pass
    return fenced(fold(text))


def _of_value(value: Any) -> str:
    if _are_rows(value):
        return _table(value)
    if isinstance(value, dict) and value:
        rows = {name: part for name, part in value.items() if _are_rows(part)}
        rest = {name: part for name, part in value.items() if name not in rows}
        if all(_is_plain(part) for part in rest.values()) and len(rows) <= 1:
            plain = [(str(name), _words(part)) for name, part in rest.items()]
            shown = [fenced(fold("\n".join(columns(plain))))] if plain else []
            tables = [f"{_escaped(str(n))}:\n\n{_table(r)}" for n, r in rows.items()]
            return "\n\n".join([*shown, *tables])
    pretty = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return fenced(fold(pretty), "json")


def _are_rows(value: Any) -> bool:
    """Whether a value is a list of flat objects with the same few names."""
    if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
        return False
    names = _names(value)
    return 0 < len(names) <= COLUMNS_MAX and all(
        _is_plain(v) for row in value for v in row.values()
    )


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _table(rows: Sequence[dict[str, Any]]) -> str:
    names = _names(rows)
    shown = rows[:LINES_MAX] if len(rows) > LINES_MAX + 1 else rows
    lines = [_table_line(names), _table_line(["---"] * len(names), escape=False)]
    lines += [_table_line([_words(row.get(name)) for name in names]) for row in shown]
    if len(shown) < len(rows):
        lines += ["", f"… {len(rows) - len(shown):,} more rows"]
    return "\n".join(lines)


def _table_line(cells: Sequence[str], *, escape: bool = True) -> str:
    texts = (_escaped(with_ellipsis(cell, CELL_CHARS_MAX)) if escape else cell for cell in cells)
    return f"| {' | '.join(texts)} |"


def _words(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case _:
            return " ".join(str(value).split())


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~#!&])", r"\\\1", text)
