"""Options of a provider's requests in the config, beyond its address and key."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from crossclaw.config.catalogue import known_facts
from crossclaw.domain.models import ModelFacts

RESERVED = frozenset({"model", "messages", "input", "contents", "stream", "system", "instructions"})
"""Fields of a request that `params` cannot replace: without them it would be another request."""


class ModelOptions(msgspec.Struct, frozen=True):
    """Options for one model, or for all of a provider."""

    headers: dict[str, str] = {}
    params: dict[str, Any] = {}
    """Fields added to the request, as the service names them."""
    compat: dict[str, Any] = {}
    """What a self-hosted server can or cannot do, in OpenClaw's names (docs/models.md lists
    them)."""

    def over(self, shared: "ModelOptions") -> "ModelOptions":
        return ModelOptions(
            {**shared.headers, **self.headers},
            {**shared.params, **self.params},
            {**shared.compat, **self.compat},
        )


class WireOptions(msgspec.Struct, frozen=True):
    shared: ModelOptions = ModelOptions()
    models: dict[str, ModelOptions] = {}
    timeout_s: float | None = None
    """The longest time of one call; None: as long as something arrives."""
    facts: Callable[[str], ModelFacts] = known_facts
    """What is known about a model of this provider, by its own name."""

    def of(self, model: str) -> ModelOptions:
        own = self.models.get(model)
        return self.shared if own is None else own.over(self.shared)


DEFAULTS = WireOptions()


def with_params(body: dict[str, Any], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """The request with the config's own fields; a later layer counts more. `null` removes a
    field."""
    for layer in layers:
        for name, value in layer.items():
            if name in RESERVED:
                continue
            if value is None:
                body.pop(name, None)
            else:
                body[name] = value
    return body
