"""Dialects: how each chat platform writes a document. The common ground is plain text; a dialect
says what it marks, what it escapes, and how long one message may be."""

import html
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from crossclaw.display.columns import columns, width
from crossclaw.display.document import (
    Block,
    Code,
    Heading,
    Items,
    Paragraph,
    Quote,
    Style,
    StyledText,
    TableBlock,
    ThematicBreak,
    words_in,
)

COLUMNS_MAX = 56  # a table wider than a phone wraps into nonsense; it is written as a list instead


class ChatDialect:
    """The plain dialect, which the others change."""

    name = "plain"
    chars_max = 4_000
    point = "•"
    """The sign in front of an item without a number."""
    marks: ClassVar[dict[Style, tuple[str, str]]] = {}

    def length(self, text: str) -> int:
        """The length as most platforms count it: in UTF-16 units, where an emoji is two."""
        return len(text.encode("utf-16-le", "surrogatepass")) // 2

    def write(self, blocks: Iterable[Block]) -> str:
        return "\n\n".join(filter(None, map(self.block, blocks)))

    def block(self, block: Block) -> str:
        match block:
            case Paragraph(words=words):
                return self.line(words)
            case Heading(level=level, words=words):
                return self.heading(level, words)
            case Code():
                return self.fence(block)
            case Items():
                return self._items(block)
            case Quote(blocks=blocks):
                return self.quote(self.write(blocks))
            case TableBlock():
                return self._table(block)
            case ThematicBreak():
                return self.escape("———")

    # ── what a dialect may say in its own way ──────────────────────────────────────────────────

    def escape(self, text: str) -> str:
        return text

    def code(self, text: str) -> str:
        return text

    def fence(self, code: Code) -> str:
        return code.text

    def link(self, text: str, words: str, href: str) -> str:
        """A link. `text` is its formatted text, `words` the same as it is read. The address is
        always visible."""
        bare = href.removeprefix("mailto:")
        return text if words in (href, bare) else f"{text} ({self.escape(bare)})"

    def heading(self, level: int, words: Sequence[StyledText]) -> str:
        return self.line([_bold(span) for span in words])

    def quote(self, text: str) -> str:
        return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))

    def bullet(self, number: int | None) -> str:
        return self.point if number is None else f"{number}."

    # ── the common ground ──────────────────────────────────────────────────────────────────────

    def line(self, spans: Sequence[StyledText]) -> str:
        written: list[str] = []
        for href, group in groupby(spans, key=lambda span: span.href):
            inside = list(group)
            text = self._styled(inside)
            written.append(self.link(text, words_in(inside), href) if href else text)
        return "".join(written)

    def _styled(self, spans: Iterable[StyledText]) -> str:
        written: list[str] = []
        opened: list[Style] = []
        for span in spans:
            styles = [style for style in _styles_of(span) if style in self.marks]
            while not set(opened) <= set(styles):
                written.append(self.marks[opened.pop()][1])
            for style in styles:
                if style not in opened:
                    opened.append(style)
                    written.append(self.marks[style][0])
            is_code = "code" in span.styles
            written.append(self.code(span.text) if is_code else self.escape(span.text))
        written += [self.marks[style][1] for style in reversed(opened)]
        return "".join(written)

    def _items(self, items: Items) -> str:
        written = []
        for at, blocks in enumerate(items.items):
            bullet = self.bullet(None if items.first is None else items.first + at)
            inner = ("\n" if items.tight else "\n\n").join(map(self.block, blocks))
            written.append(f"{bullet} {inner}".replace("\n", "\n  ").rstrip())
        return ("\n" if items.tight else "\n\n").join(written)

    def _table(self, table: TableBlock) -> str:
        lines = columns([[words_in(cell) for cell in row] for row in (table.head, *table.rows)])
        if max(map(width, lines)) > COLUMNS_MAX:
            return self._items(as_items(table))
        return self.fence(Code("\n".join(lines)))


def as_items(table: TableBlock) -> Items:
    """A table as a list: each row says what its cells are."""
    return Items(tuple((Paragraph(tuple(_row(table, row))),) for row in table.rows))


def _row(table: TableBlock, row: Sequence[Sequence[StyledText]]) -> Iterable[StyledText]:
    for at, (head, cell) in enumerate(zip(table.head, row, strict=False)):
        yield from [StyledText(", ")] if at else []
        yield from [*map(_bold, head), StyledText(": ")] if words_in(head) else []
        yield from cell


def _bold(span: StyledText) -> StyledText:
    return (
        span if "bold" in span.styles else StyledText(span.text, ("bold", *span.styles), span.href)
    )


def _styles_of(span: StyledText) -> tuple[Style, ...]:
    """The styles of a span. Code has no others: some platforms refuse a message that mixes them."""
    return () if "code" in span.styles else span.styles


