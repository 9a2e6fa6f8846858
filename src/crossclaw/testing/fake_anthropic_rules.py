"""What Anthropic's Messages API refuses: the shape of a request, then the rules of `fake_rules.py`."""

import re
from collections.abc import Iterator
from hashlib import blake2s

import msgspec

from crossclaw.domain.aliases import Json
from crossclaw.testing.fake_cache import blocks_of, unmarked
from crossclaw.testing.fake_facts import Claude, claude
from crossclaw.testing.fake_files import (
    REQUEST_CHARS_CLAUDE,
    carried_chars,
    claude_file_complaints,
    most_of,
)
from crossclaw.testing.fake_pictures import claude_complaints
from crossclaw.testing.fake_rules import ALL, ServiceRules


def anthropic_complaints(body: Json, rules: ServiceRules = ALL) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: Field required"
    if not body.get("model"):
        yield "model: Field required"
    messages = body.get("messages") or []
    if not messages:
        yield "messages: at least one message is required"
    yield from _limit_complaints(body, rules)
    yield from _thinking_complaints(body, rules)
    yield from _tool_complaints(body, rules)
    if "anthropic.bound_thinking" in rules and binds(str(body.get("model"))):
        yield from _binding_complaints(body)
    if "anthropic.pictures" in rules:
        yield from _picture_complaints(body)
    if "anthropic.documents" in rules:
        yield from claude_file_complaints(body, list(_media(body, "document")))
    if "anthropic.request" in rules:
        yield from _size_complaints(body)
    for place, message in enumerate(messages):
        if message.get("role") != ("user", "assistant")[place % 2]:
            yield f"messages.{place}: roles must alternate between user and assistant, user first"
        yield from _block_complaints(place, message)
        following = messages[place + 1] if place + 1 < len(messages) else None
        yield from _pairing_complaints(place, message, following)
    if "anthropic.prefill" in rules and _ends_with_assistant(body):
        yield "This model does not support assistant message prefill."
    if "anthropic.marks" in rules:
        yield from _mark_complaints(body)


def _ends_with_assistant(body: Json) -> bool:
    """Whether the request ends with an assistant's message, which all models that take an effort refuse."""
    knows, messages = _knows(body), body.get("messages") or [{}]
    return bool(knows and knows.efforts) and messages[-1].get("role") == "assistant"


def _limit_complaints(body: Json, rules: ServiceRules) -> Iterator[str]:
    knows, wanted = _knows(body), body.get("max_tokens")
    most = knows.output if knows else 0
    if "anthropic.max_output" in rules and most and isinstance(wanted, int) and wanted > most:
        yield (
            f"max_tokens: {wanted} > {most}, which is the maximum allowed number of output tokens for"
            f" {body['model']}"
        )


