"""The catalogue: what is known about models before anybody has asked a service.

That Claude, GPT since 4o and Gemini read PDFs stands in platform.claude.com/docs (pdf-support: all active models),
developers.openai.com/api/docs/guides/file-inputs and ai.google.dev (document processing); 2026-11-16.

Every row says where it was read and when. Nothing is fetched at start. A row stands for all models whose
name begins with it, and the longest such row counts; `models.providers.<name>.models` of the config
overrides what it says, and so does the service's own list of models, where it has been asked.
"""

import re
from functools import lru_cache

from crossclaw.domain.models import ModelFacts

_NAMES_REMEMBERED = 1_024  # more models than anybody names

_CLAUDE = "platform.claude.com/docs: models, thinking-troubleshooting, effort; 2026-11-15"
_CLAUDE_SDK = "anthropic SDK 2.8.0, thinking_config_*_param; 2026-11-15"
_OPENAI = "developers.openai.com/api/docs: guides/latest-model, deployment-checklist; 2026-11-15"
_OPENAI_OLD = "openai SDK 3.49.0, shared/reasoning.py and genai-prices 0.2.1; 2026-11-15"
_GEMINI = "google-genai SDK 3.1.0, ThinkingConfig; genai-prices 0.2.1; 2026-11-15"
_PRICES = "genai-prices 0.2.1 (context_window); 2026-11-15"

_THREE = ("low", "medium", "high")
_FIVE = ("low", "medium", "high", "xhigh", "max")
_FOUR = ("low", "medium", "high", "max")
_M = 1_000_000


def _claude(output: int, *, off: str, unasked: bool, levels: tuple[str, ...] = _FIVE) -> ModelFacts:
    """A Claude that decides itself how much to think; the request says how hard to try."""
    return ModelFacts(
        window=_M,
        output=output,
        thinking="effort",
        levels=levels,
        off=off,  # type: ignore[arg-type]
        thinks_unasked=unasked,
        documents=True,
        source=_CLAUDE,
    )


def _claude_by_budget(window: int, output: int) -> ModelFacts:
    """A Claude that is given a number of tokens to think with."""
    return ModelFacts(
        window=window, output=output, thinking="budget", documents=True, source=_CLAUDE_SDK
    )


def _gpt(levels: tuple[str, ...], *, off: str, chat_tools: str, window: int) -> ModelFacts:
    return ModelFacts(
        window=window,
        output=128_000,
        thinking="effort",
        levels=levels,
        off=off,  # type: ignore[arg-type]
        thinks_unasked=True,
        chat_tools=chat_tools,  # type: ignore[arg-type]
        documents=True,
        source=_OPENAI,
    )


def _o(levels: tuple[str, ...], window: int, output: int) -> ModelFacts:
    return ModelFacts(
        window=window, output=output, thinking="effort", levels=levels, off="never",
        thinks_unasked=True, documents=True, source=_OPENAI_OLD,
    )  # fmt: skip


def _gemini(levels: tuple[str, ...], *, off: str = "never") -> ModelFacts:
    return ModelFacts(
        window=1_048_576, output=65_536, thinking="level" if levels else "budget", levels=levels,
        off=off, thinks_unasked=True, documents=True, source=_GEMINI,  # type: ignore[arg-type]
    )  # fmt: skip


def _other(window: int, source: str = _PRICES, **facts: object) -> ModelFacts:
    return ModelFacts(window=window, source=source, **facts)  # type: ignore[arg-type]


