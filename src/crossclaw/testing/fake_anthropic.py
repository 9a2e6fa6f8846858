"""Anthropic's Messages API as its server sees it. What it refuses is in `fake_anthropic_rules.py`."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from crossclaw.domain.aliases import Json
from crossclaw.domain.messages import AssistantBlock, Text, Thinking, ToolUse, Usage
from crossclaw.providers.pieces import split_words
from crossclaw.testing.fake_anthropic_rules import (
    anthropic_complaints,
    binds,
    bound_signature,
    thinks,
)
from crossclaw.testing.fake_rules import ServiceRules
from crossclaw.testing.fake_shapes import FakeTrouble, Reply, halves, sse, within


class AnthropicWire:
    path = "/v1/messages"
    _ERRORS: ClassVar[dict[FakeTrouble, tuple[int, str, str]]] = {
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

    def complaint(
        self, headers: Mapping[str, str], body: Json, rules: ServiceRules
    ) -> tuple[FakeTrouble, str] | None:
        if not headers.get("x-api-key") and not headers.get("authorization"):
            return "unauthorized", "authorization header is required"
        text = next(anthropic_complaints(body, rules), None)
        return ("invalid", text) if text else None

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        reply = self._signed(within(reply, body.get("max_tokens"), thinks(body)), body)
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
        return [sse(event, event["type"]) for event in events]

    def whole(self, reply: Reply, body: Json) -> Json:
        return self._message(self._signed(reply, body), body)

    def error(self, trouble: FakeTrouble, message: str | None) -> tuple[int, Json]:
        status, kind, text = self._ERRORS[trouble]
        error = {"type": kind, "message": message or text}
        return status, {"type": "error", "error": error, "request_id": "req_fake"}

    def error_event(self, trouble: FakeTrouble) -> bytes:
        return sse(self.error(trouble, None)[1], "error")

    def malformed_event(self) -> bytes:
        return sse('{"type": "content_block_delta", "index', "content_block_delta")

    def _signed(self, reply: Reply, body: Json) -> Reply:
        """The reply with signatures: where thinking is bound to what stands before it, the service signs just
        that."""
        if not binds(body["model"]):
            return reply
        blocks: list[AssistantBlock] = []
        for block in reply.blocks:
            if isinstance(block, Thinking) and block.redacted is None:
                said = [_anthropic_block(earlier) for earlier in blocks]
                block = msgspec.structs.replace(block, signature=bound_signature(body, said))
            blocks.append(block)
        return msgspec.structs.replace(reply, blocks=blocks)

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
            return {"type": "text", "text": text}
        case Thinking(redacted=str(data)):
            return {"type": "redacted_thinking", "data": data}
        case Thinking(thinking=thinking, signature=signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature or ""}
        case ToolUse(id=call_id, name=name, input=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _anthropic_stream(block: AssistantBlock) -> tuple[Json, list[Json]]:
    """The empty block with which it begins, and the events that fill it."""
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
            parts = ["", *halves(block)]
            pieces = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return whole | {"input": {}}, pieces
