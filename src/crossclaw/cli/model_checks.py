"""`doctor --models`: asks each service that an agent would use for its list of models. It costs nothing: no model is
asked anything."""

from collections.abc import AsyncIterator
from difflib import get_close_matches

from crossclaw.app import GatewayInputs
from crossclaw.app.model_settings import make_providers
from crossclaw.cli.checks import Finding
from crossclaw.cli.place import StateLocation
from crossclaw.config.current import CurrentConfig
from crossclaw.domain.errors import ProviderError
from crossclaw.domain.models import ListedModel, ModelFacts
from crossclaw.providers.listing import named
from crossclaw.providers.registry import Providers

_OWN = ("rehearsal", "local")


async def look_at_models(place: StateLocation) -> list[Finding]:
    config = CurrentConfig.of(place.config)
    providers = make_providers(config, place.paths, GatewayInputs(environ=place.environ))
    try:
        return [finding async for finding in _look(place, config, providers)]
    finally:
        await providers.close()


async def _look(
    place: StateLocation, config: CurrentConfig, providers: Providers
) -> AsyncIterator[Finding]:
    lists: dict[str, list[ListedModel] | ProviderError] = {}
    for reference in _used(place):
        name = reference.partition("/")[0]
        if name in _OWN:
            continue
        if name not in lists:
            lists[name] = await _listed(providers, name)
        found = lists[name]
        if isinstance(found, ProviderError):
            todo = "crossclaw onboard sets up another key or model."
            yield Finding(reference, "error", str(found), todo)
            continue
        await providers.discover([reference])
        yield _finding(reference, found, config.facts_for(reference))


def _used(place: StateLocation) -> list[str]:
    chosen = [place.config.model_for(each, place.environ) for each in place.config.agents.ids()]
    return list(dict.fromkeys(name for each in chosen for name in (each.primary, *each.fallbacks)))


async def _listed(providers: Providers, name: str) -> list[ListedModel] | ProviderError:
    try:
        return await providers.list_models(name)
    except ProviderError as error:
        return error


def _finding(reference: str, listed: list[ListedModel], facts: ModelFacts) -> Finding:
    """The finding for a model. `facts` are those that the gateway would use: from the config, the server and
    the catalogue."""
    provider, _, model = reference.partition("/")
    names = [each.id for each in listed]
    found = named(listed, model)
    if found is None and listed:
        near = get_close_matches(model, names, n=5, cutoff=0.5)
        some = ", ".join(list(dict.fromkeys([*near, *names]))[:10])
        text = f"the service does not list it; it has {some}"
        todo = f"crossclaw config set agents.defaults.model {provider}/NAME"
        return Finding(reference, "warning", text, todo)
    if found and found.window and found.window < facts.window:
        return Finding(
            reference,
            "warning",
            f"its window is {found.window:,} tokens, and {facts.window:,} are assumed",
            f"Write contextWindow: {found.window} for it under models.providers.",
        )
    if found is None:
        text = (
            "the service takes the key; it lists no models, so whether it has this one is not known"
        )
        return Finding(reference, "warning", text, "crossclaw onboard asks it one question.")
    if found.id != model:
        text = f"the service lists only {found.id}; llama.cpp answers to every name, others refuse this one"
        return Finding(reference, "warning", text, f"Name it {provider}/{found.id}.")
    known = f"window {facts.window:,}, answers up to {facts.output or 8_192:,} tokens"
    return Finding(reference, "ok", f"the service takes the key and has the model; {known}")
