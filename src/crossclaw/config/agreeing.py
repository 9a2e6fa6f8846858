"""The common part of the configs of gateways that share a ledger: all but what is each machine's own.

`shared_value` is the common part of a config, as it travels from gateway to gateway: without settings of the
local file only (paths, addresses, programs), without keys that nobody reads, and with a mark in place of each
secret. `with_own` puts the common part of another gateway together with what is this machine's own.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from hashlib import blake2s
from types import NoneType
from typing import Any, get_args

import msgspec

from crossclaw.config.channels import ChannelSettings
from crossclaw.config.check import inside_of, kinds_of, members_of, shape_of
from crossclaw.config.hiding import HIDDEN
from crossclaw.config.manifests import find
from crossclaw.config.model import Config, without_credentials
from crossclaw.config.remote import ACCOUNTS, CHANNELS
from crossclaw.config.section import Loose, Secrets, Section
from crossclaw.config.source import child_of
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.secret import Secret

DIGEST_BYTES = 8
OWN: frozenset[KeyPath] = frozenset({("gateway", "port"), ("gateway", "remote")})
"""Settings that can be changed over the wire, and are still each machine's own."""


def shared_keys(raw: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the common part as paths and digests; a secret counts only as being there."""
    return dict(_leaves(shared_value(raw), ()))


def digest_of(keys: Mapping[str, str]) -> str:
    return _digest(sorted(keys.items()))


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """The settings that are not the same."""
    return sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, child in steps:
            yield from _leaves(child, (*path, step))
    elif path:
        yield ".".join(map(str, path)), "secret" if value == HIDDEN else _digest(value)


def _digest(value: Any) -> str:
    return blake2s(msgspec.json.encode(value), digest_size=DIGEST_BYTES).hexdigest()


# ── the common part ────────────────────────────────────────────────────────────────────────────


def shared_value(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The common part of a config as written, variables not put in."""
    found: dict[str, Any] = _shared(Config, dict(raw), ())
    return found


def secret_places(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The places of secrets in a common part."""
    if value == HIDDEN:
        yield path
    elif isinstance(value, dict | list):
        for step, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from secret_places(child, (*path, step))


def value_at(value: Any, path: KeyPath) -> Any:
    return reduce(child_of, path, value)


def _shared(kind: Any, value: Any, path: KeyPath) -> Any:
    if path == (CHANNELS,) and isinstance(value, dict):
        return {name: _shared_channel(name, section) for name, section in value.items()}
    kinds = set(members_of(kind))
    inside = inside_of(kind, shape_of(value))
    section = _section(inside)
    if section is not None:
        return _shared_section(section, value, path)
    if value in (None, ""):
        return value
    if Secret in kinds:
        return HIDDEN
    if Secrets in kinds and isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    if Loose in kinds and isinstance(value, dict):
        return _loose(value)
    if inside is not None and isinstance(value, dict):
        item = get_args(inside)[-1]
        return {key: _shared(item, child, (*path, key)) for key, child in value.items()}
    if inside is not None:
        item = get_args(inside)[0]
        return [_shared(item, child, (*path, number)) for number, child in enumerate(value)]
    return HIDDEN if without_credentials(value) != value else value


def _shared_section(section: type[Section], value: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    kinds, found = kinds_of(section), dict[str, Any]()
    for key, child in value.items():
        if _is_own(section, key, path):
            continue
        shared = _shared(kinds[key], child, (*path, key))
        may_lack = NoneType in members_of(kinds[key])
        if shared != {} or (child == {} and may_lack):  # else it says nothing, or only our own
            found[key] = shared
    return found


def _is_own(section: type[Section], key: str, path: KeyPath) -> bool:
    return key in section.local or key not in kinds_of(section) or (*path, key) in OWN


def _shared_channel(name: str, section: Any) -> Any:
    """The common part of a chat account, whose settings have a type only by the channel's own description."""
    if not isinstance(section, dict):
        return section
    local = _local_of(name)
    found = {key: child for key, child in _loose(section).items() if key not in local}
    if isinstance(accounts := found.get(ACCOUNTS), dict):
        found[ACCOUNTS] = {each: _without(account, local) for each, account in accounts.items()}
    return found


def _local_of(channel: str) -> frozenset[str]:
    manifest = find(channel)
    return manifest.settings.local if manifest is not None else ChannelSettings.local


def _without(value: Any, keys: frozenset[str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: child for key, child in value.items() if key not in keys}


def _loose(value: dict[str, Any]) -> Any:
    return _plain(msgspec.to_builtins(Loose.of(value), enc_hook=lambda _secret: HIDDEN))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    return HIDDEN if without_credentials(value) != value else value


def _section(inside: Any) -> type[Section] | None:
    return inside if isinstance(inside, type) and issubclass(inside, Section) else None


# ── another gateway's common part, and our own ─────────────────────────────────────────────────


class OwnParts:
    """Puts the common part of another gateway's config together with what is this machine's own. `secrets`
    are those that came with it, by their place; all other places keep this machine's own."""

    def __init__(self, raw: Mapping[str, Any], secrets: Mapping[KeyPath, Any]) -> None:
        self._raw, self._secrets = raw, secrets
        self.missing: list[KeyPath] = []
        """Secrets that neither came with it nor are here."""

    def with_own(self, shared: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._filled(Config, shared, self._raw, ())
        return found

    def _filled(self, kind: Any, shared: Any, own: Any, path: KeyPath) -> Any:
        if shared == HIDDEN:
            return self._secret(own, path)
        inside = inside_of(kind, shape_of(shared))
        if (section := _section(inside)) is not None:
            return self._section(section, shared, own if isinstance(own, dict) else {}, path)
        if isinstance(shared, dict):
            item = get_args(inside)[-1] if inside is not None else object
            found = {
                key: self._filled(item, child, child_of(own, key), (*path, key))
                for key, child in shared.items()
            }
            return found | self._own_of_channel(own, path)
        if isinstance(shared, list):
            item = get_args(inside)[0] if inside is not None else object
            return [
                self._filled(item, child, _twin(own, child, number), (*path, number))
                for number, child in enumerate(shared)
            ]
        return shared

    def _section(
        self, section: type[Section], shared: dict[str, Any], own: dict[str, Any], path: KeyPath
    ) -> dict[str, Any]:
        kinds = kinds_of(section)
        found = {
            key: self._filled(kinds.get(key, object), child, own.get(key), (*path, key))
            for key, child in shared.items()
        }
        for key, child in own.items():
            if _is_own(section, key, path):
                found[key] = child
            elif key not in shared and (rest := _own_rest(kinds[key], child, (*path, key))):
                found[key] = rest
        return found

    def _secret(self, own: Any, path: KeyPath) -> Any:
        if path in self._secrets:
            return self._secrets[path]
        if own in (None, ""):
            self.missing.append(path)
        return own

    def _own_of_channel(self, own: Any, path: KeyPath) -> dict[str, Any]:
        is_account = len(path) == 4 and path[2] == ACCOUNTS
        if (
            not isinstance(own, dict)
            or path[:1] != (CHANNELS,)
            or not (len(path) == 2 or is_account)
        ):
            return {}
        local = _local_of(str(path[1]))
        return {key: child for key, child in own.items() if key in local}


def _own_rest(kind: Any, own: Any, path: KeyPath) -> dict[str, Any]:
    """This machine's own settings of a section that the others do not have."""
    section = _section(inside_of(kind, shape_of(own)))
    if section is None:
        return {}
    found = dict[str, Any]()
    for key, child in own.items():
        if _is_own(section, key, path):
            found[key] = child
        elif rest := _own_rest(kinds_of(section)[key], child, (*path, key)):
            found[key] = rest
    return found


def _twin(own: Any, item: Any, number: int) -> Any:
    """The item of our list that this one corresponds to: by its id, else by its place."""
    if not isinstance(own, list):
        return None
    name = item.get("id") if isinstance(item, dict) else None
    if name is None:
        return child_of(own, number)
    return next((each for each in own if isinstance(each, dict) and each.get("id") == name), None)