class TelegramHtml(ChatDialect):
    """The dialect for Telegram's Bot API, `parse_mode: HTML`. It refuses a message with a tag that
    is not closed."""

    name = "telegram"
    chars_max = 4_096
    marks: ClassVar[dict[Style, tuple[str, str]]] = {
        "bold": ("<b>", "</b>"),
        "italic": ("<i>", "</i>"),
        "strike": ("<s>", "</s>"),
    }

    def escape(self, text: str) -> str:
        return html.escape(text, quote=False)

    def code(self, text: str) -> str:
        return f"<code>{self.escape(text)}</code>"

    def fence(self, code: Code) -> str:
        inner = self.escape(code.text)
        if code.language:
            inner = f'<code class="language-{html.escape(code.language)}">{inner}</code>'
        return f"<pre>{inner}</pre>"

    def link(self, text: str, words: str, href: str) -> str:
        return _html_link(text, href)

    def quote(self, text: str) -> str:
        # Quotes cannot stand inside one another there.
        inner = text.replace("<blockquote>", "").replace("</blockquote>", "")
        return f"<blockquote>{inner}</blockquote>"


class TelegramMarkdown(ChatDialect):
    """The dialect for Telegram's Bot API, `parse_mode: MarkdownV2`: every literal mark needs a
    backslash."""

    name = "telegram-markdown"
    chars_max = 4_096
    marks: ClassVar[dict[Style, tuple[str, str]]] = {
        "bold": ("*", "*"),
        "italic": ("_", "_"),
        "strike": ("~", "~"),
    }

    def escape(self, text: str) -> str:
        return re.sub(r"([_*\[\]()~`>#+\-=|{}.!\\])", r"\\\1", text)

    def code(self, text: str) -> str:
        return f"`{_escape_code(text)}`"

    def fence(self, code: Code) -> str:
        return f"```{code.language}\n{_escape_code(code.text)}\n```"

    def link(self, text: str, words: str, href: str) -> str:
        address = re.sub(r"([)\\])", r"\\\1", href)
        return f"[{text}]({address})"

    def quote(self, text: str) -> str:
        return "\n".join(f">{line.removeprefix('>')}" for line in text.split("\n"))

    def bullet(self, number: int | None) -> str:
        return self.escape(super().bullet(number))


class Discord(ChatDialect):
    """Discord's own Markdown. What is not meant as a mark or a mention gets a backslash."""

    name = "discord"
    point = "-"
    chars_max = 2_000
    marks: ClassVar[dict[Style, tuple[str, str]]] = {
        "bold": ("**", "**"),
        "italic": ("*", "*"),
        "strike": ("~~", "~~"),
    }

    def escape(self, text: str) -> str:
        text = re.sub(r"([\\*_~`|<\[\]])", r"\\\1", text)
        text = re.sub(r"^(\s*)([#>+-]|\d+(?=[.)]))", r"\1\\\2", text, flags=re.M)
        return re.sub(r"@(?=everyone|here)", "@\u200b", text)

    def code(self, text: str) -> str:
        return f"`` {text} ``" if "`" in text else f"`{text}`"

    def fence(self, code: Code) -> str:
        return f"```{code.language}\n{_unfenced(code.text)}\n```"

    def link(self, text: str, words: str, href: str) -> str:
        if words in (href, href.removeprefix("mailto:")):
            return words
        return f"[{text}]({href.replace(')', '%29')})"

    def heading(self, level: int, words: Sequence[StyledText]) -> str:
        return f"{'#' * min(level, 3)} {self.line(words)}"


class SlackMrkdwn(ChatDialect):
    """Slack's `mrkdwn`. Only `&`, `<` and `>` can be escaped, which also keeps a model from calling people: a mention
    is written in angle brackets."""

    name = "slack"
    chars_max = 4_000
    marks: ClassVar[dict[Style, tuple[str, str]]] = {
        "bold": ("*", "*"),
        "italic": ("_", "_"),
        "strike": ("~", "~"),
    }

    def escape(self, text: str) -> str:
        return html.escape(text, quote=False)

    def code(self, text: str) -> str:
        return f"`{self.escape(text)}`"

    def fence(self, code: Code) -> str:
        return f"```\n{_unfenced(self.escape(code.text))}\n```"

    def link(self, text: str, words: str, href: str) -> str:
        address = self.escape(href).replace("|", "%7C").replace(" ", "%20")
        return f"<{address}>" if words == href else f"<{address}|{text.replace('|', '¦')}>"


