"""The providers of a gateway by name: `anthropic/claude-x` → its provider, and the model's own
name.

Around each of them: its prices, its several keys, the adapting of thinking levels, a cap on calls
at once, then retries, whose waits take no place under the cap.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Literal, NamedTuple

import anyio
import msgspec

from crossclaw.config.providers import (
    KNOWN_AT,
    NEED_KEYS,
    WITHOUT_KEY,
    Models,
    reference_fault,
    spoken_api,
)
from crossclaw.domain.errors import CrossclawError, ProviderMissing, ProviderRefused
from crossclaw.domain.messages import AssistantMessage, Usage
from crossclaw.domain.models import ListedModel
from crossclaw.providers.adapting import Adapting
from crossclaw.providers.anthropic import AnthropicProvider
from crossclaw.providers.contract import ModelRequest, Provider, TellPiece
from crossclaw.providers.discovery import Discovery
from crossclaw.providers.failures import where_the_key_goes
from crossclaw.providers.gemini import GeminiProvider
from crossclaw.providers.kept_connections import forget_client, load_client
from crossclaw.providers.keys import Key, KeyRotation, keys_of
from crossclaw.providers.listing import describe, list_models
from crossclaw.providers.local import LocalProvider
from crossclaw.providers.ollama import OllamaProvider
from crossclaw.providers.openai import OpenAIProvider
from crossclaw.providers.options import DEFAULTS, WireOptions
from crossclaw.providers.prices import Priced, Prices
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.providers.responses import ResponsesProvider
from crossclaw.providers.retry import Retrying, RetryLimits
from crossclaw.providers.service import SILENCE_S
from crossclaw.providers.speech import SpeechEndpoint

Api = Literal[
    "anthropic-messages", "openai-responses", "openai-completions", "google-generative-ai", "ollama"
]

CALLS_MAX = 64
"""The most calls at once to one provider: each holds a connection, and more would run into the
service's rate limit together."""
KEPT_FOR_PEOPLE = 8  # of so many places one is for people only

NO_KEY = "none"
"""The key for a self-hosted server that needs none: some refuse an empty one."""

_WIRES: dict[str, Callable[..., Provider]] = {
    "anthropic-messages": AnthropicProvider,
    "openai-responses": ResponsesProvider,
    "openai-completions": OpenAIProvider,
    "google-generative-ai": GeminiProvider,
    "ollama": OllamaProvider,
}


class ProviderSettings(msgspec.Struct, frozen=True):
    name: str
    api: Api | None = None
    """The API of the service; None: by its name and address."""
    base_url: str | None = None
    api_key: str | None = None
    """The key; unset: the environment's; empty: none."""
    calls_max: int = CALLS_MAX
    more_keys: tuple[tuple[str, str], ...] = ()
    """Further keys, each with its name in texts for people."""
    silence_s: float | None = None
    options: WireOptions = DEFAULTS
    model_apis: dict[str, Api] = {}
    """Models with another API than their provider's."""


_BUILT_IN = {name: ProviderSettings(name) for name in (*NEED_KEYS, "ollama")}


class _ProviderPair(NamedTuple):
    retrying: Provider
    """The provider with retries and a cap on calls."""
    bare: Provider