_ROWS: dict[str, ModelFacts] = {
    # ── Claude ──────────────────────────────────────────────────────────────────────────────────
    "claude-": _claude_by_budget(200_000, 8_192),
    "claude-3-7": _claude_by_budget(200_000, 64_000),
    "claude-3": ModelFacts(thinking="none", window=200_000, output=4_096, source=_CLAUDE_SDK),
    "claude-3-5": ModelFacts(thinking="none", window=200_000, output=8_192, source=_CLAUDE_SDK),
    "claude-opus-4": _claude_by_budget(200_000, 32_000),
    "claude-sonnet-4": _claude_by_budget(200_000, 64_000),
    "claude-haiku-4": _claude_by_budget(200_000, 64_000),
    "claude-opus-4-5": _claude_by_budget(200_000, 64_000),
    "claude-opus-4-6": _claude(128_000, off="omit", unasked=False, levels=_FOUR),
    "claude-sonnet-4-6": _claude(64_000, off="omit", unasked=False, levels=_THREE),
    "claude-opus-4-7": _claude(128_000, off="omit", unasked=False),
    "claude-opus-4-8": _claude(128_000, off="omit", unasked=False),
    "claude-opus-5": _claude(128_000, off="disabled", unasked=True),
    "claude-sonnet-5": _claude(128_000, off="disabled", unasked=True),
    "claude-haiku-5": _claude(128_000, off="disabled", unasked=True),
    "claude-fable": _claude(128_000, off="never", unasked=True),
    "claude-mythos": _claude(128_000, off="never", unasked=True),
    "claude-fable-5-1": _claude(128_000, off="never", unasked=True),
    "claude-fable-5-2": _claude(128_000, off="never", unasked=True),
    "claude-mythos-5-1": _claude(128_000, off="never", unasked=True),
    "claude-mythos-5-2": _claude(128_000, off="never", unasked=True),
    "claude-opus-5-5": _claude(128_000, off="never", unasked=True),
    "claude-sonnet-5-5": _claude(128_000, off="between_tools", unasked=True),
    "claude-haiku-5-5": _claude(128_000, off="disabled", unasked=True),
    # ── OpenAI ──────────────────────────────────────────────────────────────────────────────────
    "gpt-3.5": ModelFacts(
        thinking="none", window=16_385, output=4_096, pictures=False, source=_OPENAI_OLD
    ),
    "gpt-4": ModelFacts(
        thinking="none", window=8_192, output=4_096, pictures=False, source=_OPENAI_OLD
    ),
    "gpt-4-turbo": ModelFacts(thinking="none", window=128_000, output=4_096, source=_OPENAI_OLD),
    "gpt-4o": ModelFacts(
        thinking="none", window=128_000, output=16_384, documents=True, source=_OPENAI_OLD
    ),
    "gpt-4.1": ModelFacts(
        thinking="none", window=_M, output=32_768, documents=True, source=_OPENAI_OLD
    ),
    "o1": _o(_THREE, 200_000, 100_000),
    "o3": _o(_THREE, 200_000, 100_000),
    "o4": _o(_THREE, 200_000, 100_000),
    "gpt-5": _gpt(("minimal", *_THREE), off="never", chat_tools="yes", window=400_000),
    "gpt-5.1": _gpt(_THREE, off="none", chat_tools="yes", window=400_000),
    "gpt-5.2": _gpt((*_THREE, "xhigh"), off="none", chat_tools="unthinking", window=400_000),
    "gpt-5.3": _gpt((*_THREE, "xhigh"), off="none", chat_tools="unthinking", window=400_000),
    "gpt-5.4": _gpt((*_THREE, "xhigh"), off="none", chat_tools="unthinking", window=1_050_000),
    "gpt-5.4-mini": _gpt((*_THREE, "xhigh"), off="none", chat_tools="unthinking", window=400_000),
    "gpt-5.4-nano": _gpt((*_THREE, "xhigh"), off="none", chat_tools="unthinking", window=400_000),
    "gpt-5.5": _gpt((*_THREE, "xhigh"), off="none", chat_tools="unthinking", window=_M),
    "gpt-5.6": _gpt(_FIVE, off="none", chat_tools="unthinking", window=1_050_000),
    "gpt-6": _gpt(_FIVE, off="none", chat_tools="unthinking", window=1_050_000),
    "gpt-6-astra": _gpt(_FIVE, off="never", chat_tools="no", window=1_050_000),
    "gpt-6.1-sol": _gpt(_FIVE, off="none", chat_tools="no", window=1_050_000),
    "gpt-oss": ModelFacts(
        window=131_072,
        output=32_768,
        pictures=False,
        thinking="effort",
        levels=_THREE,
        off="never",
        thinks_unasked=True,
        source=_PRICES,
    ),
    # ── Google ──────────────────────────────────────────────────────────────────────────────────
    "gemini-": ModelFacts(
        thinking="none", window=1_048_576, output=8_192, documents=True, source=_GEMINI
    ),
    "gemini-2.5": _gemini((), off="disabled"),
    "gemini-2.5-pro": _gemini((), off="never"),
    "gemini-3": _gemini(("minimal", *_THREE)),
    "gemini-3-pro": _gemini(("low", "high")),
    "gemini-3.1-pro": _gemini(_THREE),
    "gemini-4": _gemini(_THREE),
    "gemma-": ModelFacts(thinking="none", window=131_072, output=8_192, tools=True, source=_GEMINI),
    # ── others, mostly behind chat completions ──────────────────────────────────────────────────
    "deepseek": _other(128_000, pictures=False),
    "deepseek-v4": _other(_M, pictures=False),
    "deepseek-flash": _other(_M, pictures=False),
    "mistral": _other(131_072),
    "mistral-large": _other(262_144),
    "mistral-large-4": _other(1_048_576),
    "mistral-medium-3": _other(262_144),
    "mistral-small": _other(131_072),
    "mistral-small-2603": _other(262_144),
    "ministral": _other(131_072),
    "codestral": _other(256_000, pictures=False),
    "devstral": _other(131_072, pictures=False),
    "magistral": _other(40_000),
    "grok-": _other(131_072),
    "grok-4": _other(256_000),
    "grok-4-fast": _other(2 * _M),
    "grok-4-1-fast": _other(2 * _M),
    "grok-4.2": _other(_M),
    "grok-4.3": _other(_M),
    "grok-4.5": _other(500_000),
    "grok-4.6": _other(500_000),
    "grok-4.7": _other(500_000),
    "kimi-k2": _other(262_144, pictures=False),
    "kimi-k3": _other(1_048_576),
    "minimax-m2": _other(204_800, pictures=False),
    "minimax-m3": _other(_M),
    "glm-4": _other(128_000, pictures=False),
    "glm-5": _other(200_000, pictures=False),
    "qwen": _other(32_768),
    "qwen3": _other(131_072),
    "llama": _other(8_192),
    "llama3.1": _other(131_072),
    "llama3.2": _other(131_072),
    "llama-3": _other(131_072),
    "llama-4": _other(_M),
    # It was trained for twice as many; these take some hundred megabytes.
    "smollm2": _other(4_096, "our own; 2026-11-15", pictures=False, tools=False, thinking="none"),
}

