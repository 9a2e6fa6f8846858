"""The paid self-test itself, against the strict fake: it would notice, and it stays under a cent."""

from collections.abc import Iterator

import pytest

from crossclaw.domain.errors import ProviderError
from crossclaw.domain.messages import Thinking, ToolUse, Usage
from crossclaw.providers.registry import Providers
from crossclaw.testing import FakeModelServer
from tests.live import CHEAPEST, COST_MAX_USD, ROOM, try_service


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
