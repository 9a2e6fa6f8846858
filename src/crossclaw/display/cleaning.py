"""Cleaning: text of others for a terminal, without what would control it.

A terminal obeys what it is shown: sequences that begin with ESC or one of the C1 characters write
to the clipboard, rename the window, change what was shown before. Marks that change the direction
of writing show another text than there is. None of them is needed in words.
"""

import re
import unicodedata
from typing import NewType

Clean = NewType("Clean", str)
"""Text that is safe to show in a terminal. Only `cleaned` makes it."""

# Beside what has a look of its own: line ends, tabs, and the two joiners by which emoji and scripts are spelled.
_KEPT = frozenset("\n\t\u200c\u200d")
_SEQUENCE = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, clipboards, links
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)?"  # for the terminal itself
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, movements
    r"|\x1b[ -/]*[0-~]?"
)
# C1, and what changes direction or is not seen: escapes in JSON, which is shown on terminals, too.
_STEERING = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def cleaned(text: str) -> Clean:
    """The text without sequences and control characters; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return Clean(text)
    return Clean("".join(filter(_is_shown, _SEQUENCE.sub("", text))))


def in_one_line(text: str) -> Clean:
    """A name or a reason on one line: it cannot begin a line of its own, which would look like
    ours."""
    return Clean(" ".join(cleaned(text).split()))


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in _KEPT or unicodedata.category(character) == "Zs"


def escaped_json(text: str) -> Clean:
    """JSON with such characters as escapes: a program reads them back as they were. Those below the
    blank are escapes in every JSON."""
    return Clean(_STEERING.sub(lambda found: _escape(found[0]), text))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in pairs)
