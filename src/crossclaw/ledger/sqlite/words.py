"""The search index: words of every message, written in the transaction that stores it."""

from crossclaw.domain.messages import Message, well_formed_text, words_of
from crossclaw.ledger.database import Database

# A tool may answer megabytes; the beginning is what people look for, and indexing costs time.
WORDS_CHARS_MAX = 20_000


def indexed_words(message: Message) -> str:
    return well_formed_text(words_of(message)[:WORDS_CHARS_MAX])


def put_words(db: Database, rows: list[tuple[int, str]]) -> None:
    db.executemany("INSERT INTO entries_words (rowid, words) VALUES (?, ?)", rows)


def match_expression(words: str) -> str:
    """The search expression: every word must occur, the last one may be a prefix. Words are quoted,
    so that nothing a person types is read as query syntax; a NUL would end the query in the middle
    of a quotation."""
    quoted = ['"' + word.replace('"', '""') + '"' for word in words.replace("\0", " ").split()]
    return " ".join(quoted) + "*" if quoted else ""
