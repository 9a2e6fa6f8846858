"""All five wires against the strict fake: what each must send, read, refuse and count."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config.model import ANTHROPIC_MODEL, OPENAI_MODEL
from crossclaw.domain.errors import (
    ContextOverflow,
    KeyRefused,
    ModelDeclined,
    ProviderError,
    ProviderOverloaded,
    ProviderRefused,
    RateLimited,
    ThinkingRefused,
)
from crossclaw.domain.messages import (
    AssistantBlock,
    Document,
    MediaSource,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from crossclaw.domain.models import LEVELS
from crossclaw.providers.adapting import Adapting
from crossclaw.providers.contract import (
    AssistantTurn,
    CacheMarks,
    LostSpending,
    ModelPiece,
    Provider,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    ToolReturn,
    Turn,
    UserTurn,
)
from crossclaw.providers.options import ModelOptions, WireOptions
from crossclaw.testing.fake_facts import CLAUDES, GPTS
from crossclaw.testing.fake_models import Broken, FakeModelServer, Raw, Refuse, Status
from crossclaw.testing.fake_overflows import LIMITS, OVERFLOWS
from crossclaw.testing.fake_shapes import Reply
from tests.contracts.wires import (
    EITHER,
    KEY,
    PIXEL,
    READ,
    WIRES,
    ask,
    complete,
    make,
    opened,
    plain,
    returned,
    user,
)


@pytest.fixture
def anyio_backend() -> str:
    """As in production, and a real wire needs real time."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


@pytest.fixture(params=WIRES)
async def provider(
    request: pytest.FixtureRequest, server: FakeModelServer
) -> AsyncIterator[Provider]:
    async with opened(str(request.param), server) as provider:
        yield provider


# What comes back


async def test_words_are_told_in_order_and_the_message_is_the_whole(
    provider: Provider, server: FakeModelServer
) -> None:
    server.queue("one two\nthree — ÄÖ 🦀")
    pieces: list[ModelPiece] = []
    answer = await provider.complete(ask(provider.name), pieces.append)
    assert answer.text == "one two\nthree — ÄÖ 🦀"
    assert [piece.text for piece in pieces if isinstance(piece, TextPiece)] == [
        "one ", "two\n", "three ", "— ", "ÄÖ ", "🦀",
    ]  # fmt: skip
    assert answer.stop_reason == "end_turn"
    assert answer.usage == Usage(input=10, output=5)


async def test_a_thought_a_word_and_calls_keep_their_order(
    provider: Provider, server: FakeModelServer
) -> None:
    calls = [ToolUse("a", "read", {"path": "ä"}), ToolUse("b", "list", {})]
    server.queue([Thinking("let me see"), Text("I look."), *calls])
    pieces: list[ModelPiece] = []
    request = ask(provider.name, thinking="low", tools=[READ])
    answer = await provider.complete(request, pieces.append)
    assert plain(answer.blocks) == [
        ("Thinking", "let me see"), ("Text", "I look."), ("read", {"path": "ä"}), ("list", {}),
    ]  # fmt: skip
    assert answer.stop_reason == "tool_use"
    told = "".join(piece.thinking for piece in pieces if isinstance(piece, ThinkingPiece))
    assert told == "let me see"
    assert [p.tool_use_id for p in pieces if isinstance(p, ToolPiece)] == [
        call.id for call in answer.tool_calls
    ]


async def test_an_answer_that_the_limit_cut_says_so(
    provider: Provider, server: FakeModelServer
) -> None:
    server.queue(Reply([Text("half an ans")], stop="max_tokens"))
    answer = await complete(provider)
    assert (answer.text, answer.stop_reason) == ("half an ans", "max_tokens")


# What is sent


