"""Every model that the docs, the defaults and the paid self-test name answers with tools on the strict fake."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossclaw.config.model import ANTHROPIC_MODEL, OPENAI_MODEL
from crossclaw.domain.messages import Thinking, ToolUse
from crossclaw.providers.contract import AssistantTurn, Turn
from crossclaw.testing import FakeModelServer
from tests.contracts.wires import READ, complete, opened, returned, user
from tests.live import CHEAPEST

ROOT = Path(__file__).parents[2]
WIRE = {
    "anthropic": "anthropic", "openai": "responses", "google": "gemini", "ollama": "ollama", "deepseek": "chat",
}  # fmt: skip
_NAME = re.compile(rf"\"({'|'.join(WIRE)})/([a-z][a-z0-9.:-]*[a-z0-9])\"")


def named() -> Iterator[tuple[str, str]]:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        yield from _NAME.findall(page.read_text("utf-8"))
    for reference in (ANTHROPIC_MODEL, OPENAI_MODEL):
        provider, _, model = reference.partition("/")
        yield provider, model
    yield from CHEAPEST.items()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_docs_name_models_at_all() -> None:
    assert len(set(named())) > 5


@pytest.mark.parametrize(("provider", "model"), sorted(set(named())))
async def test_every_model_that_is_named_answers_with_tools(provider: str, model: str) -> None:
    with FakeModelServer([[Thinking("hm"), ToolUse("c1", "read", {})], "done"]) as server:
        async with opened(WIRE[provider], server) as wire:
            first = await complete(wire, model=model, tools=[READ])
            turns: list[Turn] = [
                user("hello"),
                AssistantTurn(first.blocks),
                returned(*first.tool_calls),
            ]
            assert (await complete(wire, *turns, model=model, tools=[READ])).text == "done"
        assert len(server.requests) == 2  # without a refusal
