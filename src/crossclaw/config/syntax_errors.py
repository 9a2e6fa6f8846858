"""Reads JSON5; where a text stops being that, says what the likely cause is, in plain words.

The cause is looked for only when the parser has refused a text. What is said goes to logs and over the wire, so it
names marks, lines and keys, but never a value: that may be a secret.
"""

import re
from typing import Any, Literal, NamedTuple

import pyjson5

from crossclaw.config.positions import Token, tokens_of
from crossclaw.domain.errors import Invalid

NESTING_MAX = 32  # a real config needs about ten; twice this, by includes, fits Python's stack

Expected = Literal["value", "item", "key", "colon", "comma", "end"]

_NAME = re.compile(r"(?:[^\W\d]|[$]|\\u[0-9a-fA-F]{4})(?:\w|[$\u200c\u200d]|\\u[0-9a-fA-F]{4})*")
_CLOSES = {"{": "}", "[": "]"}
_MERGE = re.compile(r"<{7}|={7}|>{7}|\|{7}")
_TYPOGRAPHIC = "“”„‟‘’‚«»"
_SPELT = {"true": "true", "yes": "true", "on": "true"} | {"false": "false", "no": "false"}
_SPELT |= {"off": "false", "none": "null", "nil": "null", "null": "null", "undefined": "null"}


class SyntaxFault(NamedTuple):
    at: int
    """The character where it shows, counted from 0."""
    why: str


class NotJson5(Invalid):
    """A text could not be read. Its words name place and cause, for whoever says of what."""

    def __init__(self, text: str, fault: SyntaxFault) -> None:
        self.why = fault.why
        self.line, self.column = place_of(text, fault.at)
        self.excerpt = excerpt(text, fault.at)
        """The place in the text, for a terminal. Not part of the words: other things stand on that line too."""
        super().__init__(f"line {self.line}, column {self.column}: {fault.why}")


class NestedTooDeeply(NotJson5):
    pass


def parse_json5(text: str) -> Any:
    try:
        return pyjson5.decode(text, NESTING_MAX)
    except pyjson5.Json5NestingTooDeep as error:
        why = f"it is nested deeper than {NESTING_MAX} levels"
        raise NestedTooDeeply(text, SyntaxFault(_near(error), why)) from None
    except pyjson5.Json5DecoderException as error:
        unclear = SyntaxFault(_near(error), "it is not clear to the parser either why")
        raise NotJson5(text, find_fault(text) or unclear) from None


def _near(error: Exception) -> int:
    """The fast parser says `near 17`, counting characters."""
    near = re.search(r"near (\d+)", str(error.args[0]))
    return max(0, int(near[1]) - 1) if near else 0


class _Malformed(Exception):
    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.fault = SyntaxFault(at, why)


def find_fault(text: str) -> SyntaxFault | None:
    """The first place at which the text cannot go on as JSON5; None where it can all the way."""
    try:
        _Reader(text).read()
    except _Malformed as malformed:
        return malformed.fault
    return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[Token] = []
        self._expected: Expected = "value"
        self._last: Token | None = None
        self._key = ""

    def read(self) -> None:
        for token in tokens_of(self._text):
            self._refuse_unclosed(token)
            self._expected = self._take(token)
            self._last = token
        if self._expected == "end":
            return
        at = len(self._text.rstrip())
        if not self._open:
            raise _Malformed(
                len(self._text), "there is nothing in it but comments; write {} into it"
            )
        last = self._open[-1]
        raise _Malformed(
            at,
            f"the text ends, and the {last.text} of line {self._line(last)} is still open: "
            f"a {_CLOSES[last.text]} is missing",
        )

    def _line(self, token: Token) -> int:
        return self._text.count("\n", 0, token.start) + 1

    def _refuse_unclosed(self, token: Token) -> None:
        if token.kind == "open_string":
            raise _Malformed(
                token.start, f"this text is not closed on its line: a {token.text} is missing"
            )
        if token.kind == "open_comment":
            raise _Malformed(token.start, "this comment is never closed: a */ is missing")
        if token.kind == "other":
            raise _Malformed(token.start, "a lone / means nothing here; a comment begins with //")
        if token.kind == "word":
            _refuse_strangers(token)

    def _take(self, token: Token) -> Expected:
        match self._expected:
            case "value" | "item":
                return self._value(token)
            case "key":
                return self._named(token)
            case "colon":
                return self._colon(token)
            case "comma":
                return self._comma(token)
            case "end":
                raise _Malformed(token.start, _too_much(token))

    def _value(self, token: Token) -> Expected:
        if token.kind == "mark":
            return self._begin(token)
        try:
            pyjson5.decode(token.text)
        except pyjson5.Json5DecoderException:
            raise _Malformed(token.start, _no_value(token)) from None
        return self._after()

    def _begin(self, token: Token) -> Expected:
        if token.text in _CLOSES:
            self._open.append(token)
            return "key" if token.text == "{" else "item"
        if token.text == "]" and self._expected == "item":
            return self._close(token)
        if self._expected == "item":
            raise _Malformed(token.start, self._no_item(token))
        of_whom = f"{self._key} has no value" if self._open else "a value is missing"
        raise _Malformed(token.start, f"{of_whom}: something must stand before this {token.text}")

    def _no_item(self, token: Token) -> str:
        if token.text == ",":
            return "there is one comma too many"
        if token.text == ":":
            return "a list has no keys; an item with keys is an object: { … }"
        return self._wrong_end(token)

    def _named(self, token: Token) -> Expected:
        if token.kind == "mark":
            return self._no_name(token)
        plain = token.kind == "string" or _NAME.fullmatch(token.text)
        if not plain:
            raise _Malformed(token.start, _no_key(token))
        _refuse_bad_escape(token)
        bare = token.text.strip("\"'")
        self._key = token.text if _NAME.fullmatch(bare) else "this key"
        return "colon"

    def _no_name(self, token: Token) -> Expected:
        if token.text == "}":
            return self._close(token)
        if token.text == "]":
            raise _Malformed(token.start, self._wrong_end(token))
        if token.text == ",":
            raise _Malformed(token.start, "there is one comma too many")
        raise _Malformed(token.start, f"a key is missing before this {token.text}")

    def _colon(self, token: Token) -> Expected:
        if token.text == ":":
            return "value"
        if token.text.startswith("="):
            raise _Malformed(token.start, "between a key and its value stands a colon, not =")
        # Not by its name: without a colon nobody knows whether it is a key, or a value after a slip.
        raise _Malformed(self._end_of_last(), "a colon is missing after this key")

    def _comma(self, token: Token) -> Expected:
        container = self._open[-1].text
        if token.text == ",":
            return "key" if container == "{" else "item"
        if token.text == _CLOSES[container]:
            return self._close(token)
        if token.kind == "mark" and token.text in "}]":
            raise _Malformed(token.start, self._wrong_end(token))
        if token.text == ":" and container == "[":
            raise _Malformed(
                token.start, "a list has no keys; an item with keys is an object: { … }"
            )
        if token.text == ":":
            raise _Malformed(token.start, "a second colon: is a comma missing before it?")
        raise _Malformed(self._end_of_last(), self._no_comma(token))

    def _no_comma(self, token: Token) -> str:
        last = self._last
        if last and last.kind == "string" and last.end == token.start:
            return (
                "the text ends here; a quotation mark that belongs to it is written "
                f"\\{last.text[0]}, and between two values stands a comma"
            )
        return "a comma is missing here"

    def _wrong_end(self, token: Token) -> str:
        last = self._open[-1]
        return (
            f"this {token.text} cannot close the {last.text} of line {self._line(last)}: "
            f"a {_CLOSES[last.text]} is missing before it, or meant"
        )

    def _close(self, token: Token) -> Expected:
        self._open.pop()
        return self._after()

    def _after(self) -> Expected:
        return "comma" if self._open else "end"

    def _end_of_last(self) -> int:
        return self._last.end if self._last else 0


