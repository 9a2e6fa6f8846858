"""OpenAI's Responses API as its server sees it: stateless use, with reasoning that comes back encrypted."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from crossclaw.domain.aliases import Json
from crossclaw.domain.messages import Text, Thinking, ToolUse, Usage
from crossclaw.providers.pieces import split_words
from crossclaw.testing.fake_chat import ChatWire
from crossclaw.testing.fake_chat_rules import effort_complaints, tool_complaints
from crossclaw.testing.fake_facts import gpt
from crossclaw.testing.fake_files import openai_file_complaint
from crossclaw.testing.fake_pictures import openai_complaint
from crossclaw.testing.fake_rules import ALL, ServiceRules
from crossclaw.testing.fake_shapes import FakeTrouble, Reply, halves, sse, within

_STOPS = {"max_tokens": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesWire:
    path = "/v1/responses"

    def complaint(
        self, headers: Mapping[str, str], body: Json, rules: ServiceRules
    ) -> tuple[FakeTrouble, str] | None:
        if not headers.get("authorization", "").startswith("Bearer "):
            return "unauthorized", "You didn't provide an API key."
        text = next(responses_complaints(body, rules), None)
        return ("invalid", text) if text else None

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        reply = within(reply, body.get("max_output_tokens"), _thinks(body))
        items = [_item(number, block) for number, block in enumerate(reply.blocks)]
        events: list[Json] = [
            {
                "type": "response.created",
                "response": self._response(body, reply, [], "in_progress"),
            },
            {
                "type": "response.in_progress",
                "response": self._response(body, reply, [], "in_progress"),
            },
        ]
        for number, block in enumerate(reply.blocks):
            events += _item_events(number, block, items[number])
        status, kind = self._end(reply)
        events.append({"type": kind, "response": self._response(body, reply, items, status)})
        return [
            sse({**event, "sequence_number": number}, event["type"])
            for number, event in enumerate(events)
        ]

    def whole(self, reply: Reply, body: Json) -> Json:
        items = [_item(number, block) for number, block in enumerate(reply.blocks)]
        return self._response(body, reply, items, self._end(reply)[0])

    def error(self, trouble: FakeTrouble, message: str | None) -> tuple[int, Json]:
        return ChatWire().error(trouble, message)

    def error_event(self, trouble: FakeTrouble) -> bytes:
        _status, body = self.error(trouble, None)
        error = body["error"]
        failed = {"code": error["code"] or error["type"], "message": error["message"]}
        response = {"id": "resp_fake", "status": "failed", "error": failed, "output": []}
        return sse({"type": "response.failed", "response": response}, "response.failed")

    def malformed_event(self) -> bytes:
        return sse('{"type": "response.output_text.delta", "del', "response.output_text.delta")

    def _end(self, reply: Reply) -> tuple[str, str]:
        if reply.stop in _STOPS:
            return "incomplete", "response.incomplete"
        return "completed", "response.completed"

    def _response(self, body: Json, reply: Reply, items: list[Json], status: str) -> Json:
        why = {"reason": _STOPS[reply.stop]} if reply.stop in _STOPS else None
        return {
            "id": "resp_fake",
            "object": "response",
            "model": body["model"],
            "status": status,
            "incomplete_details": why if status == "incomplete" else None,
            "error": None,
            "output": items,
            "usage": _usage(reply.usage) if reply.usage and status != "in_progress" else None,
        }


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.output,
    }


def _item(number: int, block: Any) -> Json:
    match block:
        case Text(text=text):
            part = {"type": "output_text", "text": text, "annotations": []}
            item: Json = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            return item | {"status": "completed", "phase": "final_answer", "content": [part]}
        case Thinking(thinking=thinking):
            summary = [{"type": "summary_text", "text": thinking}] if thinking else []
            return {
                "type": "reasoning", "id": f"rs_{number}", "summary": summary,
                "encrypted_content": sealed(thinking),
            }  # fmt: skip
        case ToolUse(id=call_id, name=name):
            return {
                "type": "function_call", "id": f"fc_{number}", "call_id": call_id, "name": name,
                "arguments": "".join(halves(block)), "status": "completed",
            }  # fmt: skip
    raise AssertionError(block)


def _item_events(number: int, block: Any, item: Json) -> Iterator[Json]:
    place = {"output_index": number, "item_id": item["id"]}
    empty: dict[str, Json] = {
        "message": {"content": []},
        "reasoning": {"summary": [], "encrypted_content": "half"},
        "function_call": {"arguments": ""},
    }
    yield {
        "type": "response.output_item.added",
        "output_index": number,
        "item": item | empty[item["type"]],
    }
    match block:
        case Text(text=text):
            for word in split_words(text):
                yield {
                    "type": "response.output_text.delta", **place, "content_index": 0, "delta": word,
                }  # fmt: skip
        case Thinking(thinking=thinking):
            for word in split_words(thinking):
                yield {
                    "type": "response.reasoning_summary_text.delta", **place, "summary_index": 0,
                    "delta": word,
                }  # fmt: skip
        case ToolUse():
            for half in halves(block):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": half}
    yield {"type": "response.output_item.done", "output_index": number, "item": item}


def sealed(thinking: str) -> str:
    return "enc:" + base64.b64encode(thinking.encode()).decode()


# ── what it refuses ────────────────────────────────────────────────────────────────────────────


def _thinks(body: Json) -> bool:
    effort = (body.get("reasoning") or {}).get("effort")
    if effort is None:
        return gpt(str(body.get("model"))).unasked
    return bool(effort != "none")


def responses_complaints(body: Json, rules: ServiceRules = ALL) -> Iterator[str]:
    model = str(body.get("model") or "")
    if not model:
        yield "you must provide a model parameter"
    if not body.get("input"):
        yield 'One of "input" or "previous_response_id" or \'prompt\' must be provided.'
    for unknown in body.keys() & {"messages", "max_tokens", "max_completion_tokens", "system"}:
        yield f"Unknown parameter: '{unknown}'."
    limit, knows = body.get("max_output_tokens"), gpt(model)
    if limit is not None and "openai.min_output" in rules and limit < 16:
        yield (
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got"
            f" {limit} instead."
        )
    if "openai.max_output" in rules and (limit or 0) > knows.output:
        yield f"max_output_tokens is too large: {limit}. This model supports at most {knows.output}"
    yield from effort_complaints(model, (body.get("reasoning") or {}).get("effort"), rules)
    for tool in body.get("tools") or []:
        if "function" in tool:
            yield "Missing required parameter: 'tools[0].name'."
        yield from tool_complaints(tool, rules)
    yield from _input_complaints(body, rules)


def _input_complaints(body: Json, rules: ServiceRules) -> Iterator[str]:
    items = body.get("input") or []
    called: set[str] = set()
    for place, item in enumerate(items if isinstance(items, list) else []):
        match item.get("type", "message"):
            case "message":
                yield from _message_complaints(place, item, rules)
            case "function_call":
                called.add(item["call_id"])
                if "openai.names" in rules and len(item["call_id"]) > 64:
                    yield f"Invalid 'input[{place}].call_id': string too long."
            case "function_call_output":
                if item["call_id"] not in called:
                    yield f"No tool call found for function call output with call_id {item['call_id']}."
                called.discard(item["call_id"])
            case "reasoning" if "openai.reasoning_items" in rules:
                following = items[place + 1] if place + 1 < len(items) else {}
                yield from _reasoning_complaints(body, item, following)
            case "reasoning":
                pass
            case unknown:
                yield f"Invalid value: '{unknown}' (input[{place}].type)"
    if called:
        yield f"No tool output found for function call {sorted(called)[0]}."


def _message_complaints(place: int, item: Json, rules: ServiceRules) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield f"Invalid value: '{role}' (input[{place}].role)"
    if not content:
        yield f"Invalid 'input[{place}].content': empty"
    for part in content if isinstance(content, list) else []:
        wanted = (
            ("output_text", "refusal")
            if role == "assistant"
            else ("input_text", "input_image", "input_file")
        )
        if part.get("type") not in wanted:
            yield f"Invalid value: '{part.get('type')}'. Supported values are: {wanted}"
        shown = part.get("image_url") or "" if part.get("type") == "input_image" else "https://"
        if "openai.pictures" in rules and (complaint := openai_complaint(shown)):
            yield complaint
        if part.get("type") == "input_file" and "openai.files" in rules:
            yield from filter(None, [openai_file_complaint(part)])


def _reasoning_complaints(body: Json, item: Json, following: Json) -> Iterator[str]:
    if body.get("store") is not False:
        return
    name = item.get("id")
    if not str(item.get("encrypted_content") or "").startswith("enc:"):
        yield (
            f"Item with id '{name}' not found. Items are not persisted when `store` is set to false."
            " Try again with `store` set to true, or remove this item from your input."
        )
    if following.get("type") not in ("reasoning", "function_call") and not (
        following.get("type", "message") == "message" and following.get("role") == "assistant"
    ):
        yield f"Item '{name}' of type 'reasoning' was provided without its required following item."
