"""Markdown on a terminal: drawn by rich, parsed by the gateway's own parser."""

from typing import TYPE_CHECKING

from crossclaw.display.reading import find_tokens

if TYPE_CHECKING:
    from rich.console import RenderableType


def to_terminal(markdown: str) -> "RenderableType":
    """Markdown for a terminal. Rich's own parser leaves raw HTML out, and a person would not see
    what was said. An address is printed beside its text: not every terminal shows where a link
    leads."""
    from rich.markdown import Markdown  # noqa: PLC0415  40 ms, and only on a terminal
    from rich.text import Text  # noqa: PLC0415

    tokens = find_tokens(markdown)
    if tokens is None:
        return Text(markdown)
    drawn = Markdown("", hyperlinks=False)
    drawn.parsed = tokens
    return drawn


def open_block(markdown: str) -> int:
    """The offset at which the last block begins: everything before it will not change any more."""
    tokens = find_tokens(markdown) or ()
    tops = [token.map[0] for token in tokens if token.level == 0 and token.map]
    if not tops:
        return 0
    lines = markdown.splitlines(keepends=True)
    return sum(map(len, lines[: tops[-1]]))
