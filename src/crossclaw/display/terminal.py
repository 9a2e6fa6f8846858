"""Markdown on a terminal: drawn by rich, read by the house's own parser."""

from typing import TYPE_CHECKING

from crossclaw.display.reading import tokens_of

if TYPE_CHECKING:
    from rich.markdown import Markdown


def to_terminal(markdown: str) -> "Markdown":
    """Rich's own reading leaves raw HTML out, and a person would not see what was said. An address
    is printed beside its words: not every terminal shows where a link leads."""
    from rich.markdown import Markdown  # noqa: PLC0415  40 ms, and only on a terminal

    drawn = Markdown("", hyperlinks=False)
    drawn.parsed = tokens_of(markdown)
    return drawn


def open_block(markdown: str) -> int:
    """Where the last block begins: everything before it will not change any more."""
    tops = [token.map[0] for token in tokens_of(markdown) if token.level == 0 and token.map]
    if not tops:
        return 0
    lines = markdown.splitlines(keepends=True)
    return sum(map(len, lines[: tops[-1]]))
