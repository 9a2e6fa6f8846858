"""Ollama's own API as its server sees it: a JSON a line."""

from collections.abc import Iterator, Mapping

import msgspec

from crossclaw.domain.aliases import Json
from crossclaw.domain.messages import Text, Thinking, ToolUse
from crossclaw.providers.pieces import split_words
from crossclaw.testing.fake_rules import ALL, ServiceRules
from crossclaw.testing.fake_shapes import FakeTrouble, Reply, within

CAN: dict[str, list[str]] = {
    "qwen3:8b": ["completion", "tools", "thinking"],
    "gemma3:4b": ["completion", "vision"],
    "llama3.2": ["completion", "tools"],
}
"""The installed models, and what each can do."""
WINDOWS = {"qwen3:8b": 40_960, "gemma3:4b": 131_072, "llama3.2": 131_072}


class OllamaWire:
    path = "/api/chat"

    def complaint(
        self, headers: Mapping[str, str], body: Json, rules: ServiceRules
    ) -> tuple[FakeTrouble, str] | None:
        text = next(ollama_complaints(body, rules), None)
        return ("invalid", text) if text else None

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        limit = (body.get("options") or {}).get("num_predict")
        reply = within(reply, limit, bool(body.get("think")))
        lines = [
            {"message": {"role": "assistant", **part}, "done": False} for part in _parts(reply)
        ]
        last: Json = {"message": {"role": "assistant", "content": ""}, "done": True}
        stop = {"max_tokens": "length"}.get(reply.stop or "", "stop")
        counts: Json = {}
        if reply.usage:
            counts = {"prompt_eval_count": reply.usage.prompt, "eval_count": reply.usage.output}
        lines.append(last | {"done_reason": stop} | counts)
        return [msgspec.json.encode({"model": body["model"], **line}) + b"\n" for line in lines]

    def whole(self, reply: Reply, body: Json) -> Json:
        words = "".join(block.text for block in reply.blocks if isinstance(block, Text))
        return {"model": body["model"], "message": {"content": words}, "done": True}

    def error(self, trouble: FakeTrouble, message: str | None) -> tuple[int, Json]:
        known: dict[FakeTrouble, tuple[int, str]] = {
            "rate_limit": (429, "too many requests"),
            "server_error": (500, "llama runner process has terminated"),
            "overloaded": (503, "server busy, please try again. maximum pending requests exceeded"),
            "unauthorized": (401, "unauthorized"),
            "not_found": (404, 'model "nope" not found, try pulling it first'),
            "quota": (402, "you have reached your usage limit"),
            "context_overflow": (400, "the input length exceeds the context length"),
            "invalid": (400, "invalid request"),
        }
        status, text = known[trouble]
        return status, {"error": message or text}

    def error_event(self, trouble: FakeTrouble) -> bytes:
        return msgspec.json.encode(self.error(trouble, None)[1]) + b"\n"

    def malformed_event(self) -> bytes:
        return b'{"message": {"cont\n'


def _parts(reply: Reply) -> Iterator[Json]:
    for block in reply.blocks:
        match block:
            case Text(text=text):
                yield from ({"content": word} for word in split_words(text))
            case Thinking(thinking=thinking):
                yield from ({"content": "", "thinking": word} for word in split_words(thinking))
            case ToolUse(name=name, input=arguments):
                call = {"function": {"name": name, "arguments": arguments}}
                yield {"content": "", "tool_calls": [call]}


def ollama_complaints(body: Json, rules: ServiceRules = ALL) -> Iterator[str]:
    model = str(body.get("model") or "")
    if not model:
        yield "model is required"
    can = CAN.get(model, ["completion", "tools", "thinking", "vision"])
    if "ollama.think" in rules and body.get("think") and "thinking" not in can:
        yield f'"{model}" does not support thinking'
    if "ollama.tools" in rules and body.get("tools") and "tools" not in can:
        yield f"{model} does not support tools"
    for message in body.get("messages") or []:
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            yield f"invalid role: {message.get('role')}"
        if not isinstance(message.get("content"), str):
            yield "json: cannot unmarshal array into Go struct field ChatRequest.messages.content"
        for call in message.get("tool_calls") or []:
            if not isinstance(call["function"]["arguments"], dict):
                yield "json: cannot unmarshal string into Go struct field .arguments"
