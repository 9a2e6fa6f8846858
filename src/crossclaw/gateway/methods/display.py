"""Display for pages: Markdown in, HTML out that may be put in as it is. An addition to OpenClaw's
methods; its clients do not know it, and do without."""

from typing import Any

import anyio.to_thread

from crossclaw.display.html import to_html
from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Caller, Method, Params, Result

ITEMS_MAX = 256  # more than a page shows at once
CHARS_MAX = 256_000  # in all: some tenths of a second of work
INLINE_CHARS_MAX = 4_000  # a usual reply takes about a millisecond; a thread costs as much


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


async def render(caller: Caller, params: RenderParams) -> RenderResult:
    chars = sum(len(item.markdown) for item in params.items)
    if len(params.items) > ITEMS_MAX or chars > CHARS_MAX:
        raise Invalid(
            f"at most {ITEMS_MAX} items with {CHARS_MAX:,} characters in all are rendered in one"
            " call; ask in several"
        )
    if chars <= INLINE_CHARS_MAX:
        return _render(params)
    return await anyio.to_thread.run_sync(_render, params)


def _render(params: RenderParams) -> RenderResult:
    return RenderResult(
        items=[Rendered(id=item.id, html=to_html(item.markdown)) for item in params.items]
    )


def methods() -> list[Method[Any]]:
    return [
        Method(
            name="display.render",
            params=RenderParams,
            result=RenderResult,
            scope="operator.read",
            effect="read",
            handle=render,
            summary="Markdown as HTML without scripts, styles or fetched pictures. Ours, not OpenClaw's.",
        )
    ]
