"""Editing JSON5 as text: one value inserted, replaced or removed, everything around it left as it is,
comments, spacing and quotation marks included."""

import json
import re
from typing import Any

from crossclaw.config.positions import TextSpan, spans_of, tokens_of
from crossclaw.domain.aliases import KeyPath

_LINE_CHARS = 80
_BREAKS = re.compile(r"[\n\r\u2028\u2029]|//|/\*")


def replace_value(text: str, path: KeyPath, value: Any) -> str:
    span = spans_of(text)[path]
    new = written(value, _indent_at(text, span.start))
    return text[: span.start] + new + text[span.end :]


def insert_last(text: str, path: KeyPath, value: Any, key: str | None = None) -> str:
    """The text with a value appended to the list or object at `path`; in an object under `key`."""
    span = spans_of(text)[path]
    if not _BREAKS.search(text[span.start : span.end]):
        line = _inserted_in_line(text, span, value, key)
        if line is not None:
            return line
    inside = [token for token in tokens_of(text[: span.end - 1]) if token.start >= span.start]
    last, outer = inside[-1], _indent_at(text, span.start)
    indent = outer + "  "
    new = ("" if key is None else f"{json.dumps(key)}: ") + written(value, indent)
    comma = "" if last.text == "," or len(inside) == 1 else ","
    between = text[last.end : span.end - 1]
    # Comments after the last value stay where they are: the new one goes behind them.
    kept = between.rstrip()
    return f"{text[: last.end]}{comma}{kept}\n{indent}{new}\n{outer}{text[span.end - 1 :]}"


def remove_member(text: str, path: KeyPath) -> str:
    """The text without the member or item at `path`, its comma, and the line that it alone stood on."""
    span = spans_of(text)[path]
    tokens = list(tokens_of(text))
    value = next(n for n, token in enumerate(tokens) if token.start == span.start)
    first = value if isinstance(path[-1], int) else value - 2  # a key stands before the colon
    start, end = tokens[first].start, span.end
    after = next(token for token in tokens if token.start >= end)
    before = tokens[first - 1]
    if after.text == ",":
        end = after.end
    elif before.text == ",":
        text = text[: before.start] + text[before.end :]
        start, end = start - 1, end - 1
    return _without_empty_line(text, start, end)


def _without_empty_line(text: str, start: int, end: int) -> str:
    begin = text.rfind("\n", 0, start) + 1
    rest = text[end:].partition("\n")[0]
    if not text[begin:start].strip() and begin:
        alone = not rest.strip()
        return (
            text[:begin] + text[end + len(rest) + 1 :]
            if alone
            else text[:start] + text[end:].lstrip(" ")
        )
    return text[:start].rstrip(" ") + text[end:]


def _inserted_in_line(text: str, span: TextSpan, value: Any, key: str | None) -> str | None:
    """The text with a value inserted on the same line; None if the line would get too long."""
    before, close = text[: span.end - 1].rstrip(), text[span.end - 1 :]
    new = ("" if key is None else f"{json.dumps(key)}: ") + json.dumps(value, ensure_ascii=False)
    room = before[-1] in "{[,"
    whole = before + ("" if before[-1] in "{[" else " " if room else ", ") + new + close
    begin = whole.rfind("\n", 0, span.start) + 1
    line = whole[begin:].partition("\n")[0]
    return whole if len(line) <= _LINE_CHARS else None


def written(value: Any, indent: str = "") -> str:
    """The value as JSON, which every JSON5 reader reads too; what fits a line stays on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + len(indent) <= _LINE_CHARS:
        return line
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n" + indent)


def _indent_at(text: str, place: int) -> str:
    begin = text.rfind("\n", 0, place) + 1
    line = text[begin:place]
    return line[: len(line) - len(line.lstrip())]
