"""Mention patterns: regular expressions of the config by which a message calls an agent. Strangers write the
messages, so a pattern that could take long on some text is refused when the config is read."""

import re
import unicodedata
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

REPEATS_MAX = (
    2  # two of them over 500 characters, from every place: some ten million steps at worst
)
REPEAT_FEW = 8


def mention_pattern(text: str) -> re.Pattern[str]:
    """A pattern that cannot take long on any text; ValueError says why another one cannot be used."""
    try:
        compiled = re.compile(text, re.I)
        parsed = parser.parse(text, re.I)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if _repeats(parsed, inside=False) > REPEATS_MAX:
        raise ValueError(
            f"repeats more than {REPEATS_MAX} things without end, which can take very long"
        )
    return compiled


def _repeats(parsed: Any, *, inside: bool) -> int:
    """How many parts repeat without a small limit. One inside another, a choice or a group inside one, and what
    refers back can take exponential time."""
    found = 0
    for code, value in parsed:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            low, high, part = value
            endless = high is codes.MAXREPEAT or high > REPEAT_FEW
            if inside and low != high:
                raise ValueError("repeats something that repeats, which can take very long")
            found += int(endless) + _repeats(part, inside=inside or endless)
        elif code in (codes.GROUPREF, codes.GROUPREF_EXISTS):
            raise ValueError("refers back to a group, which can take very long")
        elif code is codes.BRANCH:
            if inside:
                raise ValueError("repeats a choice, which can take very long")
            found += sum(_repeats(part, inside=inside) for part in value[1])
        elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP, codes.ASSERT, codes.ASSERT_NOT):
            part = value[-1] if isinstance(value, tuple) else value
            found += _repeats(part, inside=inside)
    return found


def name_pattern(name: str) -> re.Pattern[str] | None:
    """A pattern for an agent's name as a word of its own: it calls the agent too."""
    words = unicodedata.normalize("NFC", name).strip()
    if not words:
        return None
    return re.compile(rf"(?<!\w)@?{re.escape(words)}(?!\w)", re.I)
