"""Google's generateContent as its server sees it."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from crossclaw.domain.aliases import Json
from crossclaw.domain.messages import Text, Thinking, ToolUse, Usage
from crossclaw.providers.pieces import split_words
from crossclaw.testing.fake_files import (
    REQUEST_CHARS_GEMINI,
    carried_chars,
    gemini_inline_complaint,
)
from crossclaw.testing.fake_rules import ALL, ServiceRules
from crossclaw.testing.fake_shapes import FakeTrouble, Reply, sse, within

_LEVELS = {
    "gemini-3-pro": {"LOW", "HIGH"},
    "gemini-3.1-pro": {"LOW", "MEDIUM", "HIGH"},
    "gemini-4": {"LOW", "MEDIUM", "HIGH"},
    "gemini-3": {"MINIMAL", "LOW", "MEDIUM", "HIGH"},
}
_SCHEMA_WORDS = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties",
    "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example",
    "anyOf", "propertyOrdering", "default", "items", "minimum", "maximum",
}  # fmt: skip


class GeminiWire:
    path = "/v1beta/models"
    """The beginning of the path. The model's name with `:streamGenerateContent` follows; the server puts the name
    into the body."""
    _ERRORS: ClassVar[dict[FakeTrouble, tuple[int, str, str]]] = {
        "rate_limit": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota per minute."),
        "server_error": (500, "INTERNAL", "An internal error has occurred."),
        "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "unauthorized": (401, "UNAUTHENTICATED", "API key not valid."),
        "not_found": (404, "NOT_FOUND", "models/nope is not found for API version v1beta"),
        "quota": (402, "FAILED_PRECONDITION", "Billing account is closed"),
        "context_overflow": (
            400, "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).",
        ),
        "invalid": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    }  # fmt: skip

    def complaint(
        self, headers: Mapping[str, str], body: Json, rules: ServiceRules
    ) -> tuple[FakeTrouble, str] | None:
        if not headers.get("x-goog-api-key"):
            return "unauthorized", "API key not valid. Please pass a valid API key."
        text = next(gemini_complaints(body, rules), None)
        return ("invalid", text) if text else None

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        config = body.get("generationConfig") or {}
        reply = within(reply, config.get("maxOutputTokens"), _thinks(body))
        chunks = [{"candidates": [_candidate([part])]} for part in _parts(reply, body["model"])]
        usage = _usage(reply.usage) if reply.usage else None
        last: Json = {"candidates": [_candidate([], self._stop(reply))]}
        chunks.append(last | ({"usageMetadata": usage} if usage else {}))
        return [sse(chunk) for chunk in chunks]

    def whole(self, reply: Reply, body: Json) -> Json:
        parts = list(_parts(reply, body["model"]))
        usage = {"usageMetadata": _usage(reply.usage)} if reply.usage else {}
        return {"candidates": [_candidate(parts, self._stop(reply))], **usage}

    def error(self, trouble: FakeTrouble, message: str | None) -> tuple[int, Json]:
        status, name, text = self._ERRORS[trouble]
        return status, {"error": {"code": status, "message": message or text, "status": name}}

    def error_event(self, trouble: FakeTrouble) -> bytes:
        return sse(self.error(trouble, None)[1])

    def malformed_event(self) -> bytes:
        return sse('{"candidates": [{"cont')

    def _stop(self, reply: Reply) -> str:
        stops = {"max_tokens": "MAX_TOKENS", "end_turn": "STOP", "tool_use": "STOP"}
        return stops.get(reply.stop or "end_turn", str(reply.stop))


def _candidate(parts: list[Json], finish: str | None = None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    return candidate | ({"finishReason": finish} if finish else {})


def _parts(reply: Reply, model: str) -> Iterator[Json]:
    signed = _signs(model)
    for block in reply.blocks:
        match block:
            case Text(text=text):
                yield from ({"text": word} for word in split_words(text))
            case Thinking(thinking=thinking):
                yield from ({"text": word, "thought": True} for word in split_words(thinking))
            case ToolUse(name=name, input=arguments):
                call: Json = {"functionCall": {"name": name, "args": arguments}}
                yield call | ({"thoughtSignature": "gemini-sig"} if signed else {})
                signed = False  # of several calls at once, the first carries it


def _usage(usage: Usage) -> Json:
    return {
        "promptTokenCount": usage.prompt,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.prompt + usage.output,
    }


def _signs(model: str) -> bool:
    return model.startswith(("gemini-3", "gemini-4"))


def _thinks(body: Json) -> bool:
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    return bool(config.get("thinkingBudget", -1) != 0)


def gemini_complaints(body: Json, rules: ServiceRules = ALL) -> Iterator[str]:
    if unknown := body.keys() - {
        "model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig",
        "safetySettings", "cachedContent",
    }:  # fmt: skip
        yield f'Invalid JSON payload received. Unknown name "{sorted(unknown)[0]}"'
    contents = body.get("contents") or []
    if not contents:
        yield "GenerateContentRequest.contents: contents is not specified"
    for place, content in enumerate(contents):
        yield from _content_complaints(place, content, contents)
    for tool in body.get("tools") or []:
        for declared in tool.get("functionDeclarations") or []:
            yield from _schema_complaints(declared, rules)
    if "gemini.signature" in rules and _signs(str(body.get("model"))):
        yield from _unsigned(contents)
    if "gemini.level" in rules:
        yield from _level_complaints(body)
    if "gemini.inline" in rules:
        yield from _inline_complaints(body)


def _inline_complaints(body: Json) -> Iterator[str]:
    if carried_chars(body) > REQUEST_CHARS_GEMINI:
        yield "Request payload size exceeds the limit: 20971520 bytes."
    for content in body.get("contents") or []:
        for part in content.get("parts") or []:
            if "inlineData" in part and (found := gemini_inline_complaint(part["inlineData"])):
                yield found


def _content_complaints(place: int, content: Json, contents: list[Json]) -> Iterator[str]:
    if content.get("role") not in ("user", "model"):
        yield "Please use a valid role: user, model."
    parts = content.get("parts") or []
    if not parts:
        yield f"GenerateContentRequest.contents[{place}].parts: contents.parts must not be empty"
    calls = sum("functionCall" in part for part in parts)
    after = contents[place + 1]["parts"] if place + 1 < len(contents) else []
    if calls and calls != sum("functionResponse" in part for part in after):
        yield (
            "Please ensure that the number of function response parts is equal to the number of"
            " function call parts of the function call turn."
        )


def _schema_complaints(declared: Json, rules: ServiceRules) -> Iterator[str]:
    schema: Any = declared.get("parameters")
    if schema is None or "gemini.schema" not in rules:
        return
    if unknown := schema.keys() - _SCHEMA_WORDS:
        yield (
            f'Invalid JSON payload received. Unknown name "{sorted(unknown)[0]}" at'
            " 'tools[0].function_declarations[0].parameters': Cannot find field."
        )


def _unsigned(contents: list[Json]) -> Iterator[str]:
    """Calls without a signature since the last words of the user."""
    spoken = [
        place
        for place, content in enumerate(contents)
        if content.get("role") == "user" and any("text" in part for part in content["parts"])
    ]
    for content in contents[spoken[-1] if spoken else 0 :]:
        calls = [part for part in content.get("parts") or [] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            name = calls[0]["functionCall"]["name"]
            yield (
                "Function call is missing a thought_signature in functionCall parts. This is required"
                f" for tools to work correctly. Additional data, function call `default_api:{name}`"
            )


def _level_complaints(body: Json) -> Iterator[str]:
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    level, model = thinking.get("thinkingLevel"), str(body.get("model"))
    if level and "thinkingBudget" in thinking:
        yield "You can only set only one of thinking budget and thinking level."
    known = [name for name in _LEVELS if model.startswith(name)]
    if level and not known:
        yield "Thinking level is not supported for this model."
    elif level and level not in _LEVELS[max(known, key=len)]:
        yield f"Thinking level {level} is not supported for this model."
