"""Servers that only nearly speak chat completions: read all the same, or told by name."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from crossclaw.domain.errors import ProviderError, ProviderRefused
from crossclaw.domain.messages import Text, Thinking, ToolUse, Usage
from crossclaw.domain.models import ModelFacts
from crossclaw.providers.contract import (
    AssistantTurn,
    CacheMarks,
    ModelPiece,
    Provider,
    TextPiece,
    ThinkingPiece,
    ToolReturn,
    Turn,
    UserTurn,
)
from crossclaw.providers.dialects import WireDialect, dialect_of
from crossclaw.providers.openai import OpenAIProvider, completion_params
from crossclaw.providers.options import ModelOptions, WireOptions
from crossclaw.testing.fake_models import FakeModelServer, Raw, Status
from tests.contracts.wires import KEY, READ, ask, complete, opened, user


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


@pytest.fixture
async def chat(server: FakeModelServer) -> AsyncIterator[Provider]:
    async with opened("chat", server) as provider:
        yield provider


def chunk(delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **choice}]}


def words(text: str) -> dict[str, Any]:
    return chunk({"content": text})


def calls(*parts: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(parts)})


def part(name: str | None = None, arguments: Any = None, **rest: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**rest, "function": {k: v for k, v in function.items() if v is not None}}


FINISH = chunk({}, finish_reason="stop")


async def read(chat: Provider, server: FakeModelServer, *events: Any) -> list[Any]:
    server.queue(Raw(list(events)))
    return (await complete(chat, model="some-model")).blocks


async def test_a_new_name_begins_a_new_call_where_there_is_neither_index_nor_id(
    chat: Provider, server: FakeModelServer
) -> None:
    blocks = await read(
        chat,
        server,
        calls(part("read", '{"a": 1}')),
        calls(part("write", '{"b"')),
        calls(part(None, ": 2}")),
        FINISH,
    )
    assert [(call.name, call.input) for call in blocks] == [("read", {"a": 1}), ("write", {"b": 2})]
    assert len({call.id for call in blocks}) == 2


async def test_the_same_name_again_is_a_second_call_once_the_first_is_whole(
    chat: Provider, server: FakeModelServer
) -> None:
    blocks = await read(
        chat, server, calls(part("read", '{"n": 1}')), calls(part("read", '{"n": 2}')), FINISH
    )
    assert [call.input for call in blocks] == [{"n": 1}, {"n": 2}]


async def test_arguments_may_be_an_object(chat: Provider, server: FakeModelServer) -> None:
    blocks = await read(chat, server, calls(part("read", {"path": "ä"}, index=0, id="x")), FINISH)
    assert blocks == [ToolUse("x", "read", {"path": "ä"})]


async def test_content_may_be_a_list_with_thoughts_in_it(
    chat: Provider, server: FakeModelServer
) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    content = [thought, {"type": "text", "text": "hello"}]
    assert await read(chat, server, chunk({"content": content}), FINISH) == [
        Thinking("hm"), Text("hello"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "said",
    [
        ["<think>let me", " see</think>\n\nhello"],
        ["<", "thi", "nk>let me see</", "think>", "hello"],
        ["\n<think>\nlet me see\n</think>hello"],
        ["let me see</think>hello"],
    ],
)
async def test_thoughts_between_tags_are_no_words(
    chat: Provider, server: FakeModelServer, said: list[str]
) -> None:
    assert await read(chat, server, *map(words, said), FINISH) == [
        Thinking("let me see"), Text("hello"),
    ]  # fmt: skip


async def test_thoughts_between_tags_are_told_as_thoughts(
    chat: Provider, server: FakeModelServer
) -> None:
    server.queue(Raw([words("<think>a "), words("b</th"), words("ink>c"), words(" <d"), FINISH]))
    pieces: list[ModelPiece] = []
    await chat.complete(ask("chat"), pieces.append)
    assert pieces == [ThinkingPiece("a "), ThinkingPiece("b"), TextPiece("c"), TextPiece(" <d")]


@pytest.mark.parametrize("text", ["<", "<thin", "a < b", "  <b>bold</b>"])
async def test_what_only_looks_like_a_tag_is_words(
    chat: Provider, server: FakeModelServer, text: str
) -> None:
    assert await read(chat, server, words(text), FINISH) == [Text(text)]


async def test_done_without_a_reason_is_an_end(chat: Provider, server: FakeModelServer) -> None:
    assert await read(chat, server, words("hello"), b"data: [DONE]\n\n") == [Text("hello")]
    with pytest.raises(ProviderError):
        await read(chat, server, b"data: [DONE]\n\n")


async def test_a_finish_for_an_error_is_one(chat: Provider, server: FakeModelServer) -> None:
    failed = chunk({}, finish_reason="error", error={"message": "upstream died", "code": 502})
    with pytest.raises(ProviderError, match="upstream died"):
        await read(chat, server, words("hel"), failed)


async def test_keep_alives_are_read_over(chat: Provider, server: FakeModelServer) -> None:
    events = [
        b": OPENROUTER PROCESSING\n\n",
        b"event: ping\ndata: {}\n\n",
        b"data: \n\n",
        {"choices": []},
        words("hello"),
        FINISH,
    ]
    assert await read(chat, server, *events) == [Text("hello")]


async def test_an_answer_in_one_piece_is_an_answer(chat: Provider, server: FakeModelServer) -> None:
    message = {"role": "assistant", "content": "hello", "tool_calls": [part("read", "{}", id="x")]}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage}
    server.queue(Status(200, body))
    answer = await complete(chat)
    assert answer.blocks == [Text("hello"), ToolUse("x", "read", {})]
    assert answer.usage == Usage(input=3, output=2)


async def test_what_openrouter_charged_is_taken_as_it_says(
    chat: Provider, server: FakeModelServer
) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.0042}
    server.queue(Raw([words("hi"), {**FINISH, "usage": usage}]))
    answer = await complete(chat)
    assert answer.usage is not None
    assert answer.usage.cost == 0.0042


async def test_reasoning_goes_back_under_the_name_it_came_by(
    chat: Provider, server: FakeModelServer
) -> None:
    server.queue([Thinking("hm"), ToolUse("c1", "read", {})], "done")
    answer = await complete(chat, model="deepseek-v4-pro", tools=[READ])
    turns: list[Turn] = [
        user("hi"),
        AssistantTurn(answer.blocks),
        UserTurn([ToolReturn("c1", [])], []),
    ]
    await complete(chat, *turns, model="deepseek-v4-pro", tools=[READ])
    assert server.requests[1].body["messages"][2]["reasoning_content"] == "hm"


async def test_reasoning_details_go_back_whole(chat: Provider, server: FakeModelServer) -> None:
    model = "anthropic/claude-opus-5.5"
    server.queue([Thinking("let me see"), ToolUse("thought_1", "read", {})], "done")
    answer = await complete(chat, model=model, tools=[READ])
    turns: list[Turn] = [
        user("hi"),
        AssistantTurn(answer.blocks),
        UserTurn([ToolReturn("thought_1", [])], []),
    ]
    await complete(chat, *turns, model=model, tools=[READ])
    (detail,) = server.requests[1].body["messages"][2]["reasoning_details"]
    assert (detail["text"], detail["signature"]) == ("let me see", "or-sig")


async def test_a_model_that_takes_no_tools_here_is_told_before_it_is_asked(
    server: FakeModelServer,
) -> None:
    provider = OpenAIProvider("openai", None, KEY)
    with pytest.raises(ProviderRefused, match="openai-responses"):
        await complete(provider, model="gpt-6-astra", tools=[READ])


# Dialects


def of(base_url: str, model: str, **compat: Any) -> WireDialect:
    return dialect_of(base_url, model, ModelFacts(), compat, is_openai=False)


def test_services_are_known_by_their_address_or_their_models() -> None:
    assert of("https://openrouter.ai/api/v1", "anthropic/claude-opus-5.5").cache_marks
    assert of("https://api.mistral.ai/v1", "x").nine_letter_ids
    assert of("http://127.0.0.1:1/v1", "devstral-small").assistant_after_results
    assert of("https://api.z.ai/api/paas/v4", "glm-5").thinking == "zai"
    assert of("http://127.0.0.1:1/v1", "o3").limit_name == "max_completion_tokens"
    assert of("http://127.0.0.1:1/v1", "llama").limit_name == "max_tokens"


def test_compat_overrides_what_is_known() -> None:
    written = of(
        "https://api.mistral.ai/v1",
        "x",
        requiresMistralToolIds=False,
        maxTokensField="max_completion_tokens",
        supportsUsageInStreaming=False,
        supportsReasoningEffort=False,
        requiresToolResultName=True,
        cacheControlFormat="anthropic",
    )
    assert written.limit_name == "max_completion_tokens"
    assert not written.nine_letter_ids
    assert not written.usage_in_stream
    assert written.thinking == "none"
    assert written.names_in_results
    assert written.cache_marks


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("openai", {"reasoning_effort": "low"}, {}),
        ("openrouter", {"reasoning": {"effort": "low"}}, {}),
        ("zai", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("qwen", {"enable_thinking": True}, {"enable_thinking": False}),
        ("none", {}, {}),
    ],
)
def test_each_service_has_its_word_for_thinking(
    name: Any, on: dict[str, Any], off: dict[str, Any]
) -> None:
    names = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
    for level, wanted in (("low", on), ("off", off)):
        request = ask("some-model", thinking=level)
        params = completion_params(request, ModelFacts(), WireDialect(thinking=name))
        assert {key: params[key] for key in names if key in params} == wanted


async def test_cache_marks_reach_claude_through_openrouter(server: FakeModelServer) -> None:
    options = WireOptions(ModelOptions(compat={"cacheControlFormat": "anthropic"}))
    turns: list[Turn] = [user("one"), AssistantTurn([Text("two")]), user("three")]
    async with opened("chat", server, options=options) as provider:
        await complete(provider, *turns, cache=CacheMarks(ttl="1h"))
    marked = [
        message["role"]
        for message in server.requests[0].body["messages"]
        if "cache_control" in str(message)
    ]
    assert marked == ["system", "user", "user"]