async def test_a_tool_loop_comes_back_as_the_service_wants_it(
    provider: Provider, server: FakeModelServer
) -> None:
    """Thinking, signatures, encrypted reasoning, ids: three rounds, each with the answers so far."""
    turns: list[Turn] = [user("go")]
    for number in range(3):
        call = ToolUse(f"thought_{number}", "read", {"path": str(number)})
        server.queue([Thinking(f"round {number}", signature="s"), Text("I look."), call])
        answer = await complete(provider, *turns, thinking="medium", tools=[READ, EITHER])
        assert len(answer.tool_calls) == 1
        turns += [AssistantTurn(answer.blocks), returned(*answer.tool_calls)]
    server.queue("done")
    assert (
        await complete(provider, *turns, thinking="medium", tools=[READ, EITHER])
    ).text == "done"


async def test_pictures_of_people_and_of_tools_are_accepted(
    provider: Provider, server: FakeModelServer
) -> None:
    calls: list[AssistantBlock] = [ToolUse("a.1:x", "read", {}), ToolUse("b", "read", {"n": 1})]
    turns: list[Turn] = [
        UserTurn([], [Text("look"), Text(" "), PIXEL]),
        AssistantTurn([Thinking("of nobody"), Text(""), *calls]),
        UserTurn(
            [ToolReturn("a.1:x", [Text("first"), PIXEL]), ToolReturn("b", [], is_error=True)],
            [Text("and now?")],
        ),
        AssistantTurn([Thinking("only thoughts")]),
        user("speak"),
    ]
    assert (await complete(provider, *turns, tools=[READ])).text == "Hello from the fake model."


async def test_a_pdf_is_accepted_as_it_is_or_in_its_words(
    provider: Provider, server: FakeModelServer
) -> None:
    pdf = b"%PDF-1.7 /Type /Page %%EOF"
    source = MediaSource("base64", "application/pdf", base64.b64encode(pdf).decode())
    turn = UserTurn([], [Document(source, "bread.pdf", "Flour and water"), Text("read it")])

    assert (await complete(provider, turn)).text == "Hello from the fake model."

    sent = msgspec.json.encode(server.requests[0].body).decode()
    assert (str(source.data) in sent) != ("Flour and water" in sent), "one of the two"


ALL_MODELS = [
    *(("anthropic", model) for model in CLAUDES),
    *(("responses", model) for model in GPTS if model not in ("gpt-4o", "gpt-4.1")),
    *(("chat", model) for model in ("gpt-4o", "gpt-4.1", "gpt-5", "gpt-5.1", "o3")),
    *(("gemini", model) for model in ("gemini-4-argon", "gemini-3-pro", "gemini-2.5-flash")),
    ("anthropic", ANTHROPIC_MODEL.partition("/")[2]),
    ("responses", OPENAI_MODEL.partition("/")[2]),
    ("chat", "deepseek-v4-pro"),
    ("chat", "mistral-large-4"),
    ("chat", "gemini-4-argon"),
    ("chat", "anthropic/claude-opus-5.5"),
    ("ollama", "qwen3:8b"),
]


@pytest.mark.parametrize(("wire", "model"), ALL_MODELS)
async def test_every_model_answers_with_tools_at_every_level(
    server: FakeModelServer, wire: str, model: str
) -> None:
    """Without a single refusal: what it takes is known beforehand."""
    async with opened(wire, server) as provider:
        for level in LEVELS:
            call = ToolUse("thought_1", "read", {})
            server.queue([Thinking("hm"), call], "done")
            first = await complete(provider, model=model, thinking=level, tools=[READ])
            turns: list[Turn] = [
                user("hello"),
                AssistantTurn(first.blocks),
                returned(*first.tool_calls),
            ]
            second = await complete(provider, *turns, model=model, thinking=level, tools=[READ])
            assert second.text == "done"
    assert len(server.requests) == 2 * len(LEVELS)


@pytest.mark.parametrize("model", ["deepseek-v4-pro", "gemini-4-argon", "mistral-large-4"])
async def test_calls_of_another_model_are_taken_by_services_that_want_their_state(
    server: FakeModelServer, model: str
) -> None:
    turns: list[Turn] = [user("hi"), AssistantTurn([ToolUse("toolu_01ABC", "read", {})])]
    turns.append(UserTurn([ToolReturn("toolu_01ABC", [Text("ok"), PIXEL])], [Text("and?")]))
    for wire in ("chat", "gemini") if model.startswith("gemini") else ("chat",):
        async with opened(wire, server) as provider:
            await complete(provider, *turns, model=model, tools=[READ])


