"""Markdown as HTML that a page may insert: made by the parser, then sanitised again."""

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from crossclaw.display.highlighting import CLASSES
from crossclaw.display.reading import SCHEMES, find_tokens, parser

if TYPE_CHECKING:
    from nh3 import Cleaner

TAGS = frozenset(
    [
        *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre"),
        *("blockquote", "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td", "span"),
    ]
)
ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "ol": {"start"},
    "th": {"align"},
    "td": {"align"},
}
CHARS_MAX = 300_000  # of HTML made by marks; a page should not choke on what it draws
BOXES = {"[ ] ": "☐ ", "[x] ": "☑ "}
_ALIGNED = "text-align:"


def to_html(markdown: str) -> str:
    """Safe HTML: no script, no style, no picture that is fetched. There are two guards: the parser
    lets no HTML through, and the sanitiser knows only the tags above."""
    tokens = find_tokens(markdown)
    if tokens is None:
        return as_written(markdown)
    for token in tokens:
        _tame(token)
    _tick(tokens)
    html: str = parser().renderer.render(tokens, parser().options, {})
    clean = _cleaner().clean(html)
    return clean if len(clean) <= CHARS_MAX else as_written(markdown)


def as_written(markdown: str) -> str:
    return f"<pre>{escape(markdown)}</pre>"


def _tame(token: Any) -> None:
    style = str(token.attrs.pop("style", ""))
    if style.startswith(_ALIGNED):  # a page's policy may forbid inline styles
        token.attrs["align"] = style.removeprefix(_ALIGNED)
    token.children = [part for child in token.children or () for part in _unpictured(child)] or None


def _tick(tokens: "Sequence[Any]") -> None:
    """Puts a box before the items of a task list, such as `- [ ] milk`."""
    for opened, _paragraph, token in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if opened.type != "list_item_open" or token.type != "inline" or not token.children:
            continue
        first = token.children[0]
        if first.type == "text" and first.content[:4].lower() in BOXES:
            first.content = BOXES[first.content[:4].lower()] + first.content[4:]


def _unpictured(token: Any) -> list[Any]:
    """A picture as a link: `![a](u)` becomes `[a](u)`; see `reading.py` for the reason."""
    if token.type != "image":
        return [token]
    from markdown_it.token import Token  # noqa: PLC0415  loaded by now

    source = token.attrs.get("src", "")
    text = Token("text", "", 0, content=token.content or source or "picture")
    return [Token("link_open", "a", 1, attrs={"href": source}), text, Token("link_close", "a", -1)]


@cache
def _cleaner() -> "Cleaner":
    import nh3  # noqa: PLC0415  only when something is shown

    return nh3.Cleaner(
        tags=set(TAGS),
        attributes=ATTRIBUTES,
        allowed_classes={"span": set(CLASSES)},
        url_schemes=set(SCHEMES),
        url_relative="deny",  # from a page it would lead into the gateway itself
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        strip_comments=True,
    )
