"""Pieces: splits a reply into messages that its platform accepts, in its dialect and within its
limit."""

from collections.abc import Sequence
from typing import NamedTuple

from crossclaw.channels.accounts import LiveAccount
from crossclaw.display.chunks import piece_pairs
from crossclaw.display.dialects import DIALECTS, ChatDialect
from crossclaw.domain.media import shown_size
from crossclaw.ledger.operations import Delivery, DeliveryFile

PIECES_MAX = (
    200  # a reply of 400,000 characters on Discord; what is longer is cut off with a word about it
)


class PieceText(NamedTuple):
    text: str
    """The piece in plain text."""
    formatted: str
    """The piece in the platform's dialect."""
    file: int | None = None
    """The index of the reply's file that goes with it."""


def pieces_of(text: str, live: LiveAccount) -> list[PieceText]:
    """The pieces of a text, at least one. Unchanged, if the platform has no dialect and it fits."""
    limit = _limit(live)
    dialect = _dialect(live)
    if dialect is None:
        dialect = DIALECTS["plain"]
        if dialect.length(text) <= limit:
            return [PieceText(text, text)]
    paragraphs = live.settings.chunk_mode == "newline"
    made = [PieceText(*each) for each in piece_pairs(text, dialect, limit, apart=paragraphs)]
    if len(made) > PIECES_MAX:
        said = "(The rest is too long for a chat; it is in the session's history.)"
        made = [*made[: PIECES_MAX - 1], PieceText(said, dialect.escape(said))]
    return made or [PieceText(text, text)]


def may_be_several(delivery: Delivery, live: LiveAccount) -> bool:
    """Whether a delivery may be several messages, by a cheap look. If not, it is one, unless
    formatting and a prefix make it twice as long."""
    apart = live.settings.chunk_mode == "newline"
    is_long = 2 * len(delivery.text) > _limit(live)
    return bool(delivery.files) or is_long or (apart and "\n" in delivery.text)


def messages_of(delivery: Delivery, live: LiveAccount) -> list[PieceText]:
    """The messages of a delivery. Its files come first, each a message of its own, then the text; a
    text that fits becomes the caption of the first file."""
    if not delivery.files:
        return pieces_of(delivery.text, live)
    sent, refused = _sortable(delivery.files, live)
    text = "\n\n".join(filter(None, [delivery.text.strip(), *refused]))
    if not sent:
        return pieces_of(text, live)
    words = pieces_of(text, live) if text else []
    files = [PieceText("", "", index) for index in sent]
    if len(words) == 1 and _fits_under(words[0], delivery.files[sent[0]], live):
        return [PieceText(words[0].text, words[0].formatted, sent[0]), *files[1:]]
    return [*files, *words]


def _sortable(files: Sequence[DeliveryFile], live: LiveAccount) -> tuple[list[int], list[str]]:
    """The indices of the files that can be sent there, and a note for each that cannot."""
    limit = int(media_limit_mb(live) * 2**20)
    sent, refused = list[int](), list[str]()
    for index, file in enumerate(files):
        if not live.traits.files:
            refused.append(f"({file.name}: files cannot be sent here.)")
        elif file.size > limit:
            most = shown_size(limit)
            refused.append(f"({file.name} is too large for this chat, which takes {most}.)")
        else:
            sent.append(index)
    return sent, refused


def media_limit_mb(live: LiveAccount) -> float:
    """The largest file that may be received or sent, in MB."""
    return live.settings.media_max_mb or live.traits.media_max_mb


def _fits_under(words: PieceText, file: DeliveryFile, live: LiveAccount) -> bool:
    limit = live.traits.caption_limit
    if file.kind == "audio":
        return False  # several platforms show no words with a voice message
    if limit is None:
        return True
    return (_dialect(live) or DIALECTS["plain"]).length(words.formatted) <= limit


def _dialect(live: LiveAccount) -> ChatDialect | None:
    name = live.traits.dialect
    return DIALECTS.get(name) if name else None


def _limit(live: LiveAccount) -> int:
    """The longest message: as configured, and never more than the platform accepts."""
    wanted = live.settings.text_chunk_limit
    return min(wanted or live.traits.text_limit, live.traits.text_limit)
