"""The search index on PostgreSQL: words are cut and folded here, so that both engines find the same.

As SQLite's `unicode61 remove_diacritics 2` does: a word is a run of letters and digits, small, without accents.
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
    """A `tsvector`: each word with its place, for those that are looked for next to each other."""
    return " ".join(
        f"{word}:{min(place, POSITIONS_MAX)}" for place, word in enumerate(words_in(text), 1)
    )


def query_of(expression: str) -> str:
    """A `tsquery` of what `match_expression` has made of a person's words: each in quotation marks, the last one
    perhaps only a beginning. What is together in quotation marks stands together."""
    phrases = [words_in(part) for part in re.findall(r'"((?:[^"]|"")*)"', expression)]
    said = [" <-> ".join(words) for words in phrases if words]
    if not said:
        return ""
    return " & ".join(f"({each})" for each in [*said[:-1], said[-1] + ":*"])
