"""Every rule of the strict fake refuses something, and its switch lets just that pass."""

import base64
import re
from typing import Any

import pytest

from crossclaw.testing.fake_cache import PromptCache
from crossclaw.testing.fake_rules import ALL, RULES, ServiceRules
from crossclaw.testing.fake_wires import WIRES

HEADERS = {"authorization": "Bearer k", "x-goog-api-key": "k"}
PNG = "iVBORw0KGgo="
JPEG_NAME = {"type": "base64", "media_type": "image/jpeg", "data": PNG}


def messages(model: str, **body: Any) -> tuple[str, dict[str, Any]]:
    asked = {"role": "user", "content": "hi"}
    return "/v1/messages", {"model": model, "max_tokens": 9000, "messages": [asked], **body}


def chat(model: str, *said: dict[str, Any], **body: Any) -> tuple[str, dict[str, Any]]:
    asked = {"role": "user", "content": "hi"}
    return "/v1/chat/completions", {"model": model, "messages": [asked, *said], **body}


def responses(model: str, *items: dict[str, Any], **body: Any) -> tuple[str, dict[str, Any]]:
    asked = {"role": "user", "content": "hi"}
    return "/v1/responses", {"model": model, "input": [asked, *items], "store": False, **body}


def gemini(
    model: str,
    declared: dict[str, Any] | None = None,
    said: list[dict[str, Any]] | None = None,
    **thinking: Any,
) -> tuple[str, dict[str, Any]]:
    asked = {"role": "user", "parts": [{"text": "hi"}]}
    body: dict[str, Any] = {"model": model, "contents": [asked, *(said or [])]}
    if declared is not None:
        body["tools"] = [{"functionDeclarations": [{"name": "a", "parameters": declared}]}]
    if thinking:
        body["generationConfig"] = {"thinkingConfig": thinking}
    return "/v1beta/models", body


PAGE = b"%PDF-1.7 /Type /Page "
PDF_URL = "data:application/pdf;base64,"
PNG_NAME = {"type": "base64", "media_type": "image/png", "data": PNG}


MOVING = "data:image/gif;base64," + base64.b64encode(b"GIF89a" + b"\x21\xf9\x04" * 2).decode()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def claude_document(
    model: str, data: str, media_type: str = "application/pdf"
) -> tuple[str, dict[str, Any]]:
    source = {"type": "base64", "media_type": media_type, "data": data}
    content = [{"type": "document", "source": source}]
    return messages(model, messages=[{"role": "user", "content": content}])


def gemini_inline(kind: str, data: str) -> tuple[str, dict[str, Any]]:
    inline = {"inlineData": {"mimeType": kind, "data": data}}
    return gemini("gemini-4-argon", said=[{"role": "user", "parts": [inline]}])


def ollama(model: str, **body: Any) -> tuple[str, dict[str, Any]]:
    return "/api/chat", {"model": model, "messages": [{"role": "user", "content": "hi"}], **body}


CALLED_BY_GEMINI: list[dict[str, Any]] = [
    {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {}}}]},
]


def called(call_id: str = "call_1", **message: Any) -> list[dict[str, Any]]:
    call = {"id": call_id, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call], **message},
        {"role": "tool", "tool_call_id": call_id, "content": "ok"},
    ]


ANY_OF = {"type": "object", "anyOf": [{"required": ["a"]}]}
FUNCTION = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
TOOL = {"name": "read", "input_schema": {"type": "object"}}
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "of another conversation"}
TALK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "hello"}]},
    {"role": "user", "content": "and?"},
]
USED = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "a", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
]
SEALED: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": None,
}