class Providers:
    """All providers. `extra` are ones that exist already: doubles, plug-ins. They are closed with
    the rest."""

    def __init__(
        self,
        settings: Mapping[str, ProviderSettings],
        environ: Mapping[str, str],
        *,
        extra: Mapping[str, Provider] | None = None,
        prices: Prices | None = None,
        patience: RetryLimits | None = None,
        calls_max: int = CALLS_MAX,
        listed: dict[str, ListedModel] | None = None,
        is_configured: Callable[[str], bool] = lambda address: False,
    ) -> None:
        """Creates them. `listed` is filled with what servers report about their models, if the
        config does not have all facts (`is_configured`)."""
        self._discovery = Discovery(self.describe, {} if listed is None else listed, is_configured)
        self._settings = {**_BUILT_IN, **settings}
        self._environ = environ
        own: dict[str, Provider] = {"rehearsal": RehearsalProvider(), "local": LocalProvider()}
        free = {name: provider for name, provider in own.items() if name not in settings}
        self._free = free.keys() - (extra or {}).keys()
        self._extra = {**free, **(extra or {})}
        self._prices = prices or Prices(Models())
        self._patience = patience
        self._calls_max = calls_max
        self._made: dict[tuple[str, str], _ProviderPair] = {}
        self._left: list[_ProviderPair] = []  # of older keys; calls may be under way by them

    @property
    def names(self) -> list[str]:
        return sorted({*self._settings, *self._extra})

    def get(self, address: str) -> tuple[Provider, str]:
        name, _, model = address.partition("/")
        if not model or not (name in self._settings or name in self._extra):
            raise ProviderMissing(reference_fault(address, self.names) or address)
        return self._found(name, self._api(name, model)).retrying, model

    def key_fault(self, address: str) -> str | None:
        """Why a model cannot be used for lack of a key, with what to do. Opens no connection."""
        name, _, model = address.partition("/")
        if name in self._extra or name not in self._settings:
            return None
        try:
            self._keys(self._settings[name], self._api(name, model))
        except ProviderRefused as error:
            return str(error)
        return None

    def take(self, settings: ProviderSettings) -> None:
        """Takes other settings for one provider, from the next call on."""
        self._settings[settings.name] = settings
        for name, api in [made for made in self._made if made[0] == settings.name]:
            self._left.append(self._made.pop((name, api)))

    async def discover(self, addresses: Iterable[str]) -> None:
        """Asks self-hosted servers about these models, unless they were asked before."""
        await self._discovery.look(addresses)

    async def load(self, addresses: Iterable[str]) -> None:
        """Load what calls to these models need, so that the first message need not wait for it. What is missing is
        told with that message, and not here."""
        forget_client()  # certificates may have changed since the gateway was last opened
        for address in addresses:
            name = address.partition("/")[0]
            if name in self._settings and name not in self._extra:
                with suppress(CrossclawError, OSError, ImportError):
                    await load_client()
                    await self.price(address, Usage())

    async def price(self, address: str, usage: Usage) -> float | None:
        """The price of this usage; None if unknown."""
        name, _, model = address.partition("/")
        if name in self._free:
            return 0.0
        return await self._prices.cost(name, self._base_url(name), model, usage)

    async def list_models(self, name: str) -> list[ListedModel]:
        """The models that the service offers, if it says."""
        if fault := reference_fault(f"{name}/any", self.names):
            raise ProviderMissing(fault)
        return await list_models(self._found(name, self._api(name, "")).bare)

    async def describe(self, address: str) -> ListedModel | None:
        """What a self-hosted server reports about a model; the services at their own addresses are
        known."""
        name, _, model = address.partition("/")
        if name in self._extra or name not in self._settings:
            return None
        api = self._api(name, model)
        if api != "ollama" and self._own_url(name) is None:
            return None
        return await describe(self._found(name, api).bare, model)

    def speech(self, name: str) -> SpeechEndpoint:
        """The endpoint that transcribes recordings."""
        settings = self._settings.get(name)
        if settings is None or name in self._extra:
            raise ProviderMissing(reference_fault(f"{name}/any", self.names) or f"{name} does not transcribe recordings")  # fmt: skip
        api = self._api(name, "")
        if api not in ("openai-responses", "openai-completions"):
            raise ProviderRefused(f"{name} ({api}) does not transcribe recordings as OpenAI does: name another service in tools.media")  # fmt: skip
        keys = [key for _label, key in self._keys(settings, api)]
        base_url = self._base_url(name) or OpenAIProvider.official
        return SpeechEndpoint(name, base_url, keys, dict(settings.options.shared.headers))

    async def close(self) -> None:
        made, self._made = self._made, {}
        left, self._left = self._left, []
        asked = {name for name, _api in made}
        unasked = [provider for name, provider in self._extra.items() if name not in asked]
        async with AsyncExitStack() as closing:  # one that fails does not leave the others open
            for provider in [*unasked, *(each.retrying for each in (*left, *made.values()))]:
                closing.push_async_callback(provider.close)

    def _found(self, name: str, api: str) -> _ProviderPair:
        if (name, api) not in self._made:
            bare = self._extra.get(name) or self._keyed(self._settings[name], api)
            settings = self._settings.get(name)
            calls_max = settings.calls_max if settings else self._calls_max
            capped = ConcurrencyLimit(Adapting(bare), calls_max)
            self._made[name, api] = _ProviderPair(Retrying(capped, self._patience), bare)
        return self._made[name, api]

    def _api(self, name: str, model: str) -> str:
        settings = self._settings.get(name)
        if name in self._extra or settings is None:
            return ""
        own = settings.model_apis.get(model)
        return own or spoken_api(name, settings.api, self._own_url(name))

    def _keyed(self, settings: ProviderSettings, api: str) -> Provider:
        """One provider for each key. They do not retry: each would do so unseen, on its own."""
        base_url = self._base_url(settings.name)
        made = [
            Key(
                label,
                Priced(
                    _WIRES[api](
                        settings.name,
                        base_url,
                        key,
                        retries=0,
                        silence_timeout_s=settings.silence_s or SILENCE_S,
                        options=settings.options,
                    ),
                    base_url,
                    self._prices,
                ),
            )
            for label, key in self._keys(settings, api)
        ]
        return made[0].provider if len(made) == 1 else KeyRotation(made)

    def _base_url(self, name: str) -> str | None:
        """The base URL; None: the one its own library would use."""
        return self._own_url(name) or KNOWN_AT.get(name)

    def _own_url(self, name: str) -> str | None:
        """An address other than the service's own."""
        settings = self._settings.get(name)
        written = settings.base_url if settings else None
        found = written or self._environ.get(_base_url_variable(name))
        return found if found != KNOWN_AT.get(name) else None

    def _keys(self, settings: ProviderSettings, api: str) -> list[tuple[str, str]]:
        # Where one is written, the environment's is not meant. An empty one was taken back, and no other
        # may go in its place.
        written = [("apiKey", settings.api_key)] if settings.api_key else []
        environ = self._environ if settings.api_key is None else {}
        found = keys_of(settings.name, [*written, *settings.more_keys], environ)
        found = found if settings.api_key != "" else []
        if found:
            return found
        if self._own_url(settings.name) is not None or api == "ollama":
            return [("none", NO_KEY)]
        raise ProviderRefused(
            f"{settings.name} needs a key; set {where_the_key_goes(settings.name)}, or run: crossclaw onboard"
            f" (to try without a key: {WITHOUT_KEY})"
        )


