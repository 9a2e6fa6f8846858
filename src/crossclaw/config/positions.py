"""Positions: the line of every key and list item in a JSON5 text that is known to be well formed.

Only read when there is something to complain about; the fast parser keeps no positions.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pyjson5

KeyPath = tuple[str | int, ...]

_TOKEN = r"""
        (?P<skip>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<mark>[{}\[\]:,])
      | (?P<word>[^\s\ufeff{}\[\]:,"'/]+)"""


class _Token(NamedTuple):
    text: str
    line: int


def lines_of(text: str) -> dict[KeyPath, int]:
    """The first line is 1. A key written twice stands where it was written last, as its value does."""
    scan = _Scan(_tokens(text))
    scan.value((), next(scan.tokens))
    return scan.lines


def keys_twice(text: str) -> list[KeyPath]:
    scan = _Scan(_tokens(text))
    scan.value((), next(scan.tokens))
    return scan.twice


def has_comments(text: str) -> bool:
    found = re.finditer(_TOKEN, text, re.DOTALL | re.VERBOSE)
    return any(match.lastgroup == "skip" and match[0].startswith("/") for match in found)


class _Scan:
    def __init__(self, tokens: Iterator[_Token]) -> None:
        self.tokens = tokens
        self.lines: dict[KeyPath, int] = {}
        self.twice: list[KeyPath] = []

    def value(self, path: KeyPath, token: _Token) -> None:
        self.lines.setdefault(path, token.line)
        if token.text == "{":
            self._object(path)
        elif token.text == "[":
            self._array(path)

    def _object(self, path: KeyPath) -> None:
        for token in self.tokens:
            if token.text == "}":
                return
            if token.text == ",":
                continue
            here = (*path, _key(token.text))
            if here in self.lines:
                self.twice.append(here)
                self._forget(here)
            self.lines[here] = token.line
            next(self.tokens)  # the colon
            self.value(here, next(self.tokens))

    def _forget(self, path: KeyPath) -> None:
        """What stood there the first time is not read by anybody."""
        for old in [each for each in self.lines if each[: len(path)] == path]:
            del self.lines[old]

    def _array(self, path: KeyPath) -> None:
        index = 0
        for token in self.tokens:
            if token.text == "]":
                return
            if token.text == ",":
                index += 1
                continue
            self.lines[(*path, index)] = token.line
            self.value((*path, index), token)


def _tokens(text: str) -> Iterator[_Token]:
    line, counted = 1, 0
    for match in re.finditer(_TOKEN, text, re.DOTALL | re.VERBOSE):
        if match.lastgroup == "skip":
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        yield _Token(match[0], line)


def _key(text: str) -> str:
    quoted = text if text[0] in "\"'" else f'"{text}"'
    return str(pyjson5.decode(quoted))
