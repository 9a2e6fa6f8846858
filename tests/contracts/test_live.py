"""The paid self-test itself, against the strict fake: it would notice, and it stays under a cent."""

from collections.abc import Iterator

import pytest

from crossclaw.domain.errors import KeyRefused, ProviderError
from crossclaw.domain.messages import Thinking, ToolUse, Usage
from crossclaw.providers.registry import Providers
from crossclaw.testing import FakeModelServer
from tests.live import CHEAPEST, COST_MAX_USD, NO_KEY, ROOM, main, try_service


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


def providers_at(server: FakeModelServer) -> Providers:
    return Providers(
        {},
        {
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_BASE_URL": server.openai_url,
            "GOOGLE_BASE_URL": server.gemini_url,
        },
    )


@pytest.mark.parametrize("name", CHEAPEST)
async def test_a_service_that_works_passes_and_one_that_does_not_is_noticed(
    server: FakeModelServer, name: str
) -> None:
    providers = providers_at(server)
    address = f"{name}/{CHEAPEST[name]}"
    server.queue([Thinking("hm"), ToolUse("c1", "look_up", {"name": "crab"})], "seven-pincers")
    assert (await try_service(providers, address)) == Usage(input=20, output=10)
    with pytest.raises(ProviderError, match="called no tool"):
        await try_service(providers, address)
    names = ("max_tokens", "max_completion_tokens", "maxOutputTokens")
    for request in server.requests:
        found = {**request.body, **request.body.get("generationConfig", {})}
        assert [found[name] for name in names if name in found] == [ROOM.output]
    await providers.close()


@pytest.mark.parametrize("name", CHEAPEST)
async def test_it_costs_less_than_a_cent(name: str) -> None:
    most = await Providers({}, {}).price(f"{name}/{CHEAPEST[name]}", ROOM)
    assert most is not None
    assert 2 * most < COST_MAX_USD


async def test_without_a_key_it_refuses_and_says_what_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await main({}) == 2
    assert capsys.readouterr().out.strip() == NO_KEY
    assert all(name in NO_KEY for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"))


async def test_what_has_no_known_price_is_not_asked_and_nothing_tried_is_no_success(
    server: FakeModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-good-0123456789"}
    assert await main(elsewhere) == 2
    said = capsys.readouterr().out
    assert "- anthropic/claude-haiku-5-5: its price is not known" in said
    assert "- openai/gpt-6-luna: no key" in said
    assert server.requests == []


async def test_a_wrong_key_is_noticed(server: FakeModelServer) -> None:
    server.key = "sk-another"
    providers = providers_at(server)
    with pytest.raises(KeyRefused):
        await try_service(providers, f"anthropic/{CHEAPEST['anthropic']}")
    await providers.close()
