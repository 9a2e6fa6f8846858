"""Signs: what people see as one letter may be several characters: a family of emoji, a flag, a
letter and its accent."""

import unicodedata

_ZWJ = "\u200d"
_BACK_MAX = 64
"""The longest sign; text that is one endless sign is cut all the same."""


def sign_end(text: str, at: int) -> int:
    """The last place up to `at` where no sign is cut in half."""
    for place in range(at, max(0, at - _BACK_MAX), -1):
        if not _is_inside(text, place):
            return place
    return at


def _is_inside(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before == _ZWJ or _goes_on(after):
        return True
    return _is_flag(after) and _is_flag(before) and _flags_before(text, at) % 2 == 1


def _goes_on(letter: str) -> bool:
    """Whether a character continues a sign: accents, variation selectors, skin tones, tags of
    regional flags, and joiners."""
    return (
        letter == _ZWJ
        or unicodedata.category(letter) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= letter <= "\U0001f3ff"
        or "\U000e0020" <= letter <= "\U000e007f"
    )


def _is_flag(letter: str) -> bool:
    """Whether a character is half of a flag."""
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    count = 0
    while count < at and _is_flag(text[at - count - 1]):
        count += 1
    return count
