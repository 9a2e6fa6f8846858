"""The settings of the providers, from the config, the environment and OpenClaw's profiles."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from crossclaw.app.parts import GatewayInputs, Resources
from crossclaw.app.shared_keys import RenewKey
from crossclaw.config import Config, Paths
from crossclaw.config.current import CurrentConfig
from crossclaw.config.profiles import NamedKey, find_profiles
from crossclaw.config.providers import APIS, NEED_KEYS, ProviderEntry
from crossclaw.config.section import Secrets
from crossclaw.domain.models import ModelFacts
from crossclaw.domain.secret import Secret
from crossclaw.providers.options import ModelOptions, WireOptions
from crossclaw.providers.prices import Prices
from crossclaw.providers.registry import Providers, ProviderSettings
from crossclaw.providers.retry import RetryLimits

SharedKeys = Mapping[str, NamedKey]
"""Keys that the gateways on one ledger share; they come before those of this machine."""


def make_providers(
    config: Config, paths: Paths | None, inputs: GatewayInputs, shared: SharedKeys | None = None
) -> Providers:
    profiles = _profiles(config, paths, shared or {})
    entries = {name: ProviderEntry() for name in (*NEED_KEYS, "ollama")}
    entries |= config.models.providers
    settings = {
        name: _settings(name, entry, profiles.get(name, []), config)
        for name, entry in entries.items()
        if entry.api in (None, *APIS)  # the config has warned about others
    }
    return Providers(
        settings,
        config.environment(inputs.environ),
        extra=inputs.providers,
        prices=Prices(config.models),
        listed=config.listed if isinstance(config, CurrentConfig) else None,
        is_configured=config.has_own_window,
    )


def _profiles(config: Config, paths: Paths | None, shared: SharedKeys) -> dict[str, list[NamedKey]]:
    found: dict[str, list[NamedKey]] = {}
    if paths is not None:
        found = find_profiles(paths.state_dir, config.agents.default_id, config.auth.order)
    return found | {name: [key, *found.get(name, [])] for name, key in shared.items()}


def renew_keys(
    providers: Providers, config: Config, paths: Paths, shared: SharedKeys, name: str
) -> None:
    """Puts a key in force that was just stored or removed, for all later calls."""
    profiles = _profiles(config, paths, shared)
    entry = config.models.providers.get(name, ProviderEntry())
    providers.take(_settings(name, entry, profiles.get(name, []), config))


def renewing(resources: Resources) -> RenewKey:
    shared = resources.shared_keys
    found = {} if shared is None else shared.found
    return partial(renew_keys, resources.providers, resources.config, resources.paths, found)


def trial_provider(
    config: Config,
    environ: Mapping[str, str],
    name: str,
    key: Secret | None,
    base_url: str | None,
    api: str | None,
) -> Providers:
    """One provider as configured, for one trial call with this key and no other. A custom address
    gets only the key that is given with it."""
    entry = config.models.providers.get(name, ProviderEntry())
    if base_url is not None:
        entry = msgspec.structs.replace(ProviderEntry(), base_url=base_url, api=api)
    settings = msgspec.structs.replace(
        _settings(name, entry, [], config), api_key=key.reveal() if key else "", more_keys=()
    )
    return Providers(
        {name: settings}, config.environment(environ), patience=RetryLimits(attempts_max=1)
    )


def _settings(
    name: str, entry: ProviderEntry, profiles: list[NamedKey], config: Config
) -> ProviderSettings:
    listed = [(f"apiKeys, no. {n}", key.reveal()) for n, key in enumerate(entry.api_keys, 1)]
    own = entry.api_key.reveal() if entry.api_key is not None else None
    kept = [each for each in profiles if _may_use(each, entry.base_url, own)]
    if own == "" and kept:
        own, kept = kept[0].key.reveal(), kept[1:]
    more = [*listed, *((each.label, each.key.reveal()) for each in kept)]
    written = {
        "name": name,
        "api": entry.api,
        "base_url": entry.base_url,
        "api_key": own,
        "calls_max": entry.max_concurrent,
        "more_keys": more,
        "silence_s": entry.silence_seconds,
        "model_apis": {each.id: each.api for each in entry.models if each.api in APIS},
    }
    settings = msgspec.convert(written, ProviderSettings)
    return msgspec.structs.replace(settings, options=_options(name, entry, config))


def _may_use(kept: NamedKey, base_url: str | None, own: str | None) -> bool:
    """Whether a stored key may be used. A key in the config is meant alone. Where it was taken out,
    as a new address set over the wire does, only a key that was given for this very address may go
    there."""
    if own:
        return False
    return kept.base_url == base_url if kept.base_url is not None else own is None


def _options(name: str, entry: ProviderEntry, config: Config) -> WireOptions:
    return WireOptions(
        ModelOptions(_headers(entry.headers), _plain(entry.params), _plain(entry.compat)),
        {
            model.id: ModelOptions(
                _headers(model.headers), _plain(model.params), _plain(model.compat)
            )
            for model in entry.models
        },
        entry.timeout_seconds,
        _facts_of(name, config),
    )


def _facts_of(name: str, config: Config) -> Callable[[str], ModelFacts]:
    return lambda model: config.facts_for(f"{name}/{model}")


def _headers(written: Secrets) -> dict[str, str]:
    return {name: secret.reveal() for name, secret in written.items()}


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """The section with its secrets revealed: loose sections wrap what looks like a secret, but a
    request needs it as it was written."""
    return {name: _revealed(part) for name, part in value.items()}


def _revealed(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return _plain(value)
    return [_revealed(part) for part in value] if isinstance(value, list) else value