_BY_LENGTH = sorted(_ROWS, key=len, reverse=True)

UNKNOWN = ModelFacts()
"""Facts of a model that is not listed. If the window is too large here, the model itself refuses, and the
conversation is compacted."""


@lru_cache(_NAMES_REMEMBERED)
def known_facts(model_id: str) -> ModelFacts:
    """The facts of a model by its name, also behind a router's prefix (`openrouter/anthropic/claude-…`), a
    cloud's (`us.anthropic.claude-…`) and with OpenRouter's or Ollama's spelling (`claude-opus-5.5`,
    `qwen3:8b`)."""
    name = plain_name(model_id)
    row = next((start for start in _BY_LENGTH if name.startswith(start)), None)
    return UNKNOWN if row is None else _ROWS[row]


def plain_name(model_id: str) -> str:
    name = model_id.rpartition("/")[2].lower()
    if (found := name.find("claude-")) > 0:
        name = name[found:]
    if name.startswith("claude-"):
        # The oldest put their number first, routers write dots: claude-3.5-sonnet, claude-opus-4.8.
        name = re.sub(r"(\d)\.(\d)", r"\1-\2", name)
        # A date is no version: claude-opus-4-20250514.
        name = re.sub(r"-\d{8}.*$", "", name)
    return name


def known_window(model_id: str) -> int:
    return known_facts(model_id).window