class ConcurrencyLimit:
    """A provider with at most so many calls at once; the rest wait in order.

    Calls that nobody waits for at a screen never take the last places: however many hooks, jobs and
    agents send, a person is answered. Calls caused by hooks take at most half of the others: jobs
    and agents go on, too.
    """

    def __init__(self, provider: Provider, calls_max: int) -> None:
        self.name = provider.name
        self._provider = provider
        self._calls = anyio.CapacityLimiter(calls_max)
        kept = math.ceil(calls_max / KEPT_FOR_PEOPLE)
        patient = max(1, calls_max - kept)
        self._patient = anyio.CapacityLimiter(patient)
        self._outside = anyio.CapacityLimiter(max(1, patient // 2))

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        async with AsyncExitStack() as places:
            for places_of_its_kind in self._needed(request):
                await _enter(places_of_its_kind)
                places.callback(places_of_its_kind.release)
            return await self._provider.complete(request, tell)

    def _needed(self, request: ModelRequest) -> list[anyio.CapacityLimiter]:
        """The limiters that a call needs, those of its kind first: so it waits without holding a
        place that others need."""
        kinds = [self._outside] if request.outside else []
        return [*kinds, *([self._patient] if request.patient else []), self._calls]

    async def close(self) -> None:
        await self._provider.close()


async def _enter(places: anyio.CapacityLimiter) -> None:
    try:
        places.acquire_nowait()  # where there is room, without a turn of the loop
    except anyio.WouldBlock:
        await places.acquire()


def _base_url_variable(name: str) -> str:
    """The variable of a base URL, as the official SDKs name it: `ANTHROPIC_BASE_URL`,
    `OPENAI_BASE_URL`."""
    return "".join(sign if sign.isalnum() else "_" for sign in name.upper()) + "_BASE_URL"
