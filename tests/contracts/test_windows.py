"""Windows as they are: servers of one's own are asked about a model when it is first used, and what they say is
what conversations are compacted for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw import app
from crossclaw.agent.compaction import CompactionSettings
from crossclaw.app.model_settings import make_providers
from crossclaw.config import Config, Paths
from crossclaw.config.current import CurrentConfig
from crossclaw.domain.models import ListedModel
from crossclaw.providers.discovery import REMEMBERED_S, SILENT_S, Discovery
from crossclaw.providers.openai import OpenAIProvider
from crossclaw.testing import FakeModelServer
from tests.contracts.wires import KEY
from tests.flows.talking import call, say


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # in real time: there is a server


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


def model_list(**facts: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m", **facts}]}


LLAMA = {"owned_by": "llamacpp"}
PROPS = {"default_generation_settings": {"n_ctx": 2_048}}
STUDIO = model_list(max_context_length=131_072, loaded_context_length=4_096)
TOLD: dict[str, tuple[dict[str, Any], int | None]] = {
    "vLLM": ({"/v1/models": model_list(max_model_len=8_192)}, 8_192),
    "OpenRouter": ({"/v1/models": model_list(context_length=64_000)}, 64_000),
    "Groq": ({"/v1/models": model_list(context_window=6_000)}, 6_000),
    "llama.cpp": ({"/v1/models": model_list(meta={"n_ctx": 4_096, "n_ctx_train": 8_192})}, 4_096),
    "older llama.cpp": (
        {"/v1/models": model_list(meta={"n_ctx_train": 8_192}, **LLAMA), "/props": PROPS},
        2_048,
    ),
    "LM Studio": ({"/v1/models": model_list(), "/api/v0/models": STUDIO}, 4_096),
    "one that does not say": ({"/v1/models": model_list()}, None),
    "nonsense": ({"/v1/models": model_list(max_model_len="many"), "/props": [1]}, None),
}


@pytest.mark.parametrize("name", TOLD)
async def test_a_server_tells_its_window_in_its_own_words(
    server: FakeModelServer, name: str
) -> None:
    server.plain, window = TOLD[name]
    provider = OpenAIProvider("own", server.openai_url, KEY)
    found = await provider.describe("m")
    await provider.close()
    assert found is not None
    assert found.window == window


def own_server(server: FakeModelServer, model: str = "m", **facts: Any) -> CurrentConfig:
    models = [{"id": model, **facts}] if facts else []
    providers = {
        "own": {"baseUrl": server.openai_url, "models": models},
        "ollama": {"baseUrl": server.url, "models": models},
    }
    return CurrentConfig.of(msgspec.convert({"models": {"providers": providers}}, Config))


async def facts_of(config: CurrentConfig, address: str) -> Any:
    providers = make_providers(config, None, app.GatewayInputs(environ={}))
    await providers.discover([address])
    await providers.discover([address])
    await providers.close()
    return config.facts_for(address)


async def test_what_a_server_says_counts_more_than_the_catalogue_and_less_than_the_config(
    server: FakeModelServer,
) -> None:
    server.plain["/v1/models"] = {"data": [{"id": "qwen3", "max_model_len": 9_000}]}
    assert (await facts_of(own_server(server), "own/qwen3")).window == 9_000
    assert server.paths == ["/v1/models"]  # once
    written = own_server(server, "qwen3", contextWindow=5_000)
    assert (await facts_of(written, "own/qwen3")).window == 5_000
    assert server.paths == ["/v1/models"]  # who has written it down asks nobody


async def test_ollamas_window_is_the_models_own_or_what_its_modelfile_gives(
    server: FakeModelServer,
) -> None:
    def shown(window: int, parameters: str = "", *can: str) -> None:
        info = {"model_info": {"x.context_length": window}, "capabilities": ["completion", *can]}
        server.plain["/api/show"] = {**info, "parameters": parameters}

    shown(2_048)
    small = await facts_of(own_server(server), "ollama/tiny")
    assert (small.window, small.tools, small.pictures) == (2_048, False, False)
    shown(131_072, "stop  x\nnum_ctx                        16384", "tools", "vision")
    given = await facts_of(own_server(server), "ollama/large")
    assert (given.window, given.tools, given.pictures) == (16_384, True, True)
    shown(131_072)
    assert (await facts_of(own_server(server), "ollama/large")).window == 32_768
    assert set(server.paths) == {"/api/show"}


async def test_a_server_that_is_away_or_says_nonsense_changes_nothing(
    server: FakeModelServer,
) -> None:
    server.plain["/v1/models"] = ["what?"]
    assert (await facts_of(own_server(server), "own/qwen3")).window == 131_072
    config = own_server(server)
    server.close()
    assert (await facts_of(config, "own/qwen3")).window == 131_072


async def test_the_services_at_their_own_addresses_are_not_asked() -> None:
    config = CurrentConfig.of(Config())
    providers = make_providers(config, None, app.GatewayInputs(environ={"OPENAI_API_KEY": "k"}))
    assert await providers.describe("openai/gpt-4o") is None
    assert await providers.describe("anthropic/claude-opus-5-5") is None
    await providers.close()


async def test_what_was_said_is_remembered_and_asked_for_again_later() -> None:
    now = [100.0]
    asked: list[str] = []

    async def describe(address: str) -> ListedModel | None:
        asked.append(address)
        return ListedModel(id="m", window=len(asked)) if address == "a/m" else None

    listed: dict[str, ListedModel] = {}
    discovery = Discovery(describe, listed, lambda address: address == "c/m", lambda: now[0])
    for passed_s in (0, SILENT_S - 1, 1, REMEMBERED_S - SILENT_S):
        now[0] += passed_s
        await discovery.look(["a/m", "b/m", "c/m"])
    assert asked == ["a/m", "b/m", "b/m", "a/m", "b/m"]
    assert listed == {"a/m": ListedModel(id="m", window=4)}


@pytest.mark.spec("M5")
async def test_a_conversation_is_compacted_for_the_window_that_the_server_has(
    tmp_path: Path, server: FakeModelServer
) -> None:
    """The model is called what the catalogue knows with 131,072 tokens; its server gives it 4,096."""
    server.plain["/v1/models"] = {"data": [{"id": "qwen3", "meta": {"n_ctx": 4_096}}]}
    raw = {
        "agents": {"defaults": {"model": "own/qwen3"}},
        "models": {"providers": {"own": {"baseUrl": server.openai_url}}},
    }
    paths = Paths(home=tmp_path, state_dir=tmp_path / "s", config_path=tmp_path / "c.json")
    config = msgspec.convert(raw, Config)
    async with app.open_gateway(config, paths, app.GatewayInputs(environ={})) as gateway:
        assert server.paths == []  # never at the start
        for number in range(3):
            await say(gateway, "agent:main:main", f"{number} {'word ' * 600}", f"r{number}")
        row = (await call(gateway, "sessions.list"))["sessions"][0]
        entries = await gateway.ledger.list_entries(row["sessionId"], limit=50)
    assert row["contextTokens"] == 4_096
    assert any(entry.type == "compaction" for entry in entries)
    assert CompactionSettings().limit(131_072) > 100_000  # unasked there would have been none
    assert server.paths == ["/v1/models"]
