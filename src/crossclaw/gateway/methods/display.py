"""Rendering for pages: Markdown in, HTML out that is safe to insert. An addition to OpenClaw's methods; its
clients do not know it, and do without."""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256

import anyio
import anyio.to_thread

from crossclaw.display.html import to_html
from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Caller, Params, Result, method

ITEMS_MAX = 256  # more than a page shows at once
CHARS_MAX = 256_000  # in all: some tenths of a second of work
THREADS_MAX = 1  # Python works on one at a time; more would only take the loop's share
KEPT_CHARS_MAX = 8_000_000  # of HTML: pages ask again for what they showed a moment ago


class Item(Params, frozen=True):
    id: str
    markdown: str


class RenderParams(Params, frozen=True):
    items: list[Item]


class Rendered(Result, frozen=True):
    id: str
    html: str


class RenderResult(Result, frozen=True):
    items: list[Rendered]


class Renderer:
    """Renders Markdown off the event loop: however short a text is, its author decides what it costs."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(THREADS_MAX)
        self._kept: OrderedDict[bytes, str] = OrderedDict()
        self._kept_chars = 0

    @method(
        "display.render",
        "operator.read",
        "read",
        "Markdown as HTML without scripts, styles or fetched pictures. Ours, not OpenClaw's.",
    )
    async def render(self, caller: Caller, params: RenderParams) -> RenderResult:
        chars = sum(len(item.markdown) for item in params.items)
        if len(params.items) > ITEMS_MAX or chars > CHARS_MAX:
            raise Invalid(
                f"at most {ITEMS_MAX} items with {CHARS_MAX:,} characters in all are rendered in one"
                " call; ask in several"
            )
        pages = await self._pages({_digest(item.markdown): item.markdown for item in params.items})
        return RenderResult(
            items=[
                Rendered(id=item.id, html=pages[_digest(item.markdown)]) for item in params.items
            ]
        )

    async def _pages(self, texts: dict[bytes, str]) -> dict[bytes, str]:
        """The texts as HTML; those that were rendered lately are there already."""
        pages = {digest: html for digest in texts if (html := self._find(digest)) is not None}
        missing = [digest for digest in texts if digest not in pages]
        for digest in missing:  # one by one, so that others get their turn between
            pages[digest] = await anyio.to_thread.run_sync(
                to_html, texts[digest], limiter=self._threads
            )
        self._keep((digest, pages[digest]) for digest in missing)
        return pages

    def _find(self, digest: bytes) -> str | None:
        html = self._kept.get(digest)
        if html is not None:
            self._kept.move_to_end(digest)
        return html

    def _keep(self, pages: Iterable[tuple[bytes, str]]) -> None:
        for digest, html in pages:
            self._kept_chars += len(html) - len(self._kept.pop(digest, ""))
            self._kept[digest] = html
        while self._kept_chars > KEPT_CHARS_MAX:
            self._kept_chars -= len(self._kept.popitem(last=False)[1])


def _digest(markdown: str) -> bytes:
    return sha256(markdown.encode("utf-8", "surrogatepass")).digest()