async def test_not_thinking_is_said_to_models_that_think_unasked(server: FakeModelServer) -> None:
    said = {
        "claude-haiku-5-5": {"thinking": {"type": "disabled"}},
        "claude-sonnet-5-5": {"thinking": {"type": "between_tools"}},
        "claude-opus-5-5": {"output_config": {"effort": "low"}},
        "claude-opus-4-8": {},
    }
    async with opened("anthropic", server) as provider:
        for model in said:
            await complete(provider, model=model)
    for request, (model, wanted) in zip(server.requests, said.items(), strict=True):
        found = {name: request.body.get(name) for name in ("thinking", "output_config")}
        assert {name: v for name, v in found.items() if v} == wanted, model


@pytest.mark.parametrize("wire", ["anthropic", "responses", "gemini"])
async def test_there_is_room_for_twelve_thousand_tokens_of_thought(
    server: FakeModelServer, wire: str
) -> None:
    server.queue(Reply([Thinking("long"), Text("42")], thought_tokens=12_000))
    async with opened(wire, server) as provider:
        assert (await complete(provider, thinking="medium")).text == "42"


@pytest.mark.parametrize("wire", ["anthropic", "responses", "gemini"])
async def test_more_room_is_more_room_and_never_more_than_the_model_has(
    server: FakeModelServer, wire: str
) -> None:
    server.queue(*[Reply([Thinking("long"), Text("42")], thought_tokens=60_000)] * 2)
    async with opened(wire, server) as provider:
        first = await complete(provider, thinking="medium", output_tokens_max=4_000)
        assert (first.text, first.stop_reason) == ("", "max_tokens")
        more = await complete(provider, thinking="medium", output_tokens_max=4_000, more_room=True)
        assert more.text == "42"
        await complete(provider, thinking="xhigh", output_tokens_max=128_000, more_room=True)


async def test_four_cache_marks_one_where_the_last_request_ended(server: FakeModelServer) -> None:
    words = "word " * 4000
    turns: list[Turn] = [user(words)]
    async with opened("anthropic", server) as provider:
        for number in range(6):
            reads: list[AssistantBlock] = [
                ToolUse(f"c{number}_{n}", "read", {"n": n}) for n in range(12)
            ]
            server.queue(reads)
            answer = await complete(provider, *turns, tools=[READ])
            turns += [AssistantTurn(answer.blocks), returned(*answer.tool_calls, text=words[:900])]
    for request in server.requests:
        server.cache.charge(request.body)
    assert server.cache.ratio <= 1.05
    assert all(usage.cache_read for usage in server.cache.requests[1:])


async def test_marks_of_an_hour(server: FakeModelServer) -> None:
    async with opened("anthropic", server) as provider:
        await complete(provider, tools=[READ], cache=CacheMarks(ttl="1h"))
    body = server.requests[0].body
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


async def test_headers_params_and_compat_reach_the_request(
    provider: Provider, server: FakeModelServer
) -> None:
    options = WireOptions(
        ModelOptions({"X-Team": "one", "X-All": "yes"}, {"temperature": 0.1, "top_p": 1}),
        {"m": ModelOptions({"X-Team": "two"}, {"temperature": 0.2})},
        facts=lambda _model: WireOptions().facts("gpt-4o"),
    )
    async with opened(provider.name, server, options=options) as own:
        await complete(own, model="m", params={"top_p": 0.5, "model": "another", "stream": False})
    request = server.requests[-1]
    assert (request.headers["x-team"], request.headers["x-all"]) == ("two", "yes")
    inner = {"ollama": "options", "gemini": "generationConfig"}.get(provider.name)
    found = request.body[inner] if inner else request.body
    top_p = "topP" if provider.name == "gemini" else "top_p"
    assert (found["temperature"], found[top_p]) == (0.2, 0.5)
    assert request.body["model"] == "m"
    if inner:
        assert "temperature" not in request.body


