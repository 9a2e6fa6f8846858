"""Prices: the cost of a call, in US dollars.

The config's prices come first; then the tables of the package genai-prices, if the extra `prices`
is installed. Otherwise a call has no cost.
"""

import importlib
import importlib.util
from functools import cache
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from crossclaw.config.providers import Cost, Models
from crossclaw.domain.messages import AssistantMessage, Usage
from crossclaw.domain.models import ListedModel
from crossclaw.providers.contract import LostSpending, ModelPiece, ModelRequest, Provider, TellPiece
from crossclaw.providers.listing import describe, list_models

PACKAGE = "genai_prices"
UNLISTED_MAX = 1_000  # more models than anybody names; further ones are looked up each time
_MILLION = 1_000_000


class Prices:
    def __init__(self, models: Models) -> None:
        self._models = models
        self._tables: Any = None
        self._unlisted: set[tuple[str, str | None, str]] = set()
        """Models that the tables do not have, so that those of self-hosted servers are not searched
        for with every call."""

    async def cost(
        self, provider: str, base_url: str | None, model: str, usage: Usage
    ) -> float | None:
        entry = self._models.providers.get(provider)
        found = entry and entry.find_model(model)
        if found and found.cost is not None:
            return _own_cost(found.cost, usage)
        asked = (provider, base_url, model)
        if asked in self._unlisted or not _has_tables():
            return None
        if self._tables is None:  # 0.2 s, off the loop; then a tenth of a millisecond a call
            self._tables = await anyio.to_thread.run_sync(importlib.import_module, PACKAGE)
        cost = _listed_cost(self._tables, *asked, usage)
        if cost is None and len(self._unlisted) < UNLISTED_MAX:
            self._unlisted.add(asked)
        return cost


class Priced:
    """A provider whose answers contain their cost."""

    def __init__(self, provider: Provider, base_url: str | None, prices: Prices) -> None:
        self.name = provider.name
        self._provider = provider
        self._base_url = base_url
        self._prices = prices

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        lost: list[Usage] = []

        def keep(piece: ModelPiece) -> None:
            lost.append(piece.usage) if isinstance(piece, LostSpending) else tell(piece)

        try:
            answer = await self._provider.complete(request, keep)
        except BaseException:
            # It has been spent, whatever becomes of whoever asked.
            with anyio.CancelScope(shield=True):
                for usage in lost:
                    tell(LostSpending(await self._priced(request.model, usage)))
            raise
        if answer.usage is None:
            return answer
        usage = await self._priced(request.model, answer.usage)
        return msgspec.structs.replace(answer, usage=usage)

    async def _priced(self, model: str, usage: Usage) -> Usage:
        if usage.cost is not None:
            return usage
        cost = await self._prices.cost(self.name, self._base_url, model, usage)
        return msgspec.structs.replace(usage, cost=cost)

    async def list_models(self) -> list[ListedModel]:
        return await list_models(self._provider)

    async def describe(self, model: str) -> ListedModel | None:
        return await describe(self._provider, model)

    async def close(self) -> None:
        await self._provider.close()


def _own_cost(cost: Cost, usage: Usage) -> float:
    return (
        usage.input * cost.input
        + usage.output * cost.output
        + usage.cache_read * cost.cache_read
        + usage.cache_write * cost.cache_write
    ) / _MILLION


@cache
def _has_tables() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def _listed_cost(
    tables: Any, provider: str, base_url: str | None, model: str, usage: Usage
) -> float | None:
    """The cost by the tables. A self-hosted server is looked up by its address, whatever its name
    here."""
    where = {"provider_api_url": base_url} if base_url else {"provider_id": provider}
    counted = tables.Usage(
        input_tokens=usage.prompt,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return float(tables.calc_price(counted, model, **where).total_price)
    except (LookupError, ValueError):
        return None
