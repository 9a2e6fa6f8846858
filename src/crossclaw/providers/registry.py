"""The providers of a house by name: `anthropic/claude-x` → who answers, and the model's own name.

Around each of them: its price list, then a cap on calls at once, then retries, whose waits take no
place under the cap.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Literal

import anyio
import msgspec

from crossclaw.config.providers import Models, reference_fault
from crossclaw.domain.errors import ProviderMissing, ProviderRefused
from crossclaw.domain.messages import AssistantMessage, Usage
from crossclaw.providers.anthropic import AnthropicProvider
from crossclaw.providers.contract import ModelRequest, Provider, Tell
from crossclaw.providers.failures import key_variable, where_the_key_goes
from crossclaw.providers.local import LocalProvider
from crossclaw.providers.openai import OpenAIProvider
from crossclaw.providers.prices import Priced, Prices
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.providers.retry import Patience, Retrying

Api = Literal["anthropic-messages", "openai-completions"]

CALLS_MAX = 64
"""At once and per provider: each holds a connection, and more would run into the service's rate limit
together."""

NO_KEY = "none"
"""What a server of one's own gets when it needs no key: some refuse to be sent nothing."""


class ProviderSettings(msgspec.Struct, frozen=True):
    name: str
    api: Api
    base_url: str | None = None
    api_key: str | None = None
    """Unset: the environment's; empty: none."""
    calls_max: int = CALLS_MAX


_BUILT_IN = {
    "anthropic": ProviderSettings("anthropic", "anthropic-messages"),
    "openai": ProviderSettings("openai", "openai-completions"),
}


class Providers:
    """`extra` takes providers that exist already: doubles, plug-ins. They are closed with the rest."""

    def __init__(
        self,
        settings: Mapping[str, ProviderSettings],
        environ: Mapping[str, str],
        *,
        extra: Mapping[str, Provider] | None = None,
        prices: Prices | None = None,
        patience: Patience | None = None,
        calls_max: int = CALLS_MAX,
    ) -> None:
        self._settings = {**_BUILT_IN, **settings}
        self._environ = environ
        own: dict[str, Provider] = {"rehearsal": RehearsalProvider(), "local": LocalProvider()}
        free = {name: provider for name, provider in own.items() if name not in settings}
        self._free = free.keys() - (extra or {}).keys()
        self._extra = {**free, **(extra or {})}
        self._prices = prices or Prices(Models())
        self._patience = patience
        self._calls_max = calls_max
        self._made: dict[str, Provider] = {}

    @property
    def names(self) -> list[str]:
        return sorted({*self._settings, *self._extra})

    def get(self, address: str) -> tuple[Provider, str]:
        if fault := reference_fault(address, self.names):
            raise ProviderMissing(fault)
        name, _, model = address.partition("/")
        if name not in self._made:
            self._made[name] = Retrying(self._capped(name), self._patience)
        return self._made[name], model

    async def price(self, address: str, usage: Usage) -> float | None:
        """What so much would cost, or has; None where nobody knows."""
        name, _, model = address.partition("/")
        if name in self._free:
            return 0.0
        return await self._prices.cost(name, self._base_url(name), model, usage)

    async def close(self) -> None:
        made, self._made = {**self._extra, **self._made}, {}
        async with AsyncExitStack() as closing:  # one that fails does not leave the others open
            for provider in made.values():
                closing.push_async_callback(provider.close)

    def _capped(self, name: str) -> "Capped":
        provider, settings = self._make(name), self._settings.get(name)
        return Capped(provider, settings.calls_max if settings else self._calls_max)

    def _make(self, name: str) -> Provider:
        if name in self._extra:
            return self._extra[name]
        settings = self._settings[name]
        base_url = self._base_url(name)
        make = AnthropicProvider if settings.api == "anthropic-messages" else OpenAIProvider
        # It could try again on its own, but unseen and each call for itself.
        made = make(name, base_url, self._key(settings, base_url), retries=0)
        return Priced(made, base_url, self._prices)

    def _base_url(self, name: str) -> str | None:
        settings = self._settings.get(name)
        written = settings.base_url if settings else None
        return written or self._environ.get(_base_url_variable(name))

    def _key(self, settings: ProviderSettings, base_url: str | None) -> str:
        # An empty one is a key that was taken back: then the environment's is not meant either.
        given = settings.api_key is not None
        key = settings.api_key if given else self._environ.get(key_variable(settings.name))
        if key:
            return key
        if base_url is not None:
            return NO_KEY
        raise ProviderRefused(
            f"{settings.name} needs a key; set {where_the_key_goes(settings.name)}"
        )


class Capped:
    """A provider with at most so many calls at once; the rest wait in order."""

    def __init__(self, provider: Provider, calls_max: int) -> None:
        self.name = provider.name
        self._provider = provider
        self._calls = anyio.CapacityLimiter(calls_max)

    async def complete(self, request: ModelRequest, tell: Tell) -> AssistantMessage:
        try:
            self._calls.acquire_nowait()  # where there is room, without a turn of the loop
        except anyio.WouldBlock:
            await self._calls.acquire()
        try:
            return await self._provider.complete(request, tell)
        finally:
            self._calls.release()

    async def close(self) -> None:
        await self._provider.close()


def _base_url_variable(name: str) -> str:
    """`ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL`: the names that the official SDKs know."""
    return key_variable(name).removesuffix("_API_KEY") + "_BASE_URL"
