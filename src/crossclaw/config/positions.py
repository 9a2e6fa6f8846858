"""Positions: a JSON5 text in tokens, and where every key and value of it stands.

Only read when there is something to complain about or to edit; the fast parser keeps no positions.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pyjson5

from crossclaw.domain.aliases import KeyPath

TokenKind = Literal["open_comment", "string", "open_string", "mark", "word", "other"]

_TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
      | (?P<open_comment>/\*)
      | (?P<string>"(?:\\(?:\r\n|.)|[^"\\\n\r])*"|'(?:\\(?:\r\n|.)|[^'\\\n\r])*')
      | (?P<open_string>["'])
      | (?P<mark>[{}\[\]:,])
      | (?P<word>[^\s\ufeff{}\[\]:,"'/]+)
      | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)


class Token(NamedTuple):
    kind: TokenKind
    text: str
    start: int
    end: int


class TextSpan(NamedTuple):
    start: int
    end: int


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens without spaces and comments; what cannot be JSON5 is a token too, of a kind that says so."""
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield Token(match.lastgroup, match[0], match.start(), match.end())  # type: ignore[arg-type]


def has_comments(text: str) -> bool:
    found = _TOKEN.finditer(text)
    return any(match.lastgroup == "skip" and match[0].startswith("/") for match in found)


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line of every key; the first line is 1. A key written twice stands where it was written last, as
    its value does."""
    breaks = [found.start() for found in re.finditer("\n", text)]
    starts = Positions(text).starts
    return {path: bisect_left(breaks, start) + 1 for path, start in starts.items()}


def keys_twice(text: str) -> list[KeyPath]:
    return Positions(text).twice


def spans_of(text: str) -> dict[KeyPath, TextSpan]:
    """The position of every value."""
    return Positions(text).spans


class Positions:
    """The positions in a text that is known to be well formed."""

    def __init__(self, text: str) -> None:
        self.starts: dict[KeyPath, int] = {}
        """The beginning of each member, with its key, and of each item."""
        self.spans: dict[KeyPath, TextSpan] = {}
        self.twice: list[KeyPath] = []
        self._tokens = tokens_of(text)
        self._value((), next(self._tokens))

    def _value(self, path: KeyPath, token: Token) -> None:
        self.starts.setdefault(path, token.start)
        end = token.end
        if token.text in "{[":
            end = self._members(path) if token.text == "{" else self._items(path)
        self.spans[path] = TextSpan(token.start, end)

    def _members(self, path: KeyPath) -> int:
        for token in self._tokens:
            if token.text == "}":
                return token.end
            if token.text != ",":
                here = (*path, _key(token.text))
                if here in self.starts:
                    self.twice.append(here)
                    self._forget(here)
                self.starts[here] = token.start
                next(self._tokens)  # the colon
                self._value(here, next(self._tokens))
        raise ValueError("an object without its end")

    def _items(self, path: KeyPath) -> int:
        index = 0
        for token in self._tokens:
            if token.text == "]":
                return token.end
            if token.text == ",":
                index += 1
            else:
                self._value((*path, index), token)
        raise ValueError("a list without its end")

    def _forget(self, path: KeyPath) -> None:
        """Forgets the first of two values of a key: only the last one is read."""
        for old in [each for each in self.starts if each[: len(path)] == path]:
            del self.starts[old], self.spans[old]


def _key(text: str) -> str:
    return str(pyjson5.decode(text if text[0] in "\"'" else f'"{text}"'))
