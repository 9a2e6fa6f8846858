"""A text as the messages of a chat, without the plain text that delivery keeps beside each."""

from crossclaw.display.chunks import piece_pairs
from crossclaw.display.dialects import ChatDialect


def chunks(markdown: str, dialect: ChatDialect, chars_max: int | None = None) -> list[str]:
    return [formatted for _plain, formatted in piece_pairs(markdown, dialect, chars_max)]
