"""`doctor --models`: asks each service that an agent would use for its list of models. It costs nothing: no model is
asked anything."""

from collections.abc import AsyncIterator

from crossclaw.app import Outside
from crossclaw.app.model_settings import make_providers
from crossclaw.cli.checks import Finding
from crossclaw.cli.place import StateLocation
from crossclaw.domain.errors import ProviderError
from crossclaw.domain.models import ListedModel, ModelFacts
from crossclaw.providers.registry import Providers

_OWN = ("rehearsal", "local")


async def look_at_models(place: StateLocation) -> list[Finding]:
    providers = make_providers(place.config, place.paths, Outside(environ=place.environ))
    try:
        return [finding async for finding in _look(place, providers)]
    finally:
        await providers.close()


async def _look(place: StateLocation, providers: Providers) -> AsyncIterator[Finding]:
    lists: dict[str, list[ListedModel] | ProviderError] = {}
    for reference in _used(place):
        name, _, model = reference.partition("/")
        if name in _OWN:
            continue
        if name not in lists:
            lists[name] = await _listed(providers, name)
        found = lists[name]
        if isinstance(found, ProviderError):
            yield Finding(reference, "error", str(found))
        else:
            yield _finding(reference, model, found, place.config.facts_for(reference))


def _used(place: StateLocation) -> list[str]:
    chosen = [place.config.model_for(each, place.environ) for each in place.config.agents.ids()]
    return list(dict.fromkeys(name for each in chosen for name in (each.primary, *each.fallbacks)))


async def _listed(providers: Providers, name: str) -> list[ListedModel] | ProviderError:
    try:
        return await providers.list_models(name)
    except ProviderError as error:
        return error


def _finding(reference: str, model: str, listed: list[ListedModel], facts: ModelFacts) -> Finding:
    found = next((each for each in listed if each.id == model), None)
    if found is None and listed:
        some = ", ".join(each.id for each in listed[:10])
        return Finding(reference, "warning", f"the service does not list it; it has {some}")
    if found and found.window and found.window < facts.window:
        return Finding(
            reference,
            "warning",
            f"its window is {found.window:,} tokens, and {facts.window:,} are assumed",
            f"Write contextWindow: {found.window} for it under models.providers.",
        )
    known = f"window {facts.window:,}, answers up to {facts.output or 8_192:,} tokens"
    return Finding(reference, "ok", f"the service takes the key and has the model; {known}")
