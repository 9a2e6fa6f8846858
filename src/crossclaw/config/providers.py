"""Providers: the addresses, names and prices of models."""

from collections.abc import Collection
from typing import Annotated

import msgspec

from crossclaw.config.section import Loose, Secrets, Section, names
from crossclaw.domain.aliases import Positive
from crossclaw.domain.secret import Secret

APIS = (
    "anthropic-messages",
    "openai-responses",
    "openai-completions",
    "google-generative-ai",
    "ollama",
)
"""The protocols that Crossclaw speaks. OpenClaw knows more; a provider with another one stays unused."""

Price = Annotated[float, msgspec.Meta(ge=0)]


class Cost(Section, frozen=True):
    """Prices in US dollars a million tokens."""

    input: Price = 0
    """The price of what the model reads."""
    output: Price = 0
    """The price of what it writes."""
    cache_read: Price = 0
    """The price of what it reads from its cache."""
    cache_write: Price = 0
    """The price of what it puts into its cache."""
    unused = names("tieredPricing")


class ProviderModel(Section, frozen=True):
    id: Annotated[str, msgspec.Meta(min_length=1)]
    """The model's id at the provider."""
    name: str | None = None
    """The model's name for people."""
    api: str | None = None
    """Overrides the provider's `api`."""
    reasoning: bool | None = None
    """Whether the model can think before it answers; unset: as the catalogue knows."""
    input: tuple[str, ...] | None = None
    """The kinds of input it understands: `text`, `image`; unset: as the catalogue knows."""
    context_window: Positive | None = None
    """The model's window in tokens; unset: as the catalogue knows, else 200,000."""
    max_tokens: Positive | None = None
    """The longest answer in words and calls; room to think comes on top. Unset: 8,192, or less where it
    cannot say so much."""
    cost: Cost | None = None
    """The model's prices; unset: the public ones."""
    headers: Secrets = msgspec.field(default_factory=Secrets)
    """Headers of requests to this model, beside the provider's."""
    params: Loose = msgspec.field(default_factory=Loose)
    """Fields of requests to this model, as the service names them, such as `temperature`; Ollama's `num_ctx`."""
    compat: Loose = msgspec.field(default_factory=Loose)
    """The model's abilities, such as `supportsTools: false`; docs/models.md lists the names."""
    unused = names("contextTokens metadataSource baseUrl agentRuntime thinkingLevelMap")


class ProviderEntry(Section, frozen=True):
    base_url: str | None = None
    """The provider's address."""
    api_key: Secret | None = None
    """The key, best as `${VARIABLE}`."""
    api_keys: tuple[Secret, ...] = ()
    """Further keys: one that is limited or refused is paused, and the next is used."""
    api: str | None = None
    """The provider's protocol: `anthropic-messages`, `openai-responses`, `openai-completions`,
    `google-generative-ai` or `ollama`; one with another stays unused. Unset: by the provider's name, and
    `openai-completions` for a name that is not known. `openai` is `openai-responses` at its own address and
    `openai-completions` at any other."""
    headers: Secrets = msgspec.field(default_factory=Secrets)
    """Headers of every request."""
    params: Loose = msgspec.field(default_factory=Loose)
    """Fields of every request, as the service names them."""
    compat: Loose = msgspec.field(default_factory=Loose)
    """The server's abilities; docs/models.md lists the names."""
    models: tuple[ProviderModel, ...] = ()
    """The provider's models."""
    max_concurrent: Positive = 64
    """The most calls at once."""
    timeout_seconds: Positive | None = None
    """How long one call may take; unset: as long as words come."""
    silence_seconds: Positive | None = None
    """How long nothing at all may come in the middle of a call; unset: 120."""
    unused = names(
        "auth authHeader injectNumCtxForOpenAICompat request region"
        " contextWindow contextTokens maxTokens localService agentRuntime"
    )

    def find_model(self, model_id: str) -> ProviderModel | None:
        return next((model for model in self.models if model.id == model_id), None)


class Models(Section, frozen=True):
    mode: str = "merge"
    """No effect."""
    providers: dict[str, ProviderEntry] = msgspec.field(default_factory=dict)
    """The providers of models, by name."""
    idle = names("mode")
    unused = names("bedrockDiscovery discovery proxy pricing")


KNOWN_AT = {
    "cerebras": "https://api.cerebras.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "moonshot": "https://api.moonshot.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "together": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
}
"""Services that speak OpenAI's chat completions, by OpenClaw's names for them: a key is enough (`OPENROUTER_API_KEY`)."""
NEED_KEYS = frozenset({"anthropic", "openai", "google", *KNOWN_AT})
BUILT_IN = NEED_KEYS | {"ollama", "rehearsal", "local"}
REHEARSAL_MODEL = "rehearsal/rehearsal"
WITHOUT_KEY = f"crossclaw config set agents.defaults.model {REHEARSAL_MODEL}"
"""The command for somebody without a key who wants to try the rest."""

_SPOKEN = {
    "anthropic": "anthropic-messages",
    "google": "google-generative-ai",
    "ollama": "ollama",
}


def spoken_api(name: str, written: str | None, base_url: str | None) -> str:
    """The protocol of a provider whose `api` is not set. OpenAI's newer models take tools by the Responses
    API only; servers that imitate OpenAI know chat completions."""
    if written:
        return written
    if name == "openai" and not base_url:
        return "openai-responses"
    return _SPOKEN.get(name, "openai-completions")


def model_fault(models: Models, reference: str) -> str | None:
    """Why no provider can answer as `reference`, as far as the config alone tells; None if all is well."""
    spoken = {n for n, entry in models.providers.items() if entry.api in (None, *APIS)}
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