REFUSED: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "anthropic.max_output": [messages("claude-opus-5-5", max_tokens=200_000)],
    "anthropic.thinking_mode": [
        messages("claude-opus-5-5", thinking={"type": "disabled"}),
        messages("claude-opus-4-8", thinking={"type": "enabled", "budget_tokens": 2000}),
        messages("claude-haiku-4-5", thinking={"type": "adaptive"}),
        messages("claude-haiku-5-5", thinking={"type": "between_tools"}),
        messages("claude-sonnet-5-5", thinking={"type": "disabled"}),
    ],
    "anthropic.effort": [
        messages("claude-haiku-4-5", output_config={"effort": "low"}),
        messages("claude-opus-5-5", output_config={"effort": "minimal"}),
        messages("claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "xhigh"}),
    ],
    "anthropic.bound_thinking": [messages("claude-opus-5-5", messages=TALK)],
    "anthropic.thinking_first": [
        messages(
            "claude-haiku-4-5", messages=USED, thinking={"type": "enabled", "budget_tokens": 2000}
        )
    ],
    "anthropic.schema": [messages("claude-opus-5-5", tools=[{**TOOL, "input_schema": ANY_OF}])],
    "anthropic.pictures": [
        messages(
            "claude-opus-5-5",
            messages=[{"role": "user", "content": [{"type": "image", "source": JPEG_NAME}]}],
        )
    ],
    "anthropic.documents": [
        claude_document("claude-opus-5-5", "AAAA"),
        claude_document("claude-opus-5-5", encoded(PAGE + b"/Encrypt %%EOF")),
        claude_document("claude-haiku-4-5", encoded(PAGE * 101 + b"%%EOF")),
        claude_document("claude-opus-5-5", encoded(PAGE), media_type="text/plain"),
    ],
    "anthropic.request": [
        messages("claude-opus-5-5", system="s" * (32 * 1024 * 1024)),
        messages(
            "claude-haiku-4-5",
            messages=[{"role": "user", "content": [{"type": "image", "source": PNG_NAME}] * 101}],
        ),
    ],
    "anthropic.prefill": [
        messages("claude-opus-4-8", messages=[TALK[0], {"role": "assistant", "content": "I say"}])
    ],
    "anthropic.marks": [
        messages("claude-opus-5-5", tools=[{**TOOL, **MARK}] * 5),
        messages(
            "claude-opus-5-5",
            tools=[{**TOOL, **MARK}],
            system=[{"type": "text", "text": "s", **HOUR}],
        ),
    ],
    "openai.limit_name": [chat("gpt-5.1", max_tokens=5)],
    "openai.max_output": [
        chat("gpt-4o", max_tokens=200_000),
        responses("gpt-6-astra", max_output_tokens=200_000),
    ],
    "openai.chat_tools": [
        chat("gpt-6-astra", tools=[FUNCTION]),
        chat("gpt-5.6-sol", tools=[FUNCTION]),
        chat("gpt-5.4", tools=[FUNCTION], reasoning_effort="low"),
    ],
    "openai.levels": [
        chat("gpt-5", reasoning_effort="xhigh"),
        chat("gpt-4o", reasoning_effort="low"),
        responses("gpt-6-astra", reasoning={"effort": "minimal"}),
        responses("gpt-6-astra", reasoning={"effort": "none"}),
    ],
    "openai.schema": [
        chat("gpt-4o", tools=[{"function": {"name": "a", "parameters": ANY_OF}}]),
        responses("gpt-6-astra", tools=[{"name": "a", "parameters": ANY_OF}]),
    ],
    "openai.names": [
        chat("gpt-4o", *called("c" * 41)),
        chat("gpt-4o", tools=[{"function": {"name": "a b", "parameters": {"type": "object"}}}]),
    ],
    "openai.pictures": [
        chat(
            "gpt-4o",
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:x;base64,AAAA"}}],
            },
        ),
        responses(
            "gpt-6-astra",
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": MOVING}],
            },
        ),
        responses(
            "gpt-6-astra",
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": "data:x;base64,AAAA"}],
            },
        ),
    ],
    "openai.files": [
        chat(
            "gpt-4o",
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {"filename": "a", "file_data": "data:text/plain;base64,AAAA"},
                    }
                ],
            },
        ),
        responses(
            "gpt-6-astra",
            {
                "role": "user",
                "content": [
                    {"type": "input_file", "filename": "a", "file_data": f"{PDF_URL}AAAA"},
                ],
            },
        ),
        responses(
            "gpt-6-astra",
            {
                "role": "user",
                "content": [
                    {"type": "input_file", "file_data": PDF_URL + encoded(PAGE + b"%%EOF")},
                ],
            },
        ),
    ],
    "openai.reasoning_items": [
        responses("gpt-6-astra", SEALED, {"role": "assistant", "content": "hi"}),
        responses("gpt-6-astra", {**SEALED, "encrypted_content": "enc:"}),
    ],
    "openai.min_output": [responses("gpt-6-astra", max_output_tokens=5)],
    "deepseek.reasoning": [chat("deepseek-v4-pro", *called())],
    "gemini.signature": [
        chat("gemini-3-pro", *called()),
        gemini("gemini-4-argon", said=CALLED_BY_GEMINI),
    ],
    "openrouter.reasoning": [chat("anthropic/claude-opus-5.5", *called("thought_1"))],
    "mistral.ids": [chat("mistral-large", *called("call_1"))],
    "mistral.order": [
        chat("mistral-large", *called("abcdefghi"), {"role": "user", "content": "and?"})
    ],
    "gemini.schema": [
        gemini("gemini-4-argon", declared={"type": "object", "$defs": {}}),
    ],
    "gemini.inline": [
        gemini_inline("image/gif", encoded(b"GIF89a")),
        gemini_inline("image/png", "AAAA"),
        gemini_inline("application/pdf", encoded(PAGE + b"/Encrypt %%EOF")),
        gemini_inline("application/pdf", encoded(PAGE * 1_001 + b"%%EOF")),
        gemini_inline("image/png", PNG + "A" * (20 * 1024 * 1024)),
    ],
    "gemini.level": [
        gemini("gemini-3-pro", thinkingLevel="MEDIUM"),
        gemini("gemini-2.5-flash", thinkingLevel="LOW"),
        gemini("gemini-4-argon", thinkingLevel="LOW", thinkingBudget=5),
    ],
    "ollama.think": [ollama("llama3.2", think=True)],
    "ollama.tools": [ollama("gemma3:4b", tools=[FUNCTION])],
}


