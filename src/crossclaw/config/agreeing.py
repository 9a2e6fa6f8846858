"""What the configs of gateways that share a ledger must have in common: all but what is each machine's own."""

from collections.abc import Iterator, Mapping
from hashlib import blake2s
from typing import Any, get_args

import msgspec

from crossclaw.config.check import inside_of, kinds_of, shape_of
from crossclaw.config.model import Config
from crossclaw.config.section import Loose, Section
from crossclaw.domain.secret import Secret

DIGEST_BYTES = 8


def shared_keys(raw: Mapping[str, Any]) -> dict[str, str]:
    """Each setting as written, variables not put in, as its path and a digest. Without those that are set in the
    local file only (paths, addresses, programs); of a secret, only that there is one."""
    return dict(_settings(Config, Loose.of(raw), ()))


def digest_of(keys: Mapping[str, str]) -> str:
    return _digest(sorted(keys.items()))


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """The settings that are not the same."""
    return sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))


def _settings(kind: Any, value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    inside = inside_of(kind, shape_of(value))
    section = inside if isinstance(inside, type) and issubclass(inside, Section) else None
    if isinstance(value, dict):
        kinds = kinds_of(section) if section is not None else {}
        item = get_args(inside)[-1] if inside is not None and section is None else object
        for key, child in value.items():
            if section is None or key not in section.local:
                yield from _settings(kinds.get(key, item), child, (*path, key))
    elif isinstance(value, list):
        item = get_args(inside)[0] if inside is not None else object
        for number, child in enumerate(value):
            yield from _settings(item, child, (*path, str(number)))
    else:
        yield ".".join(path), "secret" if isinstance(value, Secret) else _digest(value)


def _digest(value: Any) -> str:
    return blake2s(msgspec.json.encode(value), digest_size=DIGEST_BYTES).hexdigest()
