"""The search index on PostgreSQL: words are split and folded here, so that both engines find the
same.

It follows SQLite's `unicode61 remove_diacritics 2`: a word is a run of letters and digits, in lower
case, without accents.
"""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
_ACCENT = re.compile(r"[\u0300-\u036f]")
WORD_CHARS_MAX = 500  # PostgreSQL takes 2,046 bytes
POSITIONS_MAX = 16_383  # what comes behind stands at the last place


def words_in(text: str) -> list[str]:
    plain = text.lower()
    if not plain.isascii():
        bare = _ACCENT.sub("", unicodedata.normalize("NFD", plain))
        plain = unicodedata.normalize("NFC", bare)
    return [word[:WORD_CHARS_MAX] for word in _WORD.findall(plain)]


def vector_of(text: str) -> str:
    """A `tsvector` of the text: each word with its position, for phrases."""
    return " ".join(
        f"{word}:{min(place, POSITIONS_MAX)}" for place, word in enumerate(words_in(text), 1)
    )


def query_of(expression: str) -> str:
    """A `tsquery` of an expression by `match_expression`: each word in quotation marks, the last
    one perhaps a prefix. Words inside one pair of quotation marks must be adjacent."""
    phrases = [words_in(part) for part in re.findall(r'"((?:[^"]|"")*)"', expression)]
    said = [" <-> ".join(words) for words in phrases if words]
    if not said:
        return ""
    return " & ".join(f"({each})" for each in [*said[:-1], said[-1] + ":*"])
