"""Listing: what a service reports about its models, if anything."""

from collections.abc import Sequence
from typing import Any

from crossclaw.domain.models import ListedModel


async def list_models(provider: object) -> list[ListedModel]:
    """The models that the service offers; empty if it does not say."""
    lister = getattr(provider, "list_models", None)
    return await lister() if lister is not None else []


async def describe(provider: object, model: str) -> ListedModel | None:
    """What the service reports about one model; None if nothing."""
    describer = getattr(provider, "describe", None)
    if describer is None:
        return named(await list_models(provider), model)
    found: ListedModel | None = await describer(model)
    return found


def named(listed: Sequence[ListedModel], model: str) -> ListedModel | None:
    """The listed model of this name. If a server has a single model, that one whatever it is
    called: llama.cpp answers to every name."""
    found = [each for each in listed if each.id == model]
    return next(iter(found or (listed if len(listed) == 1 else [])), None)


def size(*candidates: Any) -> int | None:
    """The first value that is a number of tokens."""
    return next((n for n in candidates if isinstance(n, int) and n > 1), None)
