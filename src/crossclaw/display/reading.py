"""Reading Markdown: the one parser of the gateway. Raw HTML is text, and a link leads to a safe
place. Any input gives some document: Markdown has no errors."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from crossclaw.display.bounds import TooCostly, check_blocks, check_text
from crossclaw.display.document import (
    Block,
    Code,
    Heading,
    Items,
    Line,
    Paragraph,
    Quote,
    Style,
    StyledText,
    TableBlock,
    ThematicBreak,
)
from crossclaw.display.highlighting import highlighted

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

NESTING_MAX = (
    32  # quotes in quotes; what lies deeper is left out. Hostile text costs this much more
)
SCHEMES = ("http", "https", "mailto")
"""The schemes a link may have. What a model writes must not start programs, scripts or
downloads."""

_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_STYLES: dict[str, Style] = {"strong": "bold", "em": "italic", "s": "strike"}


@cache
def parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415  50 ms, and only when something is shown

    options = {"html": False, "maxNesting": NESTING_MAX, "highlight": _highlight}
    reader = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    reader.validateLink = is_safe_link  # type: ignore[method-assign]
    reader.core.ruler.before("inline", "bounds", check_blocks)
    return reader


def _highlight(code: str, language: str, _rest: str) -> str:
    """Highlighted code; empty if it stays plain: then the parser escapes it itself."""
    return highlighted(code, language) or ""


def is_safe_link(url: str) -> bool:
    """Whether a link has a safe scheme. One without a scheme leads nowhere from a chat, but does no
    harm."""
    scheme = _SCHEME.match("".join(c for c in url if c > " "))
    return scheme is None or scheme[1].lower() in SCHEMES


def find_tokens(markdown: str) -> "list[Token] | None":
    """The tokens of a text; None if it is too costly to parse, and is shown as it was written."""
    try:
        check_text(markdown)
        return parser().parse(markdown)
    except TooCostly:
        return None


def read(markdown: str) -> tuple[Block, ...]:
    tokens = find_tokens(markdown)
    if tokens is None:
        return (Paragraph((StyledText(markdown),)),)
    return tuple(_Reader(tokens).blocks())


class _Reader:
    """Walks through the parser's flat list of opening and closing tokens."""

    def __init__(self, tokens: "Sequence[Token]") -> None:
        self._tokens = tokens
        self._at = 0

    def blocks(self, until: str = "") -> Iterator[Block]:
        while self._at < len(self._tokens):
            token = self._next()
            if token.type == until:
                return
            if (block := self._block(token)) is not None:
                yield block

    def _next(self) -> "Token":
        self._at += 1
        return self._tokens[self._at - 1]

    def _block(self, token: "Token") -> Block | None:
        match token.type:
            case "paragraph_open":
                return Paragraph(self._line())
            case "heading_open":
                return Heading(int(token.tag[1:]), self._line())
            case "fence" | "code_block":
                return Code(token.content.removesuffix("\n"), _language(token.info))
            case "bullet_list_open" | "ordered_list_open":
                return self._items(token)
            case "blockquote_open":
                return Quote(tuple(self.blocks("blockquote_close")))
            case "table_open":
                return self._table()
            case "hr":
                return ThematicBreak()
            case _:
                return None

    def _line(self) -> Line:
        line = tuple(_spans(self._next().children or ()))
        self._next()  # the closing token
        return line

    def _items(self, opening: "Token") -> Items:
        items: list[tuple[Block, ...]] = []
        begin = self._at
        while (token := self._next()).type == "list_item_open":
            items.append(tuple(self.blocks("list_item_close")))
        inside = self._tokens[begin : self._at]
        paragraphs = [
            t for t in inside if t.type == "paragraph_open" and t.level == token.level + 2
        ]
        first = int(opening.attrs.get("start", 1)) if opening.tag == "ol" else None
        return Items(tuple(items), first, all(each.hidden for each in paragraphs))

    def _table(self) -> TableBlock:
        rows: list[tuple[Line, ...]] = []
        while (token := self._next()).type != "table_close":
            if token.type == "tr_open":
                rows.append(tuple(self._cells()))
        return TableBlock(rows[0], tuple(rows[1:]))

    def _cells(self) -> Iterator[Line]:
        while self._next().type != "tr_close":
            yield self._line()


def _spans(tokens: "Sequence[Token]") -> Iterator[StyledText]:
    styles: list[Style] = []
    href: str | None = None
    for token in tokens:
        match token.type:
            case "text" if token.content:
                yield StyledText(token.content, tuple(styles), href)
            case "code_inline":
                yield StyledText(token.content, (*styles, "code"), href)
            case "softbreak" | "hardbreak":
                yield StyledText("\n", tuple(styles), href)
            case "image":
                yield _picture(token, tuple(styles), href)
            case "link_open":
                href = str(token.attrs.get("href", ""))
            case "link_close":
                href = None
            case _ if token.nesting == 1:
                styles.append(_STYLES[token.tag])
            case _ if token.nesting == -1:
                styles.remove(_STYLES[token.tag])


def _picture(token: "Token", styles: tuple[Style, ...], href: str | None) -> StyledText:
    """A picture as a link to it. Fetching it would tell its host who reads this, and whatever a
    tricked model has written into the address."""
    source = str(token.attrs.get("src", ""))
    return StyledText(token.content or source or "picture", styles, href or source or None)


def _language(info: str) -> str:
    """The language after a fence: its first word, if that can be one."""
    word = info.strip().partition(" ")[0]
    return word if re.fullmatch(r"[\w+#.-]{1,40}", word) else ""
