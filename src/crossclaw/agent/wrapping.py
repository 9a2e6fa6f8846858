"""Wrapping: the same providers, with something done around each of their calls."""

from collections.abc import Callable

from crossclaw.providers.contract import Provider
from crossclaw.providers.fallback import Find

Wrap = Callable[[Provider, str], Provider]
"""Takes a provider and the model as `provider/model`."""


def wrapped(find: Find, wrap: Wrap) -> Find:
    def found(address: str) -> tuple[Provider, str]:
        provider, model = find(address)
        return wrap(provider, address), model

    return found
