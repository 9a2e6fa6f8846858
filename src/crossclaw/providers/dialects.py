"""Dialects: how the services with OpenAI's chat completions API differ.

What a service wants is known by its address or by the model's name, and `compat` of the config
overrides it, in OpenClaw's names.
"""

from typing import Any, Literal

import msgspec

from crossclaw.config.catalogue import plain_name
from crossclaw.domain.models import ModelFacts

ThinkingFormat = Literal[
    "openai", "openrouter", "zai", "deepseek", "qwen", "qwen-chat-template", "none"
]

_BY_ADDRESS: tuple[tuple[str, ThinkingFormat], ...] = (
    ("openrouter.ai", "openrouter"),
    ("z.ai", "zai"),
    ("bigmodel.cn", "zai"),
    ("deepseek.com", "deepseek"),
    ("dashscope", "qwen"),
)
_MISTRAL = ("mistral", "ministral", "devstral", "codestral", "magistral", "pixtral")
_WANT_REASONING = ("deepseek", "kimi")
_NEW_LIMIT = ("gpt-5", "gpt-6", "o1", "o3", "o4")


class WireDialect(msgspec.Struct, frozen=True):
    limit_name: str = "max_tokens"
    thinking: ThinkingFormat = "openai"
    usage_in_stream: bool = True
    nine_letter_ids: bool = False
    assistant_after_results: bool = False
    """Whether a user's message may not follow a tool's result: an assistant's message is put
    between."""
    names_in_results: bool = False
    reasoning_always: bool = False
    """Whether every message with calls must have its reasoning, an empty one if another model made
    them."""
    signatures_always: bool = False
    """Whether every call must have Google's signature, or the placeholder for one."""
    cache_marks: bool = False
    """Whether it accepts Anthropic's cache marks (OpenRouter for Claude)."""
    cache_key: bool = False
    is_openai: bool = False


def dialect_of(
    base_url: str, model: str, facts: ModelFacts, compat: dict[str, Any], *, is_openai: bool
) -> WireDialect:
    name, host = plain_name(model), base_url.lower()
    mistral = "mistral.ai" in host or name.startswith(_MISTRAL)
    known: dict[str, Any] = {
        # OpenAI's newer models refuse the old name, other servers do not all know the new one.
        "limit_name": "max_completion_tokens"
        if is_openai or name.startswith(_NEW_LIMIT)
        else "max_tokens",
        "thinking": next((kind for part, kind in _BY_ADDRESS if part in host), "openai"),
        "nine_letter_ids": mistral,
        "assistant_after_results": mistral,
        "reasoning_always": name.startswith(_WANT_REASONING),
        "signatures_always": name.startswith("gemini-") and not name.startswith("gemini-2"),
        "cache_marks": "openrouter.ai" in host and "claude" in name,
        "cache_key": is_openai,
        "is_openai": is_openai,
    }
    if facts.thinking == "none":
        known["thinking"] = "none"
    return WireDialect(**{**known, **_written(compat)})


_NAMES = {
    "maxTokensField": "limit_name",
    "thinkingFormat": "thinking",
    "supportsUsageInStreaming": "usage_in_stream",
    "requiresMistralToolIds": "nine_letter_ids",
    "requiresAssistantAfterToolResult": "assistant_after_results",
    "requiresToolResultName": "names_in_results",
    "requiresReasoningContentOnAssistantMessages": "reasoning_always",
    "supportsPromptCacheKey": "cache_key",
}


def _written(compat: dict[str, Any]) -> dict[str, Any]:
    own = {ours: compat[theirs] for theirs, ours in _NAMES.items() if theirs in compat}
    if compat.get("supportsReasoningEffort") is False:
        own["thinking"] = "none"
    if "cacheControlFormat" in compat:
        own["cache_marks"] = compat["cacheControlFormat"] == "anthropic"
    return own