def test_every_rule_has_a_case_a_source_and_a_date() -> None:
    assert REFUSED.keys() == RULES.keys()
    for rule in RULES.values():
        assert rule.source
        assert re.fullmatch(r"2026-\d\d-\d\d", rule.read)


@pytest.mark.parametrize(
    ("name", "number"), [(name, place) for name in REFUSED for place in range(len(REFUSED[name]))]
)
def test_a_rule_refuses_and_its_switch_lets_pass(name: str, number: int) -> None:
    path, body = REFUSED[name][number]
    refused = WIRES[path].complaint(HEADERS, body, ALL)
    assert refused is not None
    assert refused[0] == "invalid"
    assert WIRES[path].complaint(HEADERS, body, ServiceRules(off=[name])) is None


def test_a_switch_for_no_rule_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no such rules: nothing"):
        ServiceRules(off=["nothing"])


# The cache that counts


def turn(number: int, **block: Any) -> list[dict[str, Any]]:
    words = {"type": "text", "text": f"{number} " * 4000}
    return [
        {"role": "user", "content": [{**words, **block}]},
        {"role": "assistant", "content": [words]},
    ]


def test_the_cache_reads_what_was_marked_and_writes_the_rest() -> None:
    cache = PromptCache()
    first = cache.charge({"model": "m", "messages": turn(1, **MARK)[:1]})
    assert (first.cache_read, first.input) == (0, 0)
    both = [*turn(1), *turn(2, **MARK)[:1]]
    second = cache.charge({"model": "m", "messages": both})
    assert second.cache_read == first.cache_write
    assert second.input == 0
    assert 1.0 <= cache.ratio < 1.05


def test_the_cache_looks_back_over_twenty_blocks_only() -> None:
    def asked(blocks: int) -> int:
        cache = PromptCache()
        cache.charge({"model": "m", "messages": turn(1, **MARK)[:1]})
        parts = [{"type": "text", "text": f"{n}"} for n in range(blocks)]
        last = {"role": "user", "content": [*parts, {"type": "text", "text": "x", **MARK}]}
        return cache.charge({"model": "m", "messages": [*turn(1), last]}).cache_read

    assert asked(17) > 0
    assert asked(18) == 0


def test_without_a_mark_nothing_is_remembered() -> None:
    cache = PromptCache()
    for _ in range(2):
        assert cache.charge({"model": "m", "messages": turn(1)[:1]}).cache_read == 0
    assert cache.ratio > 1.4
