"""The cost of conversations: the input that is paid for, beside a cache that forgets nothing it was sent.

A whole gateway talks to a fake service that keeps and prices a prompt cache by the service's public rules
(`testing/fake_cache.py`). The figure is the same on every machine; it is a row here because it is money.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec

from bench.stores import Stores
from bench.work import Row, Spent, Work
from crossclaw import app
from crossclaw.config import Config, Paths
from crossclaw.domain.messages import AssistantBlock, Text, Thinking, ToolUse
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.providers.anthropic import AnthropicProvider
from crossclaw.testing.fake_cache import PromptCache
from crossclaw.testing.fake_models import FakeModelServer, FakeRequest

TURNS = 10
READS = 12
BAR = 1.05
MODEL = "claude-opus-5-5"
LOREM = "Lorem ipsum dolor sit amet, consectetur adipiscing elit. "

ME = Caller(principal=person_principal("bench", {"operator.admin"}))
Body = dict[str, Any]
Script = Callable[[Body], list[AssistantBlock]]


def plain(body: Body) -> list[AssistantBlock]:
    return [Text(LOREM * 20)]


def thinking(body: Body) -> list[AssistantBlock]:
    return [Thinking(LOREM * 40), Text(LOREM * 10)]


def reading(body: Body) -> list[AssistantBlock]:
    """A model that reads twelve files at once, then answers."""
    last = body["messages"][-1]["content"]
    if any(block.get("type") == "tool_result" for block in last):
        return [Thinking(LOREM * 10), Text(LOREM)]
    number = len(body["messages"])
    calls = [ToolUse(f"c{number}_{n}", "read", {"path": f"{n}.md"}) for n in range(READS)]
    return [Thinking(LOREM * 10), *calls]


def remembering(body: Body) -> list[AssistantBlock]:
    """A model that adds a line to its memory, then answers."""
    last = body["messages"][-1]["content"]
    if any(block.get("type") == "tool_result" for block in last):
        return [Thinking(LOREM * 10), Text(LOREM)]
    number = len(body["messages"])
    lines = "\n".join(f"- {n}: {LOREM}" for n in range(number))
    write = {"path": "MEMORY.md", "content": lines}
    return [Thinking(LOREM * 10), ToolUse(f"c{number}", "write", write)]


SCENARIOS: dict[str, tuple[Script, bool]] = {
    "ten turns": (plain, False),
    "ten turns with thinking": (thinking, False),
    "ten turns of twelve reads": (reading, False),
    "ten turns, each with a context": (thinking, True),
    "ten turns, memory written in each": (remembering, False),
}
"""The model's script, and whether each message comes with a context of its own."""


async def converse(folder: Path, script: Script, *, contexts: bool) -> float:
    """Input cost ÷ ideal of one conversation."""
    cache = PromptCache()

    def answer(asked: FakeRequest) -> list[AssistantBlock]:
        cache.charge(asked.body)
        return script(asked.body)

    with FakeModelServer(answer) as server:
        defaults = {"model": f"anthropic/{MODEL}", "thinkingDefault": "medium"}
        config = msgspec.convert({"agents": {"defaults": defaults}}, Config)
        provider = AnthropicProvider("anthropic", server.url, "key")
        paths = Paths(home=folder, state_dir=folder / "s", config_path=folder / "openclaw.json")
        outside = app.GatewayInputs(environ={}, providers={"anthropic": provider})
        workspace = folder / "s" / "workspace"
        workspace.mkdir(parents=True, mode=0o700)
        for number in range(READS):
            (workspace / f"{number}.md").write_text(LOREM * 30)
        async with app.open_gateway(config, paths, outside) as gateway:
            for number in range(TURNS):
                asked = {"message": f"question {number}", "idempotencyKey": f"r{number}"}
                if contexts:
                    asked["extraSystemPrompt"] = f"This is question {number}. {LOREM * 5}"
                await gateway.door.dispatch(ME, "agent", asked)
                run = await gateway.run_store.wait(f"r{number}")
                assert run is not None
                assert run.status == "ok", run.error
        await provider.close()
        return cache.ratio


def measured(name: str) -> Callable[[Stores], Spent]:
    script, contexts = SCENARIOS[name]

    def run(_stores: Stores) -> Spent:
        with tempfile.TemporaryDirectory() as folder:
            ratio = anyio.run(lambda: converse(Path(folder), script, contexts=contexts))
        return Spent({"ratio": ratio})

    return run


WORKS = tuple(
    Work(measured(name), None, (Row(f"cost: {name} ÷ ideal", "ratio", "×", BAR),))
    for name in SCENARIOS
)
