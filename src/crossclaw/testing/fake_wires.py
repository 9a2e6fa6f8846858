"""The two wires of model services, as a server sees them: what it complains about, how it writes answers and errors.

No sockets here: `fake_models.py` serves this.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from crossclaw.domain.messages import AssistantBlock, Text, Thinking, ToolUse, Usage
from crossclaw.providers.pieces import split_words

Json = dict[str, Any]
Trouble = Literal[
    "rate_limit", "server_error", "overloaded", "unauthorized", "not_found", "quota",
    "context_overflow", "invalid",
]  # fmt: skip


class Reply(msgspec.Struct, frozen=True):
    blocks: list[AssistantBlock]
    stop: str | None = None
    """As our messages or as the wire says it; None: `tool_use` after calls, else `end_turn`."""
    usage: Usage | None = Usage(input=10, output=5)

    @property
    def has_calls(self) -> bool:
        return any(isinstance(block, ToolUse) for block in self.blocks)


class Wire(Protocol):
    path: str

    def complaint(self, headers: Mapping[str, str], body: Json) -> tuple[Trouble, str] | None:
        """What a real service would refuse this request for."""
        ...

    def events(self, reply: Reply, body: Json) -> list[bytes]: ...

    def whole(self, reply: Reply, body: Json) -> Json: ...

    def error(self, trouble: Trouble, message: str | None) -> tuple[int, Json]: ...

    def error_event(self, trouble: Trouble) -> bytes: ...

    def malformed_event(self) -> bytes: ...


def _sse(data: Json | str, event: str | None = None) -> bytes:
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {text}\n\n".encode()


def _halves(call: ToolUse) -> tuple[str, str]:
    text = msgspec.json.encode(call.input).decode()
    return text[: len(text) // 2], text[len(text) // 2 :]


class AnthropicWire:
    path = "/v1/messages"
    _ERRORS: ClassVar[dict[Trouble, tuple[int, str, str]]] = {
        "rate_limit": (429, "rate_limit_error", "This request would exceed your rate limit."),
        "server_error": (500, "api_error", "Internal server error"),
        "overloaded": (529, "overloaded_error", "Overloaded"),
        "unauthorized": (401, "authentication_error", "invalid x-api-key"),
        "not_found": (404, "not_found_error", "model: no-such-model"),
        "quota": (400, "billing_error", "Your credit balance is too low."),
        "context_overflow": (
            400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum",
        ),
        "invalid": (400, "invalid_request_error", "invalid request"),
    }  # fmt: skip

    def complaint(self, headers: Mapping[str, str], body: Json) -> tuple[Trouble, str] | None:
        if not headers.get("x-api-key") and not headers.get("authorization"):
            return "unauthorized", "authorization header is required"
        text = next(_anthropic_complaints(body), None)
        return ("invalid", text) if text else None

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        start = self._message(reply, body) | {"content": [], "stop_reason": None}
        events: list[Json] = [
            {"type": "message_start", "message": start},
            {"type": "ping"},
            *self._block_events(reply),
            {
                "type": "message_delta",
                "delta": {"stop_reason": self._stop(reply), "stop_sequence": None},
                "usage": {"output_tokens": (reply.usage or Usage()).output},
            },
            {"type": "message_stop"},
        ]
        return [_sse(event, event["type"]) for event in events]

    def whole(self, reply: Reply, body: Json) -> Json:
        return self._message(reply, body)

    def error(self, trouble: Trouble, message: str | None) -> tuple[int, Json]:
        status, kind, text = self._ERRORS[trouble]
        error = {"type": kind, "message": message or text}
        return status, {"type": "error", "error": error, "request_id": "req_fake"}

    def error_event(self, trouble: Trouble) -> bytes:
        return _sse(self.error(trouble, None)[1], "error")

    def malformed_event(self) -> bytes:
        return _sse('{"type": "content_block_delta", "index', "content_block_delta")

    def _message(self, reply: Reply, body: Json) -> Json:
        return {
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [_anthropic_block(block) for block in reply.blocks],
            "stop_reason": self._stop(reply),
            "stop_sequence": None,
            "usage": _anthropic_usage(reply.usage or Usage()),
        }

    def _stop(self, reply: Reply) -> str:
        return reply.stop or ("tool_use" if reply.has_calls else "end_turn")

    def _block_events(self, reply: Reply) -> Iterator[Json]:
        for index, block in enumerate(reply.blocks):
            empty, deltas = _anthropic_stream(block)
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}


def _anthropic_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }


def _anthropic_block(block: AssistantBlock) -> Json:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text, "citations": None}
        case Thinking(redacted=str(data)):
            return {"type": "redacted_thinking", "data": data}
        case Thinking(thinking=thinking, signature=signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature or ""}
        case ToolUse(id=call_id, name=name, input=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _anthropic_stream(block: AssistantBlock) -> tuple[Json, list[Json]]:
    """How a block begins, empty, and what is added to it."""
    whole = _anthropic_block(block)
    match block:
        case Text(text=text):
            words = [{"type": "text_delta", "text": word} for word in split_words(text)]
            return whole | {"text": ""}, words
        case Thinking(redacted=str()):
            return whole, []
        case Thinking(thinking=thinking, signature=signature):
            thoughts = [{"type": "thinking_delta", "thinking": w} for w in split_words(thinking)]
            seal = {"type": "signature_delta", "signature": signature or ""}
            return whole | {"thinking": "", "signature": ""}, [*thoughts, seal]
        case ToolUse():
            parts = ["", *_halves(block)]
            pieces = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return whole | {"input": {}}, pieces


def _anthropic_complaints(body: Json) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: Field required"
    if not body.get("model"):
        yield "model: Field required"
    messages = body.get("messages") or []
    if not messages:
        yield "messages: at least one message is required"
    yield from _thinking_complaints(body)
    yield from _tool_complaints(body)
    for place, message in enumerate(messages):
        if message.get("role") != ("user", "assistant")[place % 2]:
            yield f"messages.{place}: roles must alternate between user and assistant, user first"
        yield from _block_complaints(place, message)
        following = messages[place + 1] if place + 1 < len(messages) else None
        yield from _pairing_complaints(place, message, following)
    if msgspec.json.encode(body).count(b'"cache_control"') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided."


def _thinking_complaints(body: Json) -> Iterator[str]:
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens", 0)
        if not 1024 <= budget < body.get("max_tokens", 0):
            yield "thinking.budget_tokens: at least 1024 and less than max_tokens"


def _tool_complaints(body: Json) -> Iterator[str]:
    for place, tool in enumerate(body.get("tools") or []):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name", "")):
            yield f"tools.{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if tool.get("input_schema", {}).get("type") != "object":
            yield f"tools.{place}.input_schema.type: Field required"


def _blocks_of(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _block_complaints(place: int, message: Json) -> Iterator[str]:
    blocks = _blocks_of(message)
    if not blocks:
        yield f"messages.{place}: all messages must have non-empty content"
    kinds = [block.get("type") for block in blocks]
    if "tool_result" in kinds and kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
        yield f"messages.{place}: tool_result blocks must come first in the content"
    for block in blocks:
        if block.get("type") == "text" and not block.get("text", "").strip():
            yield "messages: text content blocks must contain non-whitespace text"
        if block.get("type") == "thinking" and not block.get("signature"):
            yield f"messages.{place}.content: thinking.signature: Field required"
        if block.get("type") == "image" and not _is_image(block.get("source") or {}):
            yield f"messages.{place}.content: image.source is not valid"
        if block.get("type") == "tool_use" and not re.fullmatch(r"[\w-]+", block["id"], re.ASCII):
            yield f"messages.{place}.content: tool_use.id: String should match '^[a-zA-Z0-9_-]+$'"


def _is_image(source: Json) -> bool:
    if source.get("type") == "url":
        return bool(source.get("url"))
    return source.get("type") == "base64" and bool(source.get("data") and source.get("media_type"))


def _pairing_complaints(place: int, message: Json, following: Json | None) -> Iterator[str]:
    """Every tool_use is answered once in the next message, and nothing else is."""
    calls = [b["id"] for b in _blocks_of(message) if b.get("type") == "tool_use"]
    answers = [
        b["tool_use_id"] for b in _blocks_of(following or {}) if b.get("type") == "tool_result"
    ]
    if len(set(calls)) < len(calls):
        yield f"messages.{place}: tool_use ids must be unique"
    if len(set(answers)) < len(answers):
        yield f"messages.{place + 1}: each tool_use must have a single result"
    if missing := sorted(set(calls) - set(answers)):
        yield (
            f"messages.{place}: tool_use ids were found without tool_result blocks immediately"
            f" after: {', '.join(missing)}"
        )
    if stray := sorted(set(answers) - set(calls)):
        yield f"messages.{place + 1}: unexpected tool_use_id in tool_result: {', '.join(stray)}"
    if place == 0 and any(b.get("type") == "tool_result" for b in _blocks_of(message)):
        yield "messages.0: unexpected tool_result without a preceding tool_use"


class OpenAIWire:
    path = "/v1/chat/completions"
    _ERRORS: ClassVar[dict[Trouble, tuple[int, str, str | None, str]]] = {
        "rate_limit": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests"),
        "server_error": (500, "server_error", None, "The server had an error."),
        "overloaded": (503, "server_error", None, "The engine is currently overloaded."),
        "unauthorized": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key."),
        "not_found": (404, "invalid_request_error", "model_not_found", "The model does not exist"),
        "quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your quota"),
        "context_overflow": (
            400, "invalid_request_error", "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. However, your messages resulted"
            " in 130000 tokens. Please reduce the length of the messages.",
        ),
        "invalid": (400, "invalid_request_error", None, "invalid request"),
    }  # fmt: skip

    def complaint(self, headers: Mapping[str, str], body: Json) -> tuple[Trouble, str] | None:
        if not headers.get("authorization", "").startswith("Bearer "):
            return "unauthorized", "You didn't provide an API key."
        text = next(_openai_complaints(body), None)
        return ("invalid", text) if text else None

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        deltas = [{"role": "assistant", "content": ""}, *_openai_deltas(reply)]
        chunks = [self._chunk(body, [{"index": 0, "delta": delta}]) for delta in deltas]
        finish = {"index": 0, "delta": {}, "finish_reason": self._stop(reply)}
        chunks.append(self._chunk(body, [finish]))
        if reply.usage and (body.get("stream_options") or {}).get("include_usage"):
            chunks.append(self._chunk(body, []) | {"usage": _openai_usage(reply.usage)})
        return [*map(_sse, chunks), _sse("[DONE]")]

    def whole(self, reply: Reply, body: Json) -> Json:
        words = "".join(block.text for block in reply.blocks if isinstance(block, Text))
        message: Json = {"role": "assistant", "content": words or None}
        calls = [block for block in reply.blocks if isinstance(block, ToolUse)]
        if calls:
            message["tool_calls"] = [_openai_call(call, "".join(_halves(call))) for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": self._stop(reply)}
        usage = {"usage": _openai_usage(reply.usage)} if reply.usage else {}
        return self._chunk(body, [choice]) | {"object": "chat.completion"} | usage

    def error(self, trouble: Trouble, message: str | None) -> tuple[int, Json]:
        status, kind, code, text = self._ERRORS[trouble]
        error = {"message": message or text, "type": kind, "param": None, "code": code}
        return status, {"error": error}

    def error_event(self, trouble: Trouble) -> bytes:
        return _sse(self.error(trouble, None)[1])

    def malformed_event(self) -> bytes:
        return _sse('{"id": "chatcmpl-fake", "choi')

    def _chunk(self, body: Json, choices: list[Json]) -> Json:
        return {
            "id": "chatcmpl-fake",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": body["model"],
            "choices": choices,
        }

    def _stop(self, reply: Reply) -> str:
        stop = reply.stop or ("tool_use" if reply.has_calls else "end_turn")
        words = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
        return words.get(stop, stop)


def _openai_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
    }


def _openai_call(call: ToolUse, arguments: str) -> Json:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _openai_deltas(reply: Reply) -> Iterator[Json]:
    calls = 0
    for block in reply.blocks:
        match block:
            case Text(text=text):
                yield from ({"content": word} for word in split_words(text))
            case Thinking(thinking=thinking):
                yield from ({"reasoning_content": word} for word in split_words(thinking))
            case ToolUse():
                yield {"tool_calls": [{"index": calls, **_openai_call(block, "")}]}
                for half in _halves(block):
                    yield {"tool_calls": [{"index": calls, "function": {"arguments": half}}]}
                calls += 1


def _openai_complaints(body: Json) -> Iterator[str]:
    if not body.get("model"):
        yield "you must provide a model parameter"
    if not body.get("messages"):
        yield "[] is too short - 'messages'"
    open_calls: set[str] = set()
    for place, message in enumerate(body.get("messages") or []):
        yield from _openai_message_complaints(place, message)
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield (
                    f"messages with role 'tool' must be a response to a preceding message with"
                    f" 'tool_calls' (messages.[{place}])"
                )
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            yield _unanswered(open_calls)
        open_calls = {call["id"] for call in message.get("tool_calls") or []}
    if open_calls:
        yield _unanswered(open_calls)


def _unanswered(calls: set[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to"
        f" each 'tool_call_id'. Missing: {', '.join(sorted(calls))}"
    )


def _openai_message_complaints(place: int, message: Json) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        yield f"Invalid value: '{role}' (messages[{place}].role)"
    if content is None and not (role == "assistant" and message.get("tool_calls")):
        yield f"Invalid value for 'content': expected a string, got null (messages.[{place}])"
    for call in message.get("tool_calls") or []:
        if not isinstance(call.get("function", {}).get("arguments"), str) or not call.get("id"):
            yield f"Invalid tool call (messages[{place}].tool_calls)"
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "image_url" and role != "user":
            yield f"image_url is only allowed in user messages (messages[{place}])"
        if part.get("type") == "image_url" and not part.get("image_url", {}).get("url"):
            yield f"Invalid image_url (messages[{place}])"


WIRES: dict[str, Wire] = {wire.path: wire for wire in (AnthropicWire(), OpenAIWire())}
