"""`display.render`: Markdown in, washed HTML out, in bounds."""

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markdown_it import MarkdownIt

from crossclaw.domain.errors import Forbidden, Invalid
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.gateway.methods import display
from crossclaw.gateway.methods.display import CHARS_MAX, ITEMS_MAX, Renderer, RenderParams
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call

READER = person_principal("page", {"operator.read"})
NOBODY = person_principal("stranger", ())


@pytest.fixture
def anyio_backend() -> str:
    """Texts are rendered in a thread, which virtual time does not wait for."""
    return "asyncio"


@pytest.mark.spec("M8")
async def test_a_page_gets_each_text_back_as_html_under_its_id(tmp_path: Path) -> None:
    items = [
        {"id": "m1", "markdown": "**hi** <script>x</script>"},
        {"id": "m1-2", "markdown": "x " * 4_000},
    ]
    async with open_gateway(tmp_path, ScriptedProvider([]), inline=False) as gateway:
        answer = await call(gateway, "display.render", READER, items=items)
        first, second = answer["items"]
        assert first == {
            "id": "m1",
            "html": "<p><strong>hi</strong> &lt;script&gt;x&lt;/script&gt;</p>\n",
        }
        assert (second["id"], second["html"][:4]) == ("m1-2", "<p>x")
        assert await call(gateway, "display.render", READER, items=[]) == {"items": []}


async def test_rendering_is_bounded_and_needs_the_right_to_read(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([]), inline=False) as gateway:
        many = [{"id": str(n), "markdown": ""} for n in range(ITEMS_MAX + 1)]
        with pytest.raises(Invalid, match="ask in several"):
            await call(gateway, "display.render", READER, items=many)
        long = [{"id": "1", "markdown": "x" * (CHARS_MAX + 1)}]
        with pytest.raises(Invalid, match="ask in several"):
            await call(gateway, "display.render", READER, items=long)
        with pytest.raises(Forbidden):
            await call(gateway, "display.render", NOBODY, items=[])


async def test_the_loop_renders_nothing_itself_and_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked: list[tuple[str, bool]] = []
    parse = MarkdownIt.parse

    def watched(parser: MarkdownIt, markdown: str) -> Any:
        worked.append((markdown, threading.current_thread() is threading.main_thread()))
        return parse(parser, markdown)

    monkeypatch.setattr(MarkdownIt, "parse", watched)
    monkeypatch.setattr(display, "KEPT_CHARS_MAX", 25)
    renderer = Renderer()

    async def ask(*texts: str) -> Any:
        items = [{"id": str(at), "markdown": text} for at, text in enumerate(texts)]
        params = msgspec.convert({"items": items}, RenderParams)
        return [
            page.html for page in (await renderer.render(Caller(principal=READER), params)).items
        ]

    assert await ask("a", "b", "a") == [f"<p>{text}</p>\n" for text in "aba"]
    assert await ask("a", "c", "a", "b") == [f"<p>{text}</p>\n" for text in "acab"]
    assert worked == [("a", False), ("b", False), ("c", False)]
    await ask("a")  # the oldest had to go when c came
    assert [text for text, _ in worked] == ["a", "b", "c", "a"]