def _thinking_complaints(body: Json, rules: ServiceRules) -> Iterator[str]:
    thinking, knows = body.get("thinking") or {}, _knows(body)
    kind = thinking.get("type")
    if kind == "enabled":
        budget = thinking.get("budget_tokens", 0)
        if not 1024 <= budget < body.get("max_tokens", 0):
            yield "thinking.budget_tokens: at least 1024 and less than max_tokens"
        if "anthropic.thinking_first" in rules:
            yield from _unthought_complaints(body)
    if "anthropic.thinking_mode" in rules and kind and knows and kind not in knows.types:
        yield (
            f'"thinking.type.{kind}" is not supported for this model. Use'
            ' "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
    if "anthropic.effort" in rules:
        yield from _effort_complaints(body, kind)


def _effort_complaints(body: Json, kind: str | None) -> Iterator[str]:
    effort = (body.get("output_config") or {}).get("effort")
    knows = _knows(body)
    if effort is None:
        return
    if knows and effort not in knows.efforts:
        yield (
            f"output_config.effort: '{effort}' is not supported by this model; supported levels:"
            f" {', '.join(sorted(knows.efforts)) or 'none'}"
        )
    if kind in ("disabled", "between_tools") and effort in ("xhigh", "max"):
        yield f"output_config.effort: '{effort}' needs thinking, which is off in this request"


def _unthought_complaints(body: Json) -> Iterator[str]:
    messages = body.get("messages") or []
    if len(messages) < 2 or not any(
        block.get("type") == "tool_result" for block in _blocks_of(messages[-1])
    ):
        return
    first = _blocks_of(messages[-2])[0].get("type")
    if first not in ("thinking", "redacted_thinking"):
        yield (
            f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`,"
            f" but found `{first}`. When `thinking` is enabled, a final `assistant` message must start"
            " with a thinking block"
        )


def _binding_complaints(body: Json) -> Iterator[str]:
    for place, message in enumerate(body.get("messages") or []):
        blocks = _blocks_of(message)
        for number, block in enumerate(blocks):
            if block.get("type") != "thinking":
                continue
            before = {**body, "messages": body["messages"][:place]}
            if block.get("signature") != bound_signature(before, blocks[:number]):
                yield (
                    f"messages.{place}.content.{number}: Invalid `signature` in `thinking` block: it"
                    " belongs to a different conversation. The system prompt, tools and messages"
                    " before a thinking block must stay as they were"
                )


def bound_signature(body: Json, said: list[Json]) -> str:
    """The signature of thinking: over the model and everything that stands before it."""
    kept = {name: body.get(name) for name in ("model", "system", "tools")}
    messages = [
        {"role": message["role"], "content": _blocks_of(message)} for message in body["messages"]
    ]
    signed = unmarked({**kept, "messages": messages, "said": said})
    return blake2s(msgspec.json.encode(signed, order="sorted"), digest_size=12).hexdigest()


def binds(model: str) -> bool:
    knows = claude(model)
    return knows is not None and knows.binds


def thinks(body: Json) -> bool:
    """Whether the model thinks under this request, asked or not."""
    kind = (body.get("thinking") or {}).get("type")
    if kind is None:
        knows = _knows(body)
        return knows is not None and knows.unasked
    return kind in ("adaptive", "enabled")


def _knows(body: Json) -> Claude | None:
    return claude(str(body.get("model")))


def _picture_complaints(body: Json) -> Iterator[str]:
    found = list(_media(body, "image"))
    for where, source in found:
        yield from claude_complaints(where, source, len(found))


def _size_complaints(body: Json) -> Iterator[str]:
    if carried_chars(body) > REQUEST_CHARS_CLAUDE:
        yield "request_too_large: Request exceeds the maximum size"
    count, most = sum(1 for _ in _media(body, "image")), most_of(body)
    if count > most:
        yield f"Too many images: {count} > {most}"


def _media(body: Json, kind: str) -> Iterator[tuple[str, Json]]:
    for place, message in enumerate(body.get("messages") or []):
        for number, block in enumerate(_blocks_of(message)):
            where = f"messages.{place}.content.{number}"
            if block.get("type") == kind:
                yield f"{where}.{kind}", block.get("source") or {}
            inner = block.get("content")
            for part in inner if isinstance(inner, list) else []:
                if part.get("type") == kind:
                    yield f"{where}.tool_result.{kind}", part.get("source") or {}


def _mark_complaints(body: Json) -> Iterator[str]:
    marks = [block.mark for block in blocks_of(body) if block.mark]
    if len(marks) > 4:
        yield "A maximum of 4 blocks with cache_control may be provided."
    if "1h" in marks[marks.index("5m") :] if "5m" in marks else False:
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."


def _tool_complaints(body: Json, rules: ServiceRules) -> Iterator[str]:
    for place, tool in enumerate(body.get("tools") or []):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name", "")):
            yield f"tools.{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if tool.get("input_schema", {}).get("type") != "object":
            yield f"tools.{place}.input_schema.type: Field required"
        if (
            "anthropic.schema" in rules
            and {"oneOf", "anyOf", "allOf"} & tool["input_schema"].keys()
        ):
            yield (
                f"tools.{place}.custom.input_schema: input_schema does not support oneOf, allOf, or"
                " anyOf at the top level"
            )


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
    """Complaints about tool calls: every tool_use is answered once in the next message, and nothing else is."""
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
