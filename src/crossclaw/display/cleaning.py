"""Cleaning: text of others on its way to a terminal, without what would steer it.

A terminal obeys what it is shown: sequences that begin with ESC or one of the C1 characters write to the
clipboard, rename the window, move what was said before. Marks that change the direction of writing show
another text than there is. None of them is needed in words.
"""

import re
from typing import NewType

Clean = NewType("Clean", str)
"""Text that a terminal may be shown; made by `cleaned`, or written in this source."""

# All that is neither a character with a look of its own nor a blank, but line ends, tabs, and the joiner and
# the non-joiner, by which emoji and several scripts are spelled.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_SEQUENCE = re.compile(
    r"\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, clipboards, links
    r"|[\x1b][PX^_][^\x1b\x9c]*(?:\x1b\\|\x9c)?"  # strings for the terminal itself
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, movements
    r"|\x1b[ -/]*[0-~]?"
)


def cleaned(text: str) -> Clean:
    """Without sequences and control characters; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return Clean(text)
    return Clean(_STEERING.sub("", _SEQUENCE.sub("", text)))


def one_line(text: str) -> Clean:
    return Clean(" ".join(cleaned(text).split()))


def escaped_json(text: str) -> str:
    """JSON text in which the same characters stand as escapes: programs read them back as they were."""
    return _STEERING.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    if character in "\r":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in pairs)
