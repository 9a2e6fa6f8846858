"""`display.render`: Markdown in, washed HTML out, in bounds."""

from pathlib import Path

import pytest

from crossclaw.domain.errors import Forbidden, Invalid
from crossclaw.door.principal import Principal
from crossclaw.gateway.methods.display import CHARS_MAX, INLINE_CHARS_MAX, ITEMS_MAX
from crossclaw.testing import ScriptedProvider, open_house
from tests.flows.talking import call

READER = Principal(name="page", role="operator", scopes=frozenset({"operator.read"}))
NOBODY = Principal(name="stranger", role="operator", scopes=frozenset())


@pytest.fixture
def anyio_backend() -> str:
    """A long text is rendered in a thread, which virtual time does not wait for."""
    return "asyncio"


@pytest.mark.spec("M8")
async def test_a_page_gets_each_text_back_as_html_under_its_id(tmp_path: Path) -> None:
    items = [
        {"id": "m1", "markdown": "**hi** <script>x</script>"},
        {"id": "m1-2", "markdown": "x " * INLINE_CHARS_MAX},
    ]
    async with open_house(tmp_path, ScriptedProvider([]), inline=False) as house:
        answer = await call(house, "display.render", READER, items=items)
        first, second = answer["items"]
        assert first == {
            "id": "m1",
            "html": "<p><strong>hi</strong> &lt;script&gt;x&lt;/script&gt;</p>\n",
        }
        assert (second["id"], second["html"][:4]) == ("m1-2", "<p>x")
        assert await call(house, "display.render", READER, items=[]) == {"items": []}


async def test_rendering_is_bounded_and_needs_the_right_to_read(tmp_path: Path) -> None:
    async with open_house(tmp_path, ScriptedProvider([]), inline=False) as house:
        many = [{"id": str(n), "markdown": ""} for n in range(ITEMS_MAX + 1)]
        with pytest.raises(Invalid, match="ask in several"):
            await call(house, "display.render", READER, items=many)
        long = [{"id": "1", "markdown": "x" * (CHARS_MAX + 1)}]
        with pytest.raises(Invalid, match="ask in several"):
            await call(house, "display.render", READER, items=long)
        with pytest.raises(Forbidden):
            await call(house, "display.render", NOBODY, items=[])
