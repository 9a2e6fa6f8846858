"""`onboard`, the model: which service to ask, with which key, and whether it answers. Keys go to
`credentials/`, never into the config."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import anyio
import msgspec

from crossclaw.cli.asking import ask_choice, ask_secret, ask_text, ask_yes
from crossclaw.cli.exits import CommandFailed, UsageError
from crossclaw.cli.grammar import Arguments
from crossclaw.cli.offers import SERVICES, ServiceOffer, custom, find_local, find_service, ollama_at
from crossclaw.cli.place import StateLocation
from crossclaw.cli.say import note
from crossclaw.cli.trying import TrialResult, list_names, try_model
from crossclaw.config.agents import ModelChoice
from crossclaw.config.file import ConfigFile
from crossclaw.config.named_models import each_agent
from crossclaw.display.languages import tr
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import ProviderError
from crossclaw.domain.secret import Secret

SHOWN_MAX = 12  # of a service's models; OpenRouter has hundreds
KEYS_MAX = 3  # tries at one key, then another service can be chosen

AUTH_CHOICES = {
    "apiKey": "anthropic",
    "anthropic-api-key": "anthropic",
    "openai-api-key": "openai",
    "gemini-api-key": "google",
    "openrouter-api-key": "openrouter",
    "ollama": "ollama",
    "llamacpp": "llamacpp",
    "custom-api-key": "custom",
    "skip": "skip",
}
"""OpenClaw's words for `--auth-choice` that mean something here, beside the providers' own names."""

COMPATIBILITY = {"openai": "openai-completions", "anthropic": "anthropic-messages"}


class ChosenService(NamedTuple):
    offer: ServiceOffer
    model: str
    tried: TrialResult | None
    """The result of the test call; None: it was not made."""

    @property
    def reference(self) -> str:
        return f"{self.offer.provider}/{self.model}"


def choose_by_flags(arguments: Arguments, place: StateLocation) -> ChosenService | None:
    """The service in the options; None if they name none."""
    name = _named(arguments)
    if name is None:
        if arguments.auth_choice is None and (arguments.model or arguments.api_key):
            raise UsageError("whose model or key is it? --auth-choice says it")
        return None
    offer = _with_flags(_flagged_offer(name, arguments, place), arguments, place)
    model = arguments.model or arguments.custom_model_id or _usual(offer, place.environ)
    if model is None:
        raise UsageError(f"which model of {offer.provider}? --model names it")
    tried = None if arguments.skip_health else anyio.run(try_model, offer, model, place.environ)
    if tried is not None and not tried.ok:
        raise CommandFailed(
            tr("{model} does not answer: {why}").format(
                model=f"{offer.provider}/{model}", why=tried.text
            ),
            hint=tr("Nothing was changed. --skip-health leaves the test call out."),
        )
    return ChosenService(offer, model, tried)


def _named(arguments: Arguments) -> str | None:
    """The provider that the options mean: named, or known by whose key is given."""
    if arguments.auth_choice:
        name = AUTH_CHOICES.get(arguments.auth_choice, arguments.auth_choice)
        known = {*AUTH_CHOICES.values(), *(each.provider for each in SERVICES)}
        if name not in known:
            choices = ", ".join(AUTH_CHOICES)
            raise UsageError(f"--auth-choice {name} is not known here; there are {choices}")
        return None if name == "skip" else name
    given = [name for name in KEY_OPTIONS if getattr(arguments, f"{name}_key")]
    if len(given) > 1:
        raise UsageError(f"keys of {' and '.join(given)}: --auth-choice says which one is meant")
    if given:
        return "google" if given[0] == "gemini" else given[0]
    if arguments.custom_base_url:
        return "custom"
    return (arguments.model or "").partition("/")[0] if "/" in (arguments.model or "") else None


KEY_OPTIONS = ("anthropic", "openai", "gemini", "openrouter", "custom")


def _flagged_offer(name: str, arguments: Arguments, place: StateLocation) -> ServiceOffer:
    if name == "custom":
        if not arguments.custom_base_url:
            raise UsageError("--custom-base-url is missing: where is it reached?")
        api = COMPATIBILITY[arguments.custom_compatibility]
        return custom(arguments.custom_base_url, provider=arguments.custom_provider_id, api=api)
    if name == "ollama" and arguments.custom_base_url:
        return ollama_at(arguments.custom_base_url)
    if found := find_service(name):
        return found
    local = {each.provider: each for each in find_local(place.environ)}
    if name in local:
        return local[name]
    entry = place.config.models.providers.get(name)
    if entry is None:
        raise CommandFailed(
            tr("No {name} was found on this machine.").format(name=name),
            hint=tr("Start it first, or say where it is: --custom-base-url"),
        )
    return ServiceOffer(name, name, entry.api, entry.base_url)


def _with_flags(offer: ServiceOffer, arguments: Arguments, place: StateLocation) -> ServiceOffer:
    """The offer with the key of the options. `--secret-input-mode ref` stores none: the variable is read at
    every start."""
    option = "gemini" if offer.provider == "google" else offer.provider
    option = option if option in KEY_OPTIONS else "custom"
    key = getattr(arguments, f"{option}_key", None) or arguments.api_key
    if not key and option == "custom":
        key = place.environ.get("CUSTOM_API_KEY")
    if arguments.model and arguments.model.startswith(f"{offer.provider}/"):
        arguments.model = arguments.model.partition("/")[2]
    if arguments.secret_input_mode == "ref":
        if offer.variable and not place.environ.get(offer.variable):
            raise UsageError(f"--secret-input-mode ref needs {offer.variable} to be set")
        return offer
    if not key and arguments.install_daemon and offer.variable:
        key = place.environ.get(offer.variable)  # a service has no shell to read it from
    return msgspec.structs.replace(offer, key=Secret(key) if key else None)


def _usual(offer: ServiceOffer, environ: Mapping[str, str]) -> str | None:
    return offer.model or next(iter(_listed(offer, environ)), None)


def _listed(offer: ServiceOffer, environ: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return offer.models or anyio.run(list_names, offer, environ)
    except ProviderError:
        return ()


def choose_by_asking(place: StateLocation, current: str) -> ChosenService | None:
    """Asks for a service from the list of what is here; None: all stays as it is."""
    while True:
        offer = _ask_offer(place, current)
        if offer is None:
            return None
        offer = _ask_key(offer, place)
        if offer is None:
            continue
        model = _ask_model(offer, place.environ)
        note(tr("Asking {model} …").format(model=f"{offer.provider}/{model}"))
        tried = anyio.run(try_model, offer, model, place.environ)
        if tried.ok or _keeps(offer, model, tried):
            return ChosenService(offer, model, tried)


def _keeps(offer: ServiceOffer, model: str, tried: TrialResult) -> bool:
    name = f"{offer.provider}/{model}"
    note(tr("{model} does not answer: {why}").format(model=name, why=tried.text))
    return ask_yes(tr("Keep it all the same?"))


def _ask_offer(place: StateLocation, current: str) -> ServiceOffer | None:
    is_real = not current.startswith("rehearsal/")
    rehearsal = tr("no model for now: the scripted rehearsal answers, without a key")
    lines = [tr("keep {model}").format(model=current) if is_real else rehearsal]
    offers: list[ServiceOffer | None] = [None]
    for offer in find_local(place.environ):
        names = ", ".join(offer.models[:4]) or tr("no model installed yet")
        lines.append(tr("{name} on this machine: {models}").format(name=offer.title, models=names))
        offers.append(offer)
    for offer in SERVICES:
        there = offer.variable and place.environ.get(offer.variable)
        known = tr("{name}, with the key in {variable}")
        lines.append(
            known.format(name=offer.title, variable=offer.variable) if there else offer.title
        )
        offers.append(offer)
    lines.append(tr("another service, by its base URL"))
    default = 0 if is_real or len(offers) == 1 else _first_ready(offers, place.environ)
    picked = ask_choice(tr("Number"), lines, default)
    return _ask_custom() if picked == len(offers) else offers[picked]


def _first_ready(offers: list[ServiceOffer | None], environ: Mapping[str, str]) -> int:
    """The first offer that works at once: a server here, or a key that is set; else the rehearsal, which
    needs none."""
    for index, offer in enumerate(offers):
        if offer and (offer.models or (offer.variable and environ.get(offer.variable))):
            return index
    return 0


def _ask_custom() -> ServiceOffer:
    while True:
        url = ask_text(tr("Base URL, for example http://127.0.0.1:1234/v1"))
        if url.startswith(("http://", "https://")):
            return custom(url)
        note(tr("It begins with http:// or https://."))


def _ask_key(offer: ServiceOffer, place: StateLocation) -> ServiceOffer | None:
    """Asks for a key until the service accepts one; None: choose another service."""
    if offer.is_local:
        return offer
    if offer.variable and (found := place.environ.get(offer.variable)):
        question = tr("Keep the key of {variable} in credentials/, so that a service has it too?")
        keeps = ask_yes(question.format(variable=offer.variable), default=True)
        return msgspec.structs.replace(offer, key=Secret(found)) if keeps else offer
    for _ in range(KEYS_MAX):
        key = ask_secret(tr("Key of {name} (it is not shown)").format(name=offer.title))
        if not key and offer.variable:
            return None
        given = msgspec.structs.replace(offer, key=Secret(key) if key else None)
        try:
            names = anyio.run(list_names, given, place.environ)
        except ProviderError as error:
            note(str(error))
            if offer.variable is None and ask_yes(tr("Keep it all the same?")):
                return given  # a server of one's own may have no list
            continue
        return msgspec.structs.replace(given, models=names)
    return None


def _ask_model(offer: ServiceOffer, environ: Mapping[str, str]) -> str:
    names = _listed(offer, environ)
    if len(names) == 1:
        return names[0]
    usual = offer.model if offer.model in names or not names else None
    if names:
        more = f" … ({len(names)})" if len(names) > SHOWN_MAX else ""
        note("  " + ", ".join(names[:SHOWN_MAX]) + more)
    while True:
        model = ask_text(tr("Model"), usual or (names[0] if names else ""))
        if model and (model in names or not names or _is_listed_elsewhere(model, names)):
            return model
        note(tr("The service does not list it."))


def _is_listed_elsewhere(model: str, names: tuple[str, ...]) -> bool:
    """Whether a listed name is nearly the same: a service may take names that it does not list (aliases,
    previews)."""
    return any(each.startswith(model) or model.startswith(each) for each in names)


# ── into the config ────────────────────────────────────────────────────────────────────────────


def put_model(file: ConfigFile, place: StateLocation, chosen: ChosenService) -> None:
    """Writes the provider, if it is not known by itself, and the default agent's model."""
    offer, base = chosen.offer, ("models", "providers", chosen.offer.provider)
    if offer.base_url:
        _put_new(file, (*base, "baseUrl"), offer.base_url)
        if offer.api:
            _put_new(file, (*base, "api"), offer.api)
    _put_listed(file, place, chosen, (*base, "models"))
    _put_new(file, _model_path(place), chosen.reference)


def _put_new(file: ConfigFile, path: KeyPath, value: Any) -> None:
    found: Any = file.value
    for step in path:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            found = None
            break
    if found != value:
        file.put(path, value)


def _put_listed(
    file: ConfigFile, place: StateLocation, chosen: ChosenService, path: KeyPath
) -> None:
    """Adds the model to the provider's list of models. If the config has such a list, no other models can be used;
    if it has none, one is begun only to store the model's window."""
    entry = place.config.models.providers.get(chosen.offer.provider)
    if entry and entry.find_model(chosen.model):
        return
    window = chosen.offer.window
    row = {"id": chosen.model} | ({"contextWindow": window} if window else {})
    if file.has(path):
        file.insert(path, row)
    elif window:
        file.put(path, [row])


def _model_path(place: StateLocation) -> KeyPath:
    """The path of the default agent's own model, if it has one, else of everybody's."""
    config = place.config
    for path, agent in each_agent(config):
        if agent.model is not None and (agent.id or path[-1]) == config.agents.default_id:
            return _within((*path, "model"), agent.model)
    return _within(("agents", "defaults", "model"), config.agents.defaults.model)


def _within(path: KeyPath, model: object) -> KeyPath:
    return (*path, "primary") if isinstance(model, ModelChoice) else path
