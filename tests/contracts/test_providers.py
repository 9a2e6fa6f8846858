"""Every provider that talks to a service keeps the contract: real HTTP, real wire, a fake service on loopback."""

import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest

from crossclaw.domain.errors import (
    ContextOverflow,
    KeyRefused,
    ProviderError,
    ProviderMissing,
    ProviderOverloaded,
    ProviderRefused,
    RateLimited,
)
from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Image,
    MediaSource,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.providers import kept_connections
from crossclaw.providers.anthropic import AnthropicProvider, message_params
from crossclaw.providers.calls import raw_arguments
from crossclaw.providers.contract import (
    AssistantTurn,
    ModelPiece,
    ModelRequest,
    Provider,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    ToolReturn,
    ToolSpec,
    Turn,
    UserTurn,
)
from crossclaw.providers.openai import OpenAIProvider
from crossclaw.testing.fake_models import Broken, FakeModelServer, Raw, Refuse
from crossclaw.testing.fake_wires import Reply

KEY = "sk-secret-0123456789"
PIXEL = Image(MediaSource("base64", media_type="image/png", data="iVBORw0KGgo="))
READ = ToolSpec("read", "Reads a file.", {"properties": {"path": {"type": "string"}}})


@pytest.fixture
def anyio_backend() -> str:
    """As in production, and a real wire needs real time."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


def make(api: str, server: FakeModelServer, **options: Any) -> Provider:
    options = {"retries": 0, **options}
    if api == "anthropic":
        return AnthropicProvider("anthropic", server.url, KEY, **options)
    return OpenAIProvider("openai", server.openai_url, KEY, **options)


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def provider(api: str, server: FakeModelServer) -> AsyncIterator[Provider]:
    provider = make(api, server)
    yield provider
    await provider.close()


@pytest.fixture
async def anthropic(server: FakeModelServer) -> AsyncIterator[Provider]:
    provider = make("anthropic", server)
    yield provider
    await provider.close()


@pytest.fixture
async def openai(server: FakeModelServer) -> AsyncIterator[Provider]:
    provider = make("openai", server)
    yield provider
    await provider.close()


def user(text: str) -> UserTurn:
    return UserTurn([], [Text(text)])


def ask(*turns: Turn, **fields: Any) -> ModelRequest:
    fields = {"model": "claude-opus-4-8", "system": "You are a gateway.", **fields}
    return ModelRequest(turns=list(turns) or [user("hello")], **fields)


def ignore(_piece: ModelPiece) -> None:
    pass


async def complete(provider: Provider, *turns: Turn, **fields: Any) -> AssistantMessage:
    return await provider.complete(ask(*turns, **fields), ignore)


# What comes back


async def test_words_are_told_in_order_and_the_message_is_the_whole(
    provider: Provider, server: FakeModelServer
) -> None:
    server.queue("one two\nthree — ÄÖ 🦀")
    pieces: list[ModelPiece] = []
    answer = await provider.complete(ask(), pieces.append)
    assert answer.text == "one two\nthree — ÄÖ 🦀"
    assert [piece.text for piece in pieces if isinstance(piece, TextPiece)] == [
        "one ", "two\n", "three ", "— ", "ÄÖ ", "🦀",
    ]  # fmt: skip
    assert len(pieces) == 6
    assert answer.stop_reason == "end_turn"
    assert (answer.provider, answer.model) == (provider.name, "claude-opus-4-8")


async def test_thinking_is_told_apart_from_words(
    provider: Provider, server: FakeModelServer
) -> None:
    server.queue([Thinking("let me see", signature="sig"), Text("done")])
    pieces: list[ModelPiece] = []
    answer = await provider.complete(ask(thinking="low"), pieces.append)
    thoughts = [piece.thinking for piece in pieces if isinstance(piece, ThinkingPiece)]
    assert thoughts == ["let ", "me ", "see"]
    assert pieces[-1] == TextPiece("done")
    assert answer.text == "done"
    thought = answer.blocks[0]
    assert isinstance(thought, Thinking)
    assert thought.thinking == "let me see"


async def test_one_tool_call(provider: Provider, server: FakeModelServer) -> None:
    server.queue([Text("I look."), ToolUse("call_1", "read", {"path": "ä.txt"})])
    pieces: list[ModelPiece] = []
    answer = await provider.complete(ask(tools=[READ]), pieces.append)
    assert answer.blocks == [Text("I look."), ToolUse("call_1", "read", {"path": "ä.txt"})]
    assert pieces[-1] == ToolPiece("call_1", "read")
    assert answer.stop_reason == "tool_use"


async def test_several_tool_calls_at_once_keep_their_order(
    provider: Provider, server: FakeModelServer
) -> None:
    calls: list[AssistantBlock] = [ToolUse(f"call_{n}", "read", {"n": n}) for n in range(5)]
    server.queue(calls)
    assert (await complete(provider)).blocks == calls


async def test_a_call_without_arguments_has_empty_input(
    provider: Provider, server: FakeModelServer
) -> None:
    server.queue([ToolUse("call_1", "list", {})])
    assert (await complete(provider)).tool_calls == [ToolUse("call_1", "list", {})]


async def test_usage_counts_what_was_read_written_and_cached(
    provider: Provider, server: FakeModelServer
) -> None:
    usage = Usage(input=100, output=20, cache_read=300, cache_write=40)
    server.queue(Reply([Text("hi")], usage=usage))
    answer = await complete(provider)
    assert answer.usage == usage
    assert answer.usage.prompt == 440


@pytest.mark.parametrize(
    ("stop", "ours"),
    [("end_turn", "end_turn"), ("tool_use", "tool_use"), ("max_tokens", "max_tokens")],
)
async def test_stop_reasons_are_ours(
    provider: Provider, server: FakeModelServer, stop: str, ours: str
) -> None:
    server.queue(Reply([Text("hi")], stop=stop))
    assert (await complete(provider)).stop_reason == ours


@pytest.mark.parametrize(
    ("stop", "ours"),
    [
        ("stop_sequence", "end_turn"),
        ("pause_turn", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("something_new", "end_turn"),
    ],
)
async def test_anthropics_other_stop_reasons(
    anthropic: Provider, server: FakeModelServer, stop: str, ours: str
) -> None:
    server.queue(Reply([Text("hi")], stop=stop))
    assert (await complete(anthropic)).stop_reason == ours


# What is sent


async def test_a_whole_tool_loop_with_images_is_accepted(
    provider: Provider, server: FakeModelServer
) -> None:
    calls: list[AssistantBlock] = [ToolUse("a.1:x", "read", {}), ToolUse("b", "read", {"n": 1})]
    turns: list[Turn] = [
        UserTurn([], [Text("look"), Text(" "), PIXEL]),
        AssistantTurn([Thinking("without a seal"), Text(""), *calls]),
        UserTurn(
            [ToolReturn("a.1:x", [Text("first"), PIXEL]), ToolReturn("b", [], is_error=True)],
            [Text("and now?")],
        ),
        AssistantTurn([Thinking("only thoughts")]),
        user("speak"),
    ]
    assert (await complete(provider, *turns, tools=[READ])).text == "Hello from the fake model."
    assert len(server.requests) == 1


async def test_results_go_first_in_anthropics_user_message(
    anthropic: Provider, server: FakeModelServer
) -> None:
    result = ToolReturn("c1", [Text("it says"), PIXEL], is_error=True)
    call = AssistantTurn([ToolUse("c1", "read", {})])
    await complete(anthropic, user("hi"), call, UserTurn([result], [Text("well?")]))
    first, second = server.requests[0].body["messages"][2]["content"]
    assert first == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "is_error": True,
        "content": [
            {"type": "text", "text": "it says"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
            },
        ],
    }
    assert second["text"] == "well?"


async def test_openais_tool_images_follow_all_results_in_a_user_message(
    openai: Provider, server: FakeModelServer
) -> None:
    calls = AssistantTurn([ToolUse("c1", "read", {"n": 1}), ToolUse("c2", "read", {})])
    returned = [ToolReturn("c1", [Text("it says"), PIXEL]), ToolReturn("c2", [Text("no")], True)]
    await complete(openai, user("hi"), calls, UserTurn(returned, []))
    _system, _user, assistant, first, second, pictures = server.requests[0].body["messages"]
    assert assistant["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"n":1}'}
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "it says"}
    assert second == {"role": "tool", "tool_call_id": "c2", "content": "Error: no"}
    assert pictures["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


async def test_anthropic_thinking_goes_back_as_it_came(
    anthropic: Provider, server: FakeModelServer
) -> None:
    blocks: list[AssistantBlock] = [
        Thinking("let me see", signature="c2lnbmVk"),
        Thinking("", redacted="aGlkZGVu"),
        ToolUse("c1", "read", {}),
    ]
    server.queue(blocks)
    answer = await complete(anthropic, thinking="high", tools=[READ])
    assert answer.blocks == blocks
    result = UserTurn([ToolReturn("c1", [Text("ok")])], [])
    await complete(anthropic, user("hello"), AssistantTurn(answer.blocks), result, thinking="high")
    assert server.requests[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "let me see", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {}},
    ]


async def test_anthropic_marks_tools_system_and_conversation_for_its_cache(
    anthropic: Provider, server: FakeModelServer
) -> None:
    write = msgspec.structs.replace(READ, name="write")
    await complete(anthropic, tools=[READ, write])
    body = server.requests[0].body
    mark = {"type": "ephemeral"}
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, mark]
    assert body["system"][0]["cache_control"] == mark
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark


@pytest.mark.parametrize(
    ("model", "adaptive"),
    [
        ("claude-3-7-sonnet-20250219", False),
        ("claude-opus-4-20250514", False),
        ("claude-haiku-4-5-20251001", False),
        ("claude-opus-4-6", True),
        ("claude-sonnet-5", True),
        ("claude-opus-5-5", True),
        ("us.anthropic.claude-sonnet-4-6", True),
        ("claude-mythos-preview", True),
        ("MiniMax-M2", False),
    ],
)
def test_newer_claudes_set_their_own_thinking_budget(model: str, adaptive: bool) -> None:
    params = message_params(ask(model=model, thinking="medium", output_tokens_max=1000))
    assert params["thinking"]["type"] == ("adaptive" if adaptive else "enabled")
    assert ("output_config" in params) == adaptive
    assert params["max_tokens"] == 1000 + (32_000 if adaptive else 8192)


async def test_every_thinking_level_is_accepted(
    provider: Provider, server: FakeModelServer
) -> None:
    for level in ("off", "minimal", "low", "medium", "high", "xhigh"):
        for model in ("claude-haiku-4-5", "claude-opus-4-8"):
            await complete(provider, model=model, thinking=level, output_tokens_max=10)


def test_a_budget_waits_for_the_next_message_when_calls_came_without_thinking() -> None:
    call = AssistantTurn([ToolUse("c1", "read", {})])
    result = UserTurn([ToolReturn("c1", [Text("ok")])], [])
    middle = ask(user("hi"), call, result, model="claude-haiku-4-5", thinking="low")
    assert "thinking" not in message_params(middle)


async def test_other_servers_get_the_old_name_of_the_output_limit(
    openai: Provider, server: FakeModelServer
) -> None:
    await complete(openai, output_tokens_max=77)
    assert server.requests[0].body["max_tokens"] == 77


# What goes wrong


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Refuse("rate_limit"), RateLimited),
        (Refuse("server_error"), ProviderOverloaded),
        (Refuse("overloaded"), ProviderOverloaded),
        (Refuse("unauthorized"), KeyRefused),
        (Refuse("not_found"), ProviderRefused),
        (Refuse("quota"), KeyRefused),
        (Refuse("invalid"), ProviderRefused),
        (Refuse("context_overflow"), ContextOverflow),
        (Broken("cut"), ProviderOverloaded),
        (Broken("cut", after=0), ProviderOverloaded),
        (Broken("malformed"), ProviderOverloaded),
        (Broken("malformed", after=1), ProviderOverloaded),
        (Broken("error_event"), ProviderOverloaded),
        (Broken("error_event", trouble="context_overflow"), ContextOverflow),
        (Broken("error_event", trouble="invalid"), ProviderRefused),
        (Broken("error_event", trouble="unauthorized"), KeyRefused),
        (Raw([]), ProviderOverloaded),
        (Raw([b"<html>Welcome</html>"], "text/html"), ProviderError),
        (Raw([b"event: message_start\ndata: [1]\n\n"]), ProviderError),
    ],
)
async def test_each_fault_has_its_error(
    provider: Provider, server: FakeModelServer, refusal: Any, error: type[ProviderError]
) -> None:
    server.queue(refusal)
    with pytest.raises(ProviderError) as failure:
        await complete(provider)
    assert type(failure.value) is error
    assert (await complete(provider)).text == "Hello from the fake model."


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), (None, None), ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0)],
)
async def test_an_overloaded_service_says_when_to_come_back(
    provider: Provider, server: FakeModelServer, header: str | None, seconds: float | None
) -> None:
    server.queue(Refuse("rate_limit", retry_after=header))
    with pytest.raises(ProviderOverloaded) as failure:
        await complete(provider)
    assert failure.value.retry_after_s == seconds


async def test_a_short_trouble_is_tried_again(api: str, server: FakeModelServer) -> None:
    provider = make(api, server, retries=1)
    server.queue(Refuse("overloaded", retry_after="0.01"), "here I am")
    assert (await complete(provider)).text == "here I am"
    await provider.close()


async def test_a_line_that_breaks_before_the_answer_is_tried_again() -> None:
    answer = b'data: {"choices": [{"delta": {"content": "at last"}, "finish_reason": "stop"}]}\n\n'
    lines = [b"", b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + answer]

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(lines.pop(0))

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        provider = OpenAIProvider("openai", f"http://127.0.0.1:{port}", KEY, retries=1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            assert (await complete(provider)).text == "at last"
            tasks.cancel_scope.cancel()
    await provider.close()
    assert not lines


async def test_a_kept_connection_that_the_server_has_closed_is_replaced_at_once() -> None:
    """Without a retry that anybody would see; llama.cpp hangs up so. A new connection is not tried twice."""
    answer = b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
    length = f"content-length: {len(answer)}\r\n".encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + length + b"\r\n"
    connections: list[int] = []

    async def serve(stream: anyio.abc.SocketStream) -> None:
        connections.append(1)
        async with stream:
            await stream.receive()
            if len(connections) < 3:
                await stream.send(head + answer)
                with suppress(anyio.EndOfStream):
                    await stream.receive()  # the next request, which is left without an answer

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        provider = OpenAIProvider("openai", f"http://127.0.0.1:{port}", KEY, retries=0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            assert (await complete(provider)).text == "hi"
            assert (await complete(provider)).text == "hi"
            assert len(connections) == 2
            await provider.close()
            with pytest.raises(ProviderOverloaded):
                await complete(provider)  # a new one
            assert len(connections) == 3
            await provider.close()
            tasks.cancel_scope.cancel()


async def test_a_long_wait_is_told_and_not_slept(api: str, server: FakeModelServer) -> None:
    provider = make(api, server, retries=2)
    server.queue(Refuse("rate_limit", retry_after="90"))
    with anyio.fail_after(5):
        with pytest.raises(ProviderOverloaded, match="try again in 90 s"):
            await complete(provider)
    assert len(server.requests) == 1
    await provider.close()


async def test_silence_in_the_middle_of_an_answer_ends_it(
    api: str, server: FakeModelServer
) -> None:
    provider = make(api, server, silence_timeout_s=0.2)
    server.queue(Broken("silence", seconds=30))
    with pytest.raises(ProviderOverloaded, match=r"silent for 0\.2 s"):
        await complete(provider)
    await provider.close()


async def test_a_slow_answer_is_no_silence(api: str, server: FakeModelServer) -> None:
    provider = make(api, server, silence_timeout_s=0.5)
    reply = Reply([Text("slow")])
    server.queue(Broken("trickle", seconds=0.0008, reply=reply))
    began = time.monotonic()
    assert (await complete(provider)).text == "slow"
    assert time.monotonic() - began > 0.5
    await provider.close()


async def test_a_service_that_is_not_there_is_named_with_its_setting(api: str) -> None:
    with FakeModelServer() as gone:
        provider = make(api, gone)
    with pytest.raises(ProviderOverloaded, match=r"cannot be reached at 127\.0\.0\.1:\d+.*baseUrl"):
        await complete(provider)
    await provider.close()


@pytest.mark.parametrize("made", [AnthropicProvider, OpenAIProvider])
@pytest.mark.parametrize("base_url", ["localhost", "http://host:port", "ftp://host", "http:///v1"])
def test_a_base_url_that_is_none_is_told(made: Any, base_url: str) -> None:
    with pytest.raises(ProviderRefused, match=r"models\.providers\.x\.baseUrl is no address"):
        made("x", base_url, KEY)


@pytest.mark.parametrize("made", [AnthropicProvider, OpenAIProvider])
@pytest.mark.parametrize("key", ["", "“sk-quoted”", "sk-two\nlines"])
def test_a_key_that_no_header_could_carry_is_told_without_quoting_it(made: Any, key: str) -> None:
    with pytest.raises(ProviderRefused, match="X_API_KEY") as failure:
        made("x", None, key)
    assert not key or key not in str(failure.value)


async def test_a_cancelled_call_ends_at_once_and_leaves_the_line(
    provider: Provider, server: FakeModelServer
) -> None:
    await complete(provider)
    server.queue(Broken("silence", after=5, seconds=30))
    pieces: list[ModelPiece] = []
    began = time.monotonic()
    with anyio.CancelScope() as scope:

        def stop(piece: ModelPiece) -> None:
            pieces.append(piece)
            scope.cancel()

        await provider.complete(ask(), stop)
    assert scope.cancelled_caught
    assert pieces
    assert time.monotonic() - began < 2
    assert (await complete(provider)).text == "Hello from the fake model."


async def test_the_key_is_in_no_error(provider: Provider, server: FakeModelServer) -> None:
    echo = f"Incorrect API key provided: {KEY}."
    server.queue(*(Refuse(t, message=echo) for t in ("unauthorized", "invalid", "rate_limit")))
    for _trouble in range(3):
        with pytest.raises(ProviderError) as failure:
            await complete(provider)
        assert "[key]" in str(failure.value)
        assert KEY not in "".join(traceback.format_exception(failure.value))


async def test_an_illegal_request_is_refused_with_the_services_words(provider: Provider) -> None:
    unanswered = AssistantTurn([ToolUse("c1", "read", {})])
    with pytest.raises(ProviderRefused, match="c1"):
        await complete(provider, user("hi"), unanswered, user("and?"))


# Servers that only nearly speak the wire


def chunk(delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **choice}]}


def call_part(arguments: str | None = None, name: str | None = None, **part: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        **part,
        "function": {key: value for key, value in function.items() if value is not None},
    }


FINISH = chunk({}, finish_reason="stop")


async def test_a_stream_under_another_name_is_read_all_the_same(
    openai: Provider, server: FakeModelServer
) -> None:
    server.queue(Raw([chunk({"content": "hi"}), FINISH], "text/plain; charset=latin-1"))
    assert (await complete(openai)).text == "hi"


async def test_an_answer_is_whole_although_the_server_never_ends_it(
    provider: Provider, server: FakeModelServer
) -> None:
    server.queue(Broken("silence", after=100, seconds=30, reply=Reply([Text("that is all")])))
    with anyio.fail_after(10):
        assert (await complete(provider)).text == "that is all"
    assert (await complete(provider)).text == "Hello from the fake model."


async def test_half_a_surrogate_pair_spoils_no_answer(
    openai: Provider, server: FakeModelServer
) -> None:
    half = b'data: {"choices": [{"delta": {"content": "crab \\ud83e"}}]}\n\n'
    server.queue(Raw([half, FINISH]))
    assert (await complete(openai)).text == "crab \ud83e"


async def test_an_error_event_need_not_be_json(provider: Provider, server: FakeModelServer) -> None:
    server.queue(Raw([b"event: error\ndata: the upstream is gone\n\n"]))
    with pytest.raises(ProviderError, match="the upstream is gone"):
        await complete(provider)


async def test_missing_usage_is_no_usage(openai: Provider, server: FakeModelServer) -> None:
    server.queue(Raw([chunk({"content": "hi"}), FINISH]))
    answer = await complete(openai)
    assert (answer.text, answer.usage) == ("hi", None)


async def test_reasoning_under_its_other_name(openai: Provider, server: FakeModelServer) -> None:
    server.queue(Raw([chunk({"reasoning": "hm"}), chunk({"content": "hi"}), FINISH]))
    assert (await complete(openai)).blocks == [Thinking("hm"), Text("hi")]


async def test_call_deltas_may_be_interleaved_and_their_names_repeated(
    openai: Provider, server: FakeModelServer
) -> None:
    parts = [
        call_part('{"a"', "read", index=0, id="x"),
        call_part('{"b"', "write", index=1, id="y"),
        call_part(": 1}", "read", index=0),
        call_part(": 2}", index=1, id="y"),
    ]
    server.queue(Raw([*(chunk({"tool_calls": [part]}) for part in parts), FINISH]))
    answer = await complete(openai)
    assert answer.blocks == [ToolUse("x", "read", {"a": 1}), ToolUse("y", "write", {"b": 2})]
    assert answer.stop_reason == "tool_use"


async def test_calls_without_ids_get_the_same_ids_every_time(
    openai: Provider, server: FakeModelServer
) -> None:
    calls = [call_part("{}", "read", index=0), call_part("{}", "read", index=1)]
    server.queue(*[Raw([chunk({"tool_calls": calls}), FINISH])] * 2)
    first = await complete(openai)
    assert (await complete(openai)).tool_calls == first.tool_calls
    assert len({call.id for call in first.tool_calls}) == 2


async def test_calls_that_share_an_index_or_have_none_are_told_apart_by_id(
    openai: Provider, server: FakeModelServer
) -> None:
    for place in ({"index": 0}, {}):
        calls = [call_part("{}", "a", id="x", **place), call_part("{}", "b", id="y", **place)]
        server.queue(Raw([chunk({"tool_calls": calls}), FINISH]))
        answer = await complete(openai)
        assert [(call.id, call.name) for call in answer.tool_calls] == [("x", "a"), ("y", "b")]


async def test_an_id_that_the_conversation_has_already_is_replaced(
    openai: Provider, server: FakeModelServer
) -> None:
    earlier = AssistantTurn([ToolUse("call_0", "read", {})])
    result = UserTurn([ToolReturn("call_0", [Text("ok")])], [])
    server.queue([ToolUse("call_0", "read", {})])
    answer = await complete(openai, user("hi"), earlier, result)
    assert answer.tool_calls[0].id != "call_0"


@pytest.mark.parametrize("written", ['{"path": ', "[1]", '"text"'])
async def test_arguments_that_are_no_object_reach_the_loop_as_raw_text_and_can_be_answered(
    openai: Provider, server: FakeModelServer, written: str
) -> None:
    part = call_part(written, "read", index=0, id="c1")
    server.queue(Raw([chunk({"tool_calls": [part]}), FINISH]))
    call = (await complete(openai)).tool_calls[0]
    assert call.input == {"_raw": written}
    assert raw_arguments(call.input) == written
    error = UserTurn([ToolReturn("c1", [Text("write a JSON object")], is_error=True)], [])
    await complete(openai, user("hi"), AssistantTurn([call]), error)


async def test_an_anthropic_event_without_its_fields_is_told(
    anthropic: Provider, server: FakeModelServer
) -> None:
    server.queue(Raw([{"type": "message_start"}]))
    with pytest.raises(ProviderError, match="does not speak the Anthropic Messages API"):
        await complete(anthropic)


async def test_an_anthropic_call_cut_by_the_output_limit_is_raw_text_too(
    anthropic: Provider, server: FakeModelServer
) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    block = {"type": "tool_use", "id": "c1", "name": "write", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"path": "a'}
    start: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "usage": usage}
    server.queue(
        Raw(
            [
                {"type": "message_start", "message": start},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                b"garbage without a colon\n: a comment\n\n",
                {"type": "a_new_event", "content": 1},
                {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": usage},
                {"type": "message_stop"},
            ]
        )
    )
    answer = await complete(anthropic)
    assert answer.tool_calls == [ToolUse("c1", "write", {"_raw": '{"path": "a'})]
    assert answer.stop_reason == "max_tokens"


# The package itself


@pytest.mark.parametrize("module", ["anthropic", "openai", "registry"])
def test_importing_a_provider_does_not_import_the_http_client(module: str) -> None:
    code = f"import sys, crossclaw.providers.{module};sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_missing_package_says_what_to_install(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)  # Python's own way to say that it is not there
    kept_connections._trust.cache_clear()  # as in a process that has asked nobody yet
    with pytest.raises(ProviderMissing, match=r"pip install 'crossclaw\[models\]'"):
        await complete(provider)


async def test_a_closed_provider_may_be_used_again(provider: Provider) -> None:
    await complete(provider)
    await provider.close()
    assert (await complete(provider)).text == "Hello from the fake model."


async def test_many_calls_side_by_side_do_not_mix(
    provider: Provider, server: FakeModelServer
) -> None:
    answers: dict[int, str] = {}

    async def one(number: int) -> None:
        request = ask(user(f"number {number}"))
        answers[number] = (await provider.complete(request, ignore)).text

    with FakeModelServer(lambda asked: f"you said {asked.last_text}") as echo:
        many = make(provider.name, echo)
        provider = many
        async with anyio.create_task_group() as tasks:
            for number in range(32):
                tasks.start_soon(one, number)
        await many.close()
    assert answers == {number: f"you said number {number}" for number in range(32)}
