"""What the real services refuse, rule by rule, with where and when it was read. Each can be switched off.

    FakeModelServer(rules=Rules(off=["anthropic.bound_thinking"]))

A rule looks at the model's name, as the services do: the same fake is OpenAI for `gpt-…`, DeepSeek for
`deepseek-…`, Mistral for `mistral-…`, OpenRouter for a name with a slash in it.
"""

from collections.abc import Iterable

import msgspec

READ = "2026-11-15"


class ServiceRule(msgspec.Struct, frozen=True):
    refuses: str
    source: str
    read: str = READ


_CLAUDE_DOCS = "platform.claude.com/docs/en/"
_OPENAI_SDK = "openai SDK 3.49.0: "

RULES: dict[str, ServiceRule] = {
    # ── Anthropic Messages ──────────────────────────────────────────────────────────────────────
    "anthropic.max_output": ServiceRule(
        "a max_tokens above what the model can say",
        _CLAUDE_DOCS + "about-claude/models/overview (128K from Opus 4.6 on)",
    ),
    "anthropic.thinking_mode": ServiceRule(
        "a thinking.type that the model does not take: a budget from Claude 4.7 on, `adaptive` before 4.6,"
        " `disabled` where thinking is always on, `between_tools` anywhere but on Sonnet 5.5",
        _CLAUDE_DOCS + "build-with-claude/thinking-troubleshooting",
    ),
    "anthropic.effort": ServiceRule(
        "an effort that the model does not know, or one above high while thinking is off",
        _CLAUDE_DOCS + "build-with-claude/effort; anthropic SDK 2.8.0: thinking_types.py",
    ),
    "anthropic.bound_thinking": ServiceRule(
        "a thinking block before which the system prompt, a tool or a message has changed",
        _CLAUDE_DOCS + "models/opus-5-5/whats-new-opus-5-5, build-with-claude/preserved-thinking",
    ),
    "anthropic.thinking_first": ServiceRule(
        "under a thinking budget, results of calls that came without thinking",
        "github.com/anthropics/claude-code/issues/20692 (the service's words)",
    ),
    "anthropic.schema": ServiceRule(
        "oneOf, anyOf or allOf at the top of a tool's schema",
        "github.com/anthropics/claude-code/issues/40075 (the service's words)",
    ),
    "anthropic.pictures": ServiceRule(
        "pictures of another type than they say, of a type that is none of four, above 5 MB of base64 or"
        " 8,000 pixels, or 2,000 where there are more than 20",
        "anthropic SDK 2.8.0: base64_image_source_param.py; "
        + _CLAUDE_DOCS
        + "build-with-claude/vision",
    ),
    "anthropic.documents": ServiceRule(
        "documents that are no PDF, are locked, or have more than 600 pages together (100 for models with a window of"
        " 200k tokens)",
        _CLAUDE_DOCS + "build-with-claude/pdf-support",
        "2026-11-16",
    ),
    "anthropic.request": ServiceRule(
        "requests above 32 MB, or with more than 600 pictures (100 for models with a window of 200k tokens)",
        _CLAUDE_DOCS + "build-with-claude/vision, build-with-claude/pdf-support",
        "2026-11-16",
    ),
    "anthropic.prefill": ServiceRule(
        "a conversation that ends with the assistant's words, from Claude 4.6 on",
        "openrouter.ai/docs: model-migrations/claude-5-5 (prefill is removed)",
    ),
    "anthropic.marks": ServiceRule(
        "more than four cache marks, or one of an hour after one of five minutes",
        _CLAUDE_DOCS + "build-with-claude/prompt-caching",
    ),
    # ── OpenAI, chat completions and responses ──────────────────────────────────────────────────
    "openai.limit_name": ServiceRule(
        "max_tokens for models that reason: they want max_completion_tokens",
        "docs.litellm.ai/blog/gpt_6_astra (the service's words)",
    ),
    "openai.max_output": ServiceRule(
        "a limit above what the model can say", "vercel.com/ai-gateway/models/gpt-6-astra.md"
    ),
    "openai.chat_tools": ServiceRule(
        "function tools on chat completions: never for gpt-6-astra and gpt-6.1-sol, only with"
        " reasoning_effort none from gpt-5.4 on",
        "developers.openai.com/api/docs/guides/deployment-checklist;"
        " github.com/BerriAI/litellm/pull/34569",
    ),
    "openai.levels": ServiceRule(
        "a reasoning effort that the model does not know",
        _OPENAI_SDK + "shared/reasoning.py (not every model takes every value)",
    ),
    "openai.schema": ServiceRule(
        "oneOf, anyOf, allOf, enum or not at the top of a tool's schema",
        "github.com/anomalyco/opencode/issues/35516 (same restriction)",
    ),
    "openai.names": ServiceRule(
        "names of tools with other signs or above 64; ids of calls above 40 signs (64 in responses)",
        "the service's words: string too long. Expected a string with maximum length 40",
    ),
    "openai.pictures": ServiceRule(
        "pictures that are no PNG, JPEG, GIF or WebP, or are a GIF that moves",
        _OPENAI_SDK + "responses/response_error.py (unsupported_image_media_type);"
        " developers.openai.com/api/docs/guides/images-vision (image input requirements)",
    ),
    "openai.files": ServiceRule(
        "files that are no PDF (chat completions take no others, and we send no others), are locked, have no name"
        " or more than 50 MB",
        "developers.openai.com/api/docs/guides/file-inputs",
        "2026-11-16",
    ),
    "openai.reasoning_items": ServiceRule(
        "with store: false, reasoning without its encrypted content, or without the item that followed it",
        _OPENAI_SDK + "responses/response_reasoning_item_param.py",
    ),
    "openai.min_output": ServiceRule(
        "a max_output_tokens below 16", "the service's words: integer below minimum value"
    ),
    # ── services that speak chat completions ────────────────────────────────────────────────────
    "deepseek.reasoning": ServiceRule(
        "an assistant message with calls, since the last user message, without its reasoning_content",
        "api-docs.deepseek.com/guides/thinking_mode#tool-calls",
    ),
    "gemini.signature": ServiceRule(
        "a function call of the current turn without its thought_signature (Gemini 3 and later)",
        "ai.google.dev/gemini-api/docs/thought-signatures; google-genai SDK 3.1.0: types.Part",
    ),
    "openrouter.reasoning": ServiceRule(
        "calls that were made with reasoning_details and come back without them",
        "openrouter.ai/docs/use-cases/reasoning-tokens (preserving reasoning blocks)",
    ),
    "mistral.ids": ServiceRule(
        "ids of calls that are not nine letters and digits",
        "github.com/mistralai/mistral-vibe/issues/1075 (the service's words)",
    ),
    "mistral.order": ServiceRule(
        "a user message straight after a tool's result",
        "the service's words: Unexpected role 'user' after role 'tool'",
    ),
    # ── native Gemini and Ollama ────────────────────────────────────────────────────────────────
    "gemini.schema": ServiceRule(
        "keywords that its function declarations do not know in `parameters`",
        "google-genai SDK 3.1.0: types.Schema (parameters_json_schema takes the rest)",
    ),
    "gemini.inline": ServiceRule(
        "inline data that is no PNG, JPEG, WebP, HEIC or HEIF, nor a PDF of up to 1,000 pages; requests above 20 MB",
        "firebase.google.com/docs/ai-logic/input-file-requirements; ai.google.dev/gemini-api/docs/document-processing",
        "2026-11-16",
    ),
    "gemini.level": ServiceRule(
        "a thinking level and a budget together, or a level that the model does not know",
        "google-genai SDK 3.1.0: types.ThinkingConfig",
    ),
    "ollama.think": ServiceRule(
        "`think` for a model that cannot",
        "docs.ollama.com/capabilities/thinking (“does not support thinking”)",
    ),
    "ollama.tools": ServiceRule(
        "tools for a model that cannot call any",
        "docs.ollama.com/capabilities/tool-calling (“does not support tools”)",
    ),
}


class ServiceRules:
    """The rules that hold; all, unless some are switched off."""

    def __init__(self, off: Iterable[str] = ()) -> None:
        self._off = frozenset(off)
        if unknown := self._off - RULES.keys():
            raise ValueError(f"no such rules: {', '.join(sorted(unknown))}")

    def __contains__(self, name: object) -> bool:
        assert name in RULES, name
        return name not in self._off


ALL = ServiceRules()
