"""Pieces: a reply as the messages that its platform takes, in its dialect and within its limit."""

from typing import NamedTuple

from crossclaw.channels.accounts import LiveAccount
from crossclaw.display.chunks import piece_pairs
from crossclaw.display.dialects import DIALECTS

PIECES_MAX = (
    200  # a reply of 400,000 characters on Discord; what is longer is cut off with a word about it
)


class PieceText(NamedTuple):
    text: str
    """Plain."""
    formatted: str
    """In the platform's dialect."""


def pieces_of(text: str, live: LiveAccount) -> list[PieceText]:
    """At least one. As it was written, where the platform has no dialect and it fits."""
    limit = _limit(live)
    name = live.traits.dialect
    dialect = DIALECTS.get(name) if name else None
    if dialect is None:
        if len(text) <= limit:
            return [PieceText(text, text)]
        dialect = DIALECTS["plain"]
    paragraphs = live.settings is not None and live.settings.chunk_mode == "newline"
    made = [PieceText(*each) for each in piece_pairs(text, dialect, limit, apart=paragraphs)]
    if len(made) > PIECES_MAX:
        said = "(The rest is too long for a chat; it is in the session's history.)"
        made = [*made[: PIECES_MAX - 1], PieceText(said, dialect.escape(said))]
    return made or [PieceText(text, text)]


def _limit(live: LiveAccount) -> int:
    """As the config says, and never more than the platform takes."""
    wanted = live.settings.text_chunk_limit if live.settings else None
    return min(wanted or live.traits.text_limit, live.traits.text_limit)