class WhatsApp(ChatDialect):
    """WhatsApp's format: few marks and no way to escape them; a lone star in the text stays a
    star."""

    name = "whatsapp"
    point = "-"
    chars_max = 4_096
    marks: ClassVar[dict[Style, tuple[str, str]]] = {
        "bold": ("*", "*"),
        "italic": ("_", "_"),
        "strike": ("~", "~"),
    }

    def code(self, text: str) -> str:
        return f"`{text}`"

    def fence(self, code: Code) -> str:
        return f"```{_unfenced(code.text)}```"


SIGNAL_MARKS: dict[Style, tuple[str, str]] = {
    "bold": ("\ufdd0", "\ufdd1"),
    "italic": ("\ufdd2", "\ufdd3"),
    "strike": ("\ufdd4", "\ufdd5"),
    "code": ("\ufdd6", "\ufdd7"),
}
"""Marks for styles: characters that Unicode keeps free for such uses; no text has them."""
_SIGNAL_NO_MARK = re.compile("[\ufdd0-\ufdef]")


class Signal(ChatDialect):
    """Signal's format: a text, and beside it ranges with styles, which the channel makes from the
    marks."""

    name = "signal"
    marks: ClassVar[dict[Style, tuple[str, str]]] = {
        style: marks for style, marks in SIGNAL_MARKS.items() if style != "code"
    }

    def length(self, text: str) -> int:
        return super().length(_SIGNAL_NO_MARK.sub("", text))

    def escape(self, text: str) -> str:
        return _SIGNAL_NO_MARK.sub("", text)

    def code(self, text: str) -> str:
        return self.escape(text).join(SIGNAL_MARKS["code"])

    def fence(self, code: Code) -> str:
        return self.code(code.text)


class MatrixHtml(ChatDialect):
    """The HTML that Matrix clients show; everything else is escaped."""

    name = "matrix"
    chars_max = (
        8_000  # with the plain text beside it, of at most three bytes a character, far below 64 KiB
    )
    marks: ClassVar[dict[Style, tuple[str, str]]] = {
        "bold": ("<strong>", "</strong>"),
        "italic": ("<em>", "</em>"),
        "strike": ("<del>", "</del>"),
    }

    def block(self, block: Block) -> str:
        match block:
            case Paragraph(words=words):
                return f"<p>{self.line(words)}</p>"
            case Items():
                return self._list(block)
            case TableBlock():
                return self._rows(block)
            case ThematicBreak():
                return "<hr>"
            case _:
                return super().block(block)

    def escape(self, text: str) -> str:
        return html.escape(text, quote=False).replace("\n", "<br>")

    def code(self, text: str) -> str:
        return f"<code>{html.escape(text, quote=False)}</code>"

    def fence(self, code: Code) -> str:
        language = f' class="language-{html.escape(code.language)}"' if code.language else ""
        return f"<pre><code{language}>{html.escape(code.text, quote=False)}</code></pre>"

    def link(self, text: str, words: str, href: str) -> str:
        return _html_link(text, href)

    def heading(self, level: int, words: Sequence[StyledText]) -> str:
        return f"<h{min(level, 6)}>{self.line(words)}</h{min(level, 6)}>"

    def quote(self, text: str) -> str:
        return f"<blockquote>{text}</blockquote>"

    def _list(self, items: Items) -> str:
        inner = "".join(f"<li>{self._item(blocks, items.tight)}</li>" for blocks in items.items)
        if items.first is None:
            return f"<ul>{inner}</ul>"
        start = "" if items.first == 1 else f' start="{items.first}"'
        return f"<ol{start}>{inner}</ol>"

    def _item(self, blocks: Sequence[Block], tight: bool) -> str:
        if tight and len(blocks) == 1 and isinstance(blocks[0], Paragraph):
            return self.line(blocks[0].words)
        return "".join(map(self.block, blocks))

    def _rows(self, table: TableBlock) -> str:
        head = "".join(f"<th>{self.line(cell)}</th>" for cell in table.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{self.line(cell)}</td>" for cell in row) + "</tr>"
            for row in table.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


class IMessage(ChatDialect):
    name = "imessage"


def _html_link(text: str, href: str) -> str:
    return f'<a href="{html.escape(href)}">{text}</a>'


def _escape_code(text: str) -> str:
    return text.replace("\\", "\\\\").replace("`", "\\`")


def _unfenced(text: str) -> str:
    """The text with three backticks separated by an invisible character: otherwise they would end
    the fence."""
    return text.replace("```", "`\u200b``")


PLAIN = ChatDialect()
DIALECTS: dict[str, ChatDialect] = {
    dialect.name: dialect
    for dialect in (
        PLAIN, TelegramHtml(), TelegramMarkdown(), Discord(), SlackMrkdwn(), WhatsApp(), Signal(),
        IMessage(), MatrixHtml(),
    )
}  # fmt: skip
