"""Untrusted JSON: checked before it is decoded.

A decoder holds the event loop until it is done, in a thread as well; so what others send is bounded by what
decoding it would cost, and not by its bytes alone. Bytes are cheap (10 MB of one text take some milliseconds),
values are not: 10 MB of `[],` are three million lists and take a second. The characters that begin a value are
counted, also inside of texts, where they cost nothing; the limit is far above what a person or a model writes
in one piece.
"""

import json
import re
from itertools import chain
from typing import Any

import msgspec

from crossclaw.domain.errors import Invalid

VALUES_MAX = 150_000  # about 0.1 s of decoding at worst; a table of 1 MB has as many cells
DEPTH_MAX = 100  # nobody nests deeper, and everything that walks a value may recurse so far
ID_SEARCHED_CHARS = 16_384  # where the id of something that cannot be decoded is looked for
ESCAPES_MAX = 100_000  # for the slow decoder that takes half a surrogate pair

_SCALAR = re.compile(r'[^\s,{}\[\]"]+')
_SPACE = re.compile(r"\s*")
_strings = json.JSONDecoder()
_decode = msgspec.json.Decoder().decode


class TooHeavy(Invalid):
    """Decoding it would block the event loop for too long."""


def check_weight(data: bytes | str) -> None:
    """Raises if the JSON has too many values. Call it before decoding; what is no JSON at all is left to the
    decoder."""
    if _openings(data) + _count(data, ",") > VALUES_MAX:
        raise TooHeavy(f"more than {VALUES_MAX} values in one piece of JSON")


def check_depth(value: Any) -> None:
    """Raises if a value is nested too deeply. Goes level by level, so that it does not recurse itself."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = list(chain.from_iterable(map(_inside, level)))
        if not level:
            return
    raise TooHeavy(f"nested deeper than {DEPTH_MAX} levels")


def decode(data: bytes | str) -> Any:
    """Decodes JSON of others to plain values. Raises `TooHeavy`, or `msgspec.DecodeError` for what is none."""
    check_weight(data)
    try:
        value = _decode(data)
    except RecursionError:
        raise TooHeavy(f"nested deeper than {DEPTH_MAX} levels") from None
    if _openings(data) > DEPTH_MAX:
        check_depth(value)
    return value


def check(data: bytes | str) -> None:
    """Checks weight and depth of JSON that another part decodes."""
    check_weight(data)
    if _openings(data) <= DEPTH_MAX:
        return
    try:
        decode(data)
    except msgspec.DecodeError:
        pass  # no JSON: whoever decodes it says so
    except UnicodeDecodeError:
        pass


def decode_leniently(text: str) -> Any:
    """Decodes like `decode`, and takes half a surrogate pair too: some servers cut their words so."""
    try:
        return decode(text)
    except msgspec.DecodeError:
        if text.count("\\") > ESCAPES_MAX:
            raise TooHeavy(
                "it is not valid JSON, and has too many escapes to be read more leniently"
            ) from None
        try:
            value = json.loads(text)
        except RecursionError:
            raise TooHeavy(f"nested deeper than {DEPTH_MAX} levels") from None
        check_depth(value)
        return value


def find_id(data: bytes | str) -> str | None:
    """The text under `id` of an object that could not be decoded: of a short one wherever it stands, of a
    long one if it stands near the beginning, before what is nested."""
    try:
        if len(data) <= ID_SEARCHED_CHARS:
            found = json.loads(data)["id"]
        else:
            head = data[:ID_SEARCHED_CHARS]
            found = _id_ahead(head if isinstance(head, str) else head.decode("utf-8", "replace"))
        found.encode("utf-8")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) and 0 < len(found) <= 256 else None


def _id_ahead(text: str) -> str | None:
    at = _expect(text, 0, "{")
    while True:
        key, at = _strings.raw_decode(text, _expect(text, at, '"') - 1)
        at = _skip(text, _expect(text, at, ":"))
        if text[at] == '"':
            value, at = _strings.raw_decode(text, at)
            if key == "id":
                return str(value)
        else:
            scalar = _SCALAR.match(text, at)
            if scalar is None:
                return None  # something nested: what is behind it is too far away
            at = scalar.end()
        at = _expect(text, at, ",")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, letter: str) -> int:
    at = _skip(text, at)
    if text[at] != letter:
        raise ValueError(letter)
    return at + 1


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _openings(data: bytes | str) -> int:
    return _count(data, "[") + _count(data, "{")


def _count(data: bytes | str, letter: str) -> int:
    return data.count(letter) if isinstance(data, str) else data.count(letter.encode())
