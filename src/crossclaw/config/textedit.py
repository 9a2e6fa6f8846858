"""Editing JSON5 as text: one value put in, replaced or taken out, everything around it left as it stands,
comments, spacing and quotation marks included."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyjson5

from crossclaw.config.positions import KeyPath

_LINE_CHARS = 80
_BREAKS = re.compile(r"[\n\r\u2028\u2029]|//|/\*")

_TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<mark>[{}\[\]:,])
      | (?P<word>[^\s\ufeff{}\[\]:,"'/]+)""",
    re.DOTALL | re.VERBOSE,
)


class _Token(NamedTuple):
    text: str
    start: int
    end: int


class TextSpan(NamedTuple):
    start: int
    end: int


def spans_of(text: str) -> dict[KeyPath, TextSpan]:
    """Where every value stands in a text that is known to be well formed."""
    spans: dict[KeyPath, TextSpan] = {}
    tokens = _tokens(text)
    _value((), next(tokens), tokens, spans)
    return spans


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield _Token(match[0], match.start(), match.end())


def _value(
    path: KeyPath, token: _Token, tokens: Iterator[_Token], spans: dict[KeyPath, TextSpan]
) -> None:
    end = token.end
    if token.text in "{[":
        inside = _members if token.text == "{" else _items
        end = inside(path, tokens, spans)
    spans[path] = TextSpan(token.start, end)


def _members(path: KeyPath, tokens: Iterator[_Token], spans: dict[KeyPath, TextSpan]) -> int:
    for token in tokens:
        if token.text == "}":
            return token.end
        if token.text != ",":
            next(tokens)  # the colon
            _value((*path, _key(token.text)), next(tokens), tokens, spans)
    raise ValueError("an object without its end")


def _items(path: KeyPath, tokens: Iterator[_Token], spans: dict[KeyPath, TextSpan]) -> int:
    index = 0
    for token in tokens:
        if token.text == "]":
            return token.end
        if token.text == ",":
            index += 1
        else:
            _value((*path, index), token, tokens, spans)
    raise ValueError("a list without its end")


def _key(text: str) -> str:
    return str(pyjson5.decode(text if text[0] in "\"'" else f'"{text}"'))


def replace_value(text: str, path: KeyPath, value: Any) -> str:
    span = spans_of(text)[path]
    new = written(value, _indent_at(text, span.start))
    return text[: span.start] + new + text[span.end :]


def insert_last(text: str, path: KeyPath, value: Any, key: str | None = None) -> str:
    """As the last thing in the list or object at `path`; in an object under `key`."""
    span = spans_of(text)[path]
    if not _BREAKS.search(text[span.start : span.end]):
        line = _inserted_in_line(text, span, value, key)
        if line is not None:
            return line
    inside = [token for token in _tokens(text[: span.end - 1]) if token.start >= span.start]
    last, outer = inside[-1], _indent_at(text, span.start)
    indent = outer + "  "
    new = ("" if key is None else f"{json.dumps(key)}: ") + written(value, indent)
    comma = "" if last.text == "," or len(inside) == 1 else ","
    between = text[last.end : span.end - 1]
    # Comments after the last value stay where they are: the new one goes behind them.
    kept = between.rstrip()
    return f"{text[: last.end]}{comma}{kept}\n{indent}{new}\n{outer}{text[span.end - 1 :]}"


def remove_member(text: str, path: KeyPath) -> str:
    """Without the member or item at `path`, its comma, and the line that it alone stood on."""
    span = spans_of(text)[path]
    tokens = list(_tokens(text))
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
    """What stands on one line stays on it, as long as there is room."""
    before, close = text[: span.end - 1].rstrip(), text[span.end - 1 :]
    new = ("" if key is None else f"{json.dumps(key)}: ") + json.dumps(value, ensure_ascii=False)
    room = before[-1] in "{[,"
    whole = before + ("" if before[-1] in "{[" else " " if room else ", ") + new + close
    begin = whole.rfind("\n", 0, span.start) + 1
    line = whole[begin:].partition("\n")[0]
    return whole if len(line) <= _LINE_CHARS else None


def written(value: Any, indent: str = "") -> str:
    """As JSON, which every JSON5 reader reads too; what fits a line stays on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + len(indent) <= _LINE_CHARS:
        return line
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n" + indent)


def _indent_at(text: str, place: int) -> str:
    begin = text.rfind("\n", 0, place) + 1
    line = text[begin:place]
    return line[: len(line) - len(line.lstrip())]
