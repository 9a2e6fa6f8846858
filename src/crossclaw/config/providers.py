"""Providers: where models live, what they are called and what they cost."""

from collections.abc import Collection
from typing import Annotated

import msgspec

from crossclaw.config.section import Loose, Positive, Secrets, Section, names
from crossclaw.domain.secret import Secret

APIS = ("anthropic-messages", "openai-completions")
"""What Crossclaw speaks. OpenClaw knows more; a provider with another one stays unused."""

Price = Annotated[float, msgspec.Meta(ge=0)]


class Cost(Section, frozen=True):
    """US dollars a million tokens."""

    input: Price = 0
    output: Price = 0
    cache_read: Price = 0
    cache_write: Price = 0
    unused = names("tieredPricing")


class ProviderModel(Section, frozen=True):
    id: Annotated[str, msgspec.Meta(min_length=1)]
    name: str | None = None
    api: str | None = None
    reasoning: bool = False
    input: tuple[str, ...] = ("text",)
    context_window: Positive = 200_000
    max_tokens: Positive = 8_192
    cost: Cost | None = None
    headers: Secrets = msgspec.field(default_factory=Secrets)
    compat: Loose = msgspec.field(default_factory=Loose)
    unused = names("contextTokens params metadataSource baseUrl agentRuntime thinkingLevelMap")


class ProviderEntry(Section, frozen=True):
    base_url: str | None = None
    api_key: Secret | None = None
    api: str = "openai-completions"
    headers: Secrets = msgspec.field(default_factory=Secrets)
    models: tuple[ProviderModel, ...] = ()
    max_concurrent: Positive = 64
    unused = names(
        "auth authHeader injectNumCtxForOpenAICompat request timeoutSeconds params region"
        " contextWindow contextTokens maxTokens localService agentRuntime"
    )

    def find_model(self, model_id: str) -> ProviderModel | None:
        return next((model for model in self.models if model.id == model_id), None)


# Where the config does not say. One that is too large here is corrected by the model itself: it
# refuses, and the conversation is compacted.
_WINDOWS = (
    ("claude-", 200_000),
    ("gpt-4o", 128_000),
    ("gpt-4.1", 1_000_000),
    ("gemini-", 1_000_000),
    ("smollm2", 4_096),  # it was trained for twice as many; these take some hundred megabytes
)
WINDOW_DEFAULT = 200_000


def known_window(model_id: str) -> int:
    """By the model's name, also behind a router's prefix: `openrouter/anthropic/claude-…`."""
    name = model_id.rpartition("/")[2].lower()
    return next((window for start, window in _WINDOWS if name.startswith(start)), WINDOW_DEFAULT)


class Models(Section, frozen=True):
    mode: str = "merge"
    providers: dict[str, ProviderEntry] = msgspec.field(default_factory=dict)
    unused = names("bedrockDiscovery discovery proxy pricing")


BUILT_IN = frozenset({"anthropic", "openai", "rehearsal", "local"})


def model_fault(models: Models, reference: str) -> str | None:
    """Why nobody can answer as `reference`, as far as the config alone tells; None where all is well."""
    spoken = {name for name, entry in models.providers.items() if entry.api in APIS}
    return reference_fault(reference, BUILT_IN | spoken)


def reference_fault(reference: str, known: Collection[str]) -> str | None:
    name, slash, model = reference.partition("/")
    names = ", ".join(sorted(known))
    if not slash or not name or not model:
        return (
            f"{reference!r} names no model; write provider/model, for example"
            f" anthropic/claude-opus-4-8; providers here: {names}"
        )
    if name in known:
        return None
    return (
        f"unknown provider {name!r}; known are {names}; add it under"
        f" models.providers.{name} with api, baseUrl and apiKey"
    )