def _refuse_strangers(token: Token) -> None:
    """Refuses what people bring from other formats."""
    if token.text[0] == "#":
        raise _Malformed(token.start, "a comment begins with //, not with #")
    if token.text[0] in _TYPOGRAPHIC:
        raise _Malformed(token.start, 'a typographic quotation mark; write a straight one: "')
    if _MERGE.match(token.text):
        raise _Malformed(token.start, "a merge has left this mark; keep one of the two versions")


def _refuse_bad_escape(token: Token) -> None:
    quoted = token.text if token.kind == "string" else f'"{token.text}"'
    try:
        pyjson5.decode(quoted)
    except pyjson5.Json5DecoderException:
        raise _Malformed(token.start, _no_value(token._replace(kind="string"))) from None


def _no_value(token: Token) -> str:
    if token.kind == "string":
        return (
            r"a \ in this text begins an escape that JSON5 does not have; a \ itself is written \\"
        )
    if spelt := _SPELT.get(token.text.lower()):
        return f"this is written {spelt}; as a text it needs quotation marks"
    if token.text[0] in "+-.0123456789":
        return "this is no number; as a text it needs quotation marks"
    return "a text needs quotation marks around it"


def _no_key(token: Token) -> str:
    if "=" in token.text:
        return "between a key and its value stands a colon, not ="
    return "this key needs quotation marks: only letters, digits, _ and $ go without"


def _too_much(token: Token) -> str:
    if token.kind == "mark" and token.text in "}]":
        return f"one {token.text} too many: everything is closed before it"
    return "the whole is closed before this: is a } above it too many?"


# ── how it is shown ────────────────────────────────────────────────────────────────────────────

_LINE_CHARS = 76  # of a line that is shown, on both sides of its mark
_SECRET = re.compile(
    r"""(?i)([\w-]*(?:token|key|secret|passw|auth)[\w-]*["']?\s*[:=]\s*)("[^"]*"?|'[^']*'?|[^\s,{}\[\]]+)"""
)
_LONG = re.compile(r"""[\w+/=.~-]{16,}+(?!["']?\s*:)""")
"""A text that is as long as a secret, and no key: the word before it may be what is broken."""


class TextPosition(NamedTuple):
    line: int
    column: int


def place_of(text: str, at: int) -> TextPosition:
    """Line and column of a character, both counted from 1, as editors do."""
    begin = text.rfind("\n", 0, at) + 1
    return TextPosition(text.count("\n", 0, at) + 1, at - begin + 1)


def excerpt(text: str, at: int) -> str:
    """The line with a mark below. Values of keys that sound like a secret are dotted out, and whatever is as
    long as one."""
    begin = text.rfind("\n", 0, at) + 1
    line = _SECRET.sub(_dotted, text[begin:].partition("\n")[0].rstrip("\r"))
    line = _LONG.sub(lambda found: "·" * len(found[0]), line)
    left = max(0, at - begin - _LINE_CHARS // 2)
    shown = "".join(c if c.isprintable() else " " for c in line[left : left + _LINE_CHARS])
    number = f"{place_of(text, at).line} │ "
    return f"  {number}{shown}\n  {' ' * (len(number) - 2)}│ {' ' * (at - begin - left)}^"


def _dotted(match: re.Match[str]) -> str:
    return match[1] + re.sub(r"[^\"'{}\[\]\s]", "·", match[2])
