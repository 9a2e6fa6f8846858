"""OpenAI's chat completions as a server sees them, and as the services that speak alike see them."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from crossclaw.domain.aliases import Json
from crossclaw.domain.messages import Text, Thinking, ToolUse, Usage
from crossclaw.providers.pieces import split_words
from crossclaw.testing.fake_chat_rules import chat_complaints, chat_thinks, service_of
from crossclaw.testing.fake_rules import ServiceRules
from crossclaw.testing.fake_shapes import FakeTrouble, Reply, halves, sse, within


class ChatWire:
    path = "/v1/chat/completions"
    _ERRORS: ClassVar[dict[FakeTrouble, tuple[int, str, str | None, str]]] = {
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

    def complaint(
        self, headers: Mapping[str, str], body: Json, rules: ServiceRules
    ) -> tuple[FakeTrouble, str] | None:
        if not headers.get("authorization", "").startswith("Bearer "):
            return "unauthorized", "You didn't provide an API key."
        text = next(chat_complaints(body, rules), None)
        return ("invalid", text) if text else None

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        reply = within(reply, limit, chat_thinks(body))
        deltas = [{"role": "assistant", "content": ""}, *_deltas(reply, service_of(body["model"]))]
        chunks = [self._chunk(body, [{"index": 0, "delta": delta}]) for delta in deltas]
        finish = {"index": 0, "delta": {}, "finish_reason": self._stop(reply)}
        chunks.append(self._chunk(body, [finish]))
        if reply.usage and (body.get("stream_options") or {}).get("include_usage"):
            chunks.append(self._chunk(body, []) | {"usage": chat_usage(reply.usage)})
        return [*map(sse, chunks), sse("[DONE]")]

    def whole(self, reply: Reply, body: Json) -> Json:
        words = "".join(block.text for block in reply.blocks if isinstance(block, Text))
        message: Json = {"role": "assistant", "content": words or None}
        calls = [block for block in reply.blocks if isinstance(block, ToolUse)]
        if calls:
            message["tool_calls"] = [_call(call, "".join(halves(call))) for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": self._stop(reply)}
        usage = {"usage": chat_usage(reply.usage)} if reply.usage else {}
        return self._chunk(body, [choice]) | {"object": "chat.completion"} | usage

    def error(self, trouble: FakeTrouble, message: str | None) -> tuple[int, Json]:
        status, kind, code, text = self._ERRORS[trouble]
        error = {"message": message or text, "type": kind, "param": None, "code": code}
        return status, {"error": error}

    def error_event(self, trouble: FakeTrouble) -> bytes:
        return sse(self.error(trouble, None)[1])

    def malformed_event(self) -> bytes:
        return sse('{"id": "chatcmpl-fake", "choi')

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


def chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
    }


def _call(call: ToolUse, arguments: str) -> Json:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _deltas(reply: Reply, service: str) -> Iterator[Json]:
    calls = 0
    for block in reply.blocks:
        match block:
            case Text(text=text):
                yield from ({"content": word} for word in split_words(text))
            case Thinking(thinking=thinking):
                yield from _thoughts(thinking, service)
            case ToolUse():
                yield {"tool_calls": [{"index": calls, **_call(block, ""), **_signature(service)}]}
                for half in halves(block):
                    yield {"tool_calls": [{"index": calls, "function": {"arguments": half}}]}
                calls += 1


def _thoughts(thinking: str, service: str) -> Iterator[Json]:
    """The events of thinking. OpenRouter sends words to read, and beside them what it wants back."""
    if service != "openrouter":
        yield from ({"reasoning_content": word} for word in split_words(thinking))
        return
    for word in split_words(thinking):
        detail = {
            "type": "reasoning.text",
            "text": word,
            "index": 0,
            "format": "anthropic-claude-v1",
        }
        yield {"reasoning": word, "reasoning_details": [detail]}
    yield {"reasoning_details": [{"type": "reasoning.text", "signature": "or-sig", "index": 0}]}


def _signature(service: str) -> Json:
    if service != "gemini":
        return {}
    return {"extra_content": {"google": {"thought_signature": "gemini-sig"}}}
