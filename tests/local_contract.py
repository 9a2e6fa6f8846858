"""The providers' contract on a real llama.cpp server, over the three wires that it speaks. Run by `make local-model`.

`tests/contracts/on_llama.py` says which story here stands for which test of the contract, and why the others cannot be
told on a real server.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.agent.view import build_view
from crossclaw.domain.errors import (
    ContextOverflow,
    KeyRefused,
    ProviderError,
    ProviderOverloaded,
    ProviderRefused,
)
from crossclaw.domain.messages import AssistantMessage, Text, Thinking, ToolUse
from crossclaw.domain.models import LEVELS
from crossclaw.providers.anthropic import AnthropicProvider
from crossclaw.providers.contract import (
    AssistantTurn,
    LostSpending,
    ModelPiece,
    ModelRequest,
    Provider,
    TextPiece,
    ToolPiece,
    ToolReturn,
    ToolSpec,
    Turn,
    UserTurn,
)
from crossclaw.providers.local import model_path
from crossclaw.providers.openai import OpenAIProvider
from crossclaw.providers.options import ModelOptions, WireOptions
from crossclaw.providers.responses import ResponsesProvider
from tests.contracts.wires import EITHER, PIXEL, ignore, user

pytestmark = pytest.mark.timeout(900)  # a busy machine computes slowly

KEY = "sk-llama-0123456789"
WINDOW = 8_192
MODEL = "smollm2"
TEMPLATE = Path(__file__).with_name("local_tools.jinja")
"""The model's own template knows no tools. With this one, and three examples in front, it calls them."""
READ = ToolSpec(
    "read",
    "Reads a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
WIRES: dict[str, tuple[Any, str]] = {
    "chat": (OpenAIProvider, "/v1"),
    "responses": (ResponsesProvider, "/v1"),
    "anthropic": (AnthropicProvider, ""),
}
FIXED = {"temperature": 0}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    import xllamacpp  # noqa: PLC0415  100 MB

    params = xllamacpp.CommonParams()
    params.model.path = str(model_path())
    params.n_ctx, params.n_parallel = WINDOW, 1
    params.warmup, params.verbosity = False, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja, params.chat_template = True, TEMPLATE.read_text("utf-8")
    params.api_keys, params.port = [KEY], 0
    server = xllamacpp.Server(params)
    yield server.listening_address
    del server


@asynccontextmanager
async def at(llama: str, wire: str, key: str = KEY, **options: Any) -> AsyncGenerator[Provider]:
    made, path = WIRES[wire]
    provider = made(wire, f"{llama}{path}", key, **{"retries": 0, **options})
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def provider(llama: str, wire: str) -> Any:
    async with at(llama, wire) as provider:
        yield provider


def ask(*turns: Turn, **fields: Any) -> ModelRequest:
    fields = {"output_tokens_max": 24, "params": FIXED, "system": "You are brief.", **fields}
    return ModelRequest(model=MODEL, turns=list(turns), **fields)


async def complete(provider: Provider, *turns: Turn, **fields: Any) -> AssistantMessage:
    return await provider.complete(ask(*turns, **fields), ignore)


def examples(tool: str, name: str, values: list[str]) -> list[Turn]:
    """Calls as the model has made them before: so small a one does again what it has just done."""
    turns: list[Turn] = []
    for number, value in enumerate(values):
        call = ToolUse(f"toolu_01.{number}:x", tool, {name: value})
        asked = user(f"{tool} {value}")
        if turns:
            last = turns.pop()
            assert isinstance(last, UserTurn)
        turns += [
            asked,
            AssistantTurn([call]),
            UserTurn([ToolReturn(call.id, [Text(f"{value} says hello.")])], []),
        ]
        turns += [AssistantTurn([Text(f"{value} says hello.")]), user("")]
    turns.pop()
    return turns


# ── what comes back ────────────────────────────────────────────────────────────────────────────


async def test_it_streams_counts_and_stops_at_the_limit(provider: Provider) -> None:
    told: list[ModelPiece] = []
    request = ask(user("Tell me a story about a crab."), output_tokens_max=16)
    answer = await provider.complete(request, told.append)
    again = await provider.complete(request, told.append)
    words = [piece.text for piece in told if isinstance(piece, TextPiece)]
    assert len(words) > 4
    assert "".join(words) == answer.text + again.text
    assert answer.text == again.text  # `temperature: 0` of `params` has reached it
    assert (answer.provider, answer.model) == (provider.name, MODEL)
    # Over the Responses API it says `completed` of an answer that its limit has cut.
    assert answer.stop_reason == ("end_turn" if provider.name == "responses" else "max_tokens")
    assert answer.usage is not None
    assert again.usage is not None
    assert answer.usage.prompt > 10
    assert 0 < answer.usage.output <= 16
    assert again.usage.cache_read > 0


async def test_it_calls_a_tool_and_answers_from_the_result(provider: Provider) -> None:
    """With calls and ids of another model in the conversation, and thinking that is nobody's."""
    before = examples("read", "path", ["a.md", "b.md", "c.md"])
    told: list[ModelPiece] = []
    asked = [*before, user("read d.md")]
    answer = await provider.complete(ask(*asked, tools=[READ], output_tokens_max=60), told.append)
    (call,) = answer.tool_calls
    assert (call.name, call.input) == ("read", {"path": "d.md"})
    assert call.id not in {"", "toolu_01.0:x"}
    assert answer.stop_reason == "tool_use"
    assert ToolPiece(call.id, "read") in told
    thought: list[Any] = [Thinking("of nobody"), *answer.blocks]
    turns = [
        *asked,
        AssistantTurn(thought),
        UserTurn([ToolReturn(call.id, [Text("d.md says hello.")])], []),
    ]
    last = await complete(provider, *turns, tools=[READ])
    assert last.text
    assert last.stop_reason == "end_turn"


async def test_whatever_a_history_holds_is_accepted(provider: Provider) -> None:
    """Empty and failed results, words beside results, blank texts, thinking alone; tools of MCP servers."""
    calls: list[Any] = [ToolUse("a.1:x", "read", {}), ToolUse("b", "read", {"path": "x"})]
    turns: list[Turn] = [
        UserTurn([], [Text("look"), Text(" ")]),
        AssistantTurn([Thinking("without a seal"), Text(""), *calls]),
        UserTurn(
            [ToolReturn("a.1:x", []), ToolReturn("b", [Text("no")], is_error=True)], [Text("and?")]
        ),
        AssistantTurn([Thinking("only thoughts")]),
        user("speak"),
    ]
    assert await complete(provider, *turns, tools=[READ, EITHER])
    assert await complete(provider, *build_view([]))


async def test_every_level_of_thinking_is_accepted(provider: Provider) -> None:
    for level in LEVELS:
        assert await complete(provider, user("Say hi."), thinking=level, output_tokens_max=2)


# ── what goes wrong ────────────────────────────────────────────────────────────────────────────


async def test_a_wrong_key_is_refused_and_is_in_no_error(llama: str, wire: str) -> None:
    async with at(llama, wire, "sk-wrong-0123456789") as stranger:
        with pytest.raises(KeyRefused) as failure:
            await complete(stranger, user("hello"))
    assert "wrong-0123456789" not in str(failure.value)


async def test_what_does_not_fit_is_an_overflow(provider: Provider) -> None:
    with pytest.raises(ContextOverflow):
        await complete(provider, user("word " * (WINDOW + 1)))
    assert (await complete(provider, user("Say hi."))).text


async def test_a_picture_that_it_cannot_see_is_refused_and_not_tried_again(
    provider: Provider,
) -> None:
    with pytest.raises(ProviderRefused, match=r"(?i)image|picture|multimodal"):
        await complete(provider, UserTurn([], [Text("look"), PIXEL]))


async def test_an_illegal_request_is_refused_with_the_servers_words(llama: str) -> None:
    """By chat completions only: the other wires of this server leave out what they do not know."""
    async with at(llama, "chat") as provider:
        with pytest.raises(ProviderRefused, match=r"(?i)grammar"):
            await complete(provider, user("hi"), params={"grammar": "root ::= ("})


async def test_another_address_is_told_as_one(llama: str, wire: str) -> None:
    async with at(f"{llama}/nowhere", wire) as lost:
        with pytest.raises(ProviderError, match="baseUrl"):
            await complete(lost, user("hello"))
    async with at("http://127.0.0.1:9", wire) as away:
        with pytest.raises(ProviderOverloaded, match="cannot be reached"):
            await complete(away, user("hello"))


async def test_a_stopped_call_ends_has_cost_something_and_the_next_is_answered(
    provider: Provider,
) -> None:
    told: list[ModelPiece] = []
    with anyio.CancelScope() as scope:

        def stop(piece: ModelPiece) -> None:
            told.append(piece)
            scope.cancel()

        await provider.complete(ask(user("Tell me a long story."), output_tokens_max=400), stop)
    assert scope.cancelled_caught
    assert isinstance(told[-1], LostSpending)
    assert told[-1].usage.prompt > 0
    assert (await complete(provider, user("Say hi."))).text


async def test_a_call_that_takes_too_long_is_ended(llama: str, wire: str) -> None:
    async with at(llama, wire, options=WireOptions(timeout_s=0.3)) as hasty:
        with pytest.raises(ProviderOverloaded, match="timeoutSeconds"):
            await complete(hasty, user("Tell me a long story."), output_tokens_max=2_000)


# ── the rest ───────────────────────────────────────────────────────────────────────────────────


async def test_it_says_what_it_has_and_how_large_its_window_is(llama: str, wire: str) -> None:
    async with at(llama, wire) as provider:
        (listed,) = await provider.list_models()  # type: ignore[attr-defined]
        assert listed.window == WINDOW


async def test_calls_side_by_side_do_not_mix_and_a_closed_provider_may_be_used_again(
    provider: Provider,
) -> None:
    answers: dict[str, AssistantMessage] = {}

    async def hear(file: str) -> None:
        before = examples("read", "path", ["a.md", "b.md", "c.md"])
        request = [*before, user(f"read {file}")]
        answers[file] = await complete(provider, *request, tools=[READ], output_tokens_max=60)

    async with anyio.create_task_group() as tasks:
        for file in ("d.md", "e.md"):
            tasks.start_soon(hear, file)
    await provider.close()
    await hear("f.md")
    assert {f: a.tool_calls[0].input for f, a in answers.items()} == {
        file: {"path": file} for file in ("d.md", "e.md", "f.md")
    }


async def test_headers_and_fields_of_the_config_reach_it(llama: str, wire: str) -> None:
    options = WireOptions(ModelOptions({"X-Team": "one"}, {"seed": 7, "stop": ["."]}))
    async with at(llama, wire, options=options) as provider:
        assert await complete(provider, user("Tell me a story."))