async def test_every_item_of_the_responses_wire_says_what_it_is(server: FakeModelServer) -> None:
    """OpenAI takes an assistant's words without it, llama.cpp refuses them."""
    async with opened("responses", server) as provider:
        await complete(
            provider, user("a"), AssistantTurn([Text("b")]), user("c"), AssistantTurn([]), user("d")
        )
    said = [item for item in server.requests[0].body["input"] if item.get("role") == "assistant"]
    assert [item["type"] for item in said] == ["message", "message"]


async def test_fields_of_geminis_config_are_added_to_ours(server: FakeModelServer) -> None:
    own = {"generationConfig": {"responseMimeType": "application/json"}, "safetySettings": []}
    async with opened("gemini", server) as provider:
        await complete(provider, params=own, output_tokens_max=77, model="gemini-2.0-flash")
    body = server.requests[0].body
    assert body["generationConfig"] == {
        "maxOutputTokens": 77,
        "responseMimeType": "application/json",
    }
    assert body["safetySettings"] == []


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
        (Raw([b"<html>Welcome</html>"], "text/html"), ProviderError),
        (Status(200, {"error": {"message": "the upstream is gone"}}), ProviderError),
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


async def test_an_error_in_the_middle_of_an_answer_is_told(
    provider: Provider, server: FakeModelServer
) -> None:
    server.queue(
        Broken("error_event", after=2), Broken("error_event", 2, trouble="context_overflow")
    )
    with pytest.raises(ProviderError):
        await complete(provider)
    with pytest.raises(ContextOverflow):
        await complete(provider)


async def test_every_services_overflow_is_one_on_every_wire(
    provider: Provider, server: FakeModelServer
) -> None:
    for service, (status, body) in OVERFLOWS.items():
        server.queue(Status(status, body))
        with pytest.raises(ProviderError) as failure:
            await complete(provider)
        assert type(failure.value) is ContextOverflow, service


@pytest.mark.parametrize("service", LIMITS)
async def test_a_limit_of_tokens_a_minute_is_no_overflow(
    server: FakeModelServer, service: str
) -> None:
    status, body = LIMITS[service]
    server.queue(Status(status, body))
    async with opened("chat", server) as provider:
        with pytest.raises(RateLimited):
            await complete(provider)


async def test_the_key_is_in_no_error(provider: Provider, server: FakeModelServer) -> None:
    echo = f"Incorrect API key provided: {KEY}."
    server.queue(*(Refuse(t, message=echo) for t in ("unauthorized", "invalid", "rate_limit")))
    for _trouble in range(3):
        with pytest.raises(ProviderError) as failure:
            await complete(provider)
        assert "[key]" in str(failure.value)
        assert KEY not in str(failure.value)


async def test_a_call_that_takes_too_long_is_ended(server: FakeModelServer) -> None:
    server.queue(Broken("trickle", seconds=0.05))
    async with opened("chat", server, options=WireOptions(timeout_s=0.3)) as provider:
        with pytest.raises(ProviderOverloaded, match=r"timeoutSeconds"):
            await complete(provider)


# Refusals


@pytest.mark.parametrize(
    ("wire", "reply"),
    [
        ("anthropic", Reply([Text("I c")], stop="refusal")),
        ("chat", Reply([Text("I c")], stop="content_filter")),
        ("responses", Reply([Text("I c")], stop="content_filter")),
        ("gemini", Reply([Text("I c")], stop="PROHIBITED_CONTENT")),
    ],
)
async def test_a_model_that_declines_is_no_answer_and_has_cost_something(
    server: FakeModelServer, wire: str, reply: Reply
) -> None:
    server.queue(reply)
    pieces: list[ModelPiece] = []
    async with opened(wire, server) as provider:
        with pytest.raises(ModelDeclined, match="declined"):
            await provider.complete(ask(wire), pieces.append)
    assert pieces[-1] == LostSpending(Usage(input=10, output=5))


# Thinking that no longer fits


