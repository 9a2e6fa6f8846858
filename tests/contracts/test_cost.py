"""What a conversation costs, and that a strict service takes it: the whole gateway against the fake that keeps a
prompt cache, prices it, and binds thinking to everything before it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.cost import BAR, LOREM, ME, MODEL, SCENARIOS, converse

from crossclaw import app
from crossclaw.config import Config, Paths
from crossclaw.domain.messages import AssistantBlock, Text, Thinking, ToolUse
from crossclaw.providers.anthropic import AnthropicProvider
from crossclaw.testing.fake_models import FakeModelServer, FakeRequest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # in real time: there is a server


@pytest.mark.spec("M6")
@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_a_conversation_costs_what_an_ideal_cache_would_make_it_cost(
    tmp_path: Path, name: str
) -> None:
    script, contexts = SCENARIOS[name]

    assert await converse(tmp_path, script, contexts=contexts) <= BAR


@pytest.mark.spec("M6", "M5")
async def test_a_service_that_binds_thinking_takes_every_request_of_a_long_life(
    tmp_path: Path,
) -> None:
    """An agent that rewrites its own orders, spawns, and is compacted: nothing is refused."""
    first = {
        "write": {"path": "AGENTS.md", "content": "Be brief."},
        "sessions_spawn": {"task": "count the boats"},
    }

    def answer(asked: FakeRequest) -> list[AssistantBlock] | str:
        if str(asked.body.get("system")).find("You keep the memory") >= 0:
            return "## Goal\nto be kept"
        said = str(asked.body["messages"])
        last = asked.body["messages"][-1]["content"]
        if "do both" in asked.last_text and not any(b.get("type") == "tool_result" for b in last):
            calls = [ToolUse(f"c{len(said)}{n}", n, a) for n, a in first.items()]
            return [Thinking(LOREM), *calls]
        return [Thinking(LOREM * 3), Text("done")]

    with FakeModelServer(answer) as server:
        defaults: dict[str, Any] = {"model": f"anthropic/{MODEL}", "thinkingDefault": "high"}
        provider = AnthropicProvider("anthropic", server.url, "key")
        paths = Paths(home=tmp_path, state_dir=tmp_path / "s", config_path=tmp_path / "c.json")
        outside = app.GatewayInputs(environ={}, providers={"anthropic": provider})
        config = msgspec.convert({"agents": {"defaults": defaults}}, Config)
        async with app.open_gateway(config, paths, outside) as gateway:
            for number in range(6):
                message = "do both" if number % 2 else f"question {number}"
                asked = {"message": message, "idempotencyKey": f"r{number}"}
                await gateway.door.dispatch(ME, "agent", asked)
                run = await gateway.run_store.wait(f"r{number}", timeout_s=30)
                assert run is not None
                assert run.status == "ok", run.error
                if number == 3:
                    await gateway.door.dispatch(ME, "sessions.compact", {"key": "main"})
        await provider.close()

    assert len(server.requests) > 10