async def test_thinking_behind_a_changed_beginning_is_left_out_and_the_call_repeated_once(
    server: FakeModelServer,
) -> None:
    async with opened("anthropic", server) as bare:
        provider = Adapting(bare)
        server.queue([Thinking("hm"), ToolUse("c1", "read", {})], "done")
        first = await complete(provider, tools=[READ])
        turns: list[Turn] = [
            user("hello"),
            AssistantTurn(first.blocks),
            returned(*first.tool_calls),
        ]
        with pytest.raises(ThinkingRefused):
            await complete(bare, *turns, tools=[READ], system="Another prompt.")
        answer = await complete(provider, *turns, tools=[READ], system="Another prompt.")
    assert answer.text == "done"
    said = [request.body["messages"] for request in server.requests]
    assert [len(messages[1]["content"]) for messages in said[1:]] == [2, 2, 1]


async def test_a_level_that_is_refused_is_stepped_down_and_remembered(
    server: FakeModelServer,
) -> None:
    refused = Refuse("invalid", message="Unsupported value: 'high' for reasoning_effort")
    server.queue(refused, "so", "and so")
    async with opened("chat", server) as bare:
        provider = Adapting(bare)
        for _call in range(2):
            await complete(provider, model="some-model", thinking="high")
    efforts = [request.body.get("reasoning_effort") for request in server.requests]
    assert efforts == ["high", "medium", "medium"]


async def test_a_model_that_cannot_think_is_asked_without_and_not_again(
    server: FakeModelServer,
) -> None:
    async with opened("ollama", server) as bare:
        provider = Adapting(bare)
        for _call in range(2):
            assert (await complete(provider, model="llama3.2", thinking="low")).text
    assert [request.body.get("think") for request in server.requests] == [True, True, None, None]


# What it has cost


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_that_breaks_off_has_cost_something(
    server: FakeModelServer, wire: str
) -> None:
    server.queue(Broken("cut", after=5, reply=Reply([Text("one two three four five six")])))
    pieces: list[ModelPiece] = []
    async with opened(wire, server) as provider:
        with pytest.raises(ProviderOverloaded):
            await provider.complete(ask(wire, user("x" * 4000)), pieces.append)
    spent = [piece.usage for piece in pieces if isinstance(piece, LostSpending)]
    assert len(spent) == 1
    counted = wire == "anthropic"  # its service says at the beginning what it has read
    assert spent[0].prompt == 10 if counted else spent[0].prompt > 900


async def test_what_a_stopped_call_had_cost_is_told(server: FakeModelServer) -> None:
    usage = Usage(input=12_486, output=1)
    server.queue(Broken("silence", after=4, seconds=30, reply=Reply([Text("a b c")], usage=usage)))
    pieces: list[ModelPiece] = []
    async with opened("anthropic", server) as provider:
        with anyio.CancelScope() as scope:

            def stop(piece: ModelPiece) -> None:
                pieces.append(piece)
                scope.cancel()

            await provider.complete(ask("anthropic"), stop)
    assert pieces[-1] == LostSpending(usage)


# The lists of models


async def test_a_service_is_asked_what_it_offers(
    provider: Provider, server: FakeModelServer
) -> None:
    listed = await provider.list_models()  # type: ignore[attr-defined]
    assert listed
    if provider.name == "ollama":
        qwen, gemma, _llama = listed
        assert (qwen.id, qwen.window, qwen.tools, qwen.thinks) == ("qwen3:8b", 40_960, True, True)
        assert (gemma.pictures, gemma.tools) == (True, False)
    if provider.name == "anthropic":
        assert {"claude-opus-5-5"} <= {model.id for model in listed}
        assert listed[0].output


async def test_ollama_is_told_its_window_and_not_to_cut(server: FakeModelServer) -> None:
    async with opened("ollama", server) as provider:
        await complete(provider, model="qwen3:8b")
    body = server.requests[0].body
    assert body["options"]["num_ctx"] == 131_072
    assert (body["truncate"], body["shift"]) == (False, False)


def test_making_a_provider_asks_nobody() -> None:
    for wire in WIRES:
        with FakeModelServer() as server:
            make(wire, server)
            assert not server.requests
