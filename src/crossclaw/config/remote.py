"""Rules for changing a config over the wire, and what only its local file may set.

Whoever may change the config from a distance decides rules, models and agents. What reaches into the machine or
to a secret (programs, paths, variables, included files, the addresses it listens at) is written by somebody who
can open the file: a stolen token must not become a program or a password.
"""

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from crossclaw.config.check import inside_of, kinds_of, members_of, shape_of
from crossclaw.config.manifests import find
from crossclaw.config.section import Loose, Secrets, Section
from crossclaw.config.source import INCLUDE
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.secret import Secret

ONLY_LOCAL = (
    "this can be set only in the file itself, not over the wire: edit it on the gateway's machine"
)
NEW_VARIABLE = (
    "a variable of the environment can be named only in the file itself, not over the wire"
)
NEW_SECRET = (
    "a secret that is kept elsewhere can be named only in the file itself, not over the wire"
)

_VARIABLE = re.compile(r"(?<!\$)\$\{[A-Z_][A-Z0-9_]*\}")
CHANNELS, ACCOUNTS = "channels", "accounts"
_ADDRESSES = ("baseUrl", "url")
"""Keys of the addresses to which a section's secrets are sent."""

Fault = tuple[KeyPath, str]


def local_only(kind: Any, before: Any, after: Any, path: KeyPath = ()) -> Iterator[Fault]:
    """The differences that may not be made over the wire."""
    if after == before:
        return
    inside = inside_of(kind, shape_of(after))
    if isinstance(inside, type) and issubclass(inside, Section):
        yield from _in_section(inside, before if isinstance(before, dict) else {}, after, path)
    elif inside is not None:
        item = get_args(inside)[-1 if isinstance(after, dict) else 0]
        for step, old, new in _pairs(before, after):
            yield from local_only(item, old, new, (*path, step))
    else:
        yield from _references(kind, before, after, path)


def local_in_channels(before: Any, after: Any) -> Iterator[Fault]:
    """The differences between settings of chat accounts that may not be made over the wire. Their types are known
    only to the channel's manifest. An account that is removed loses what is local to it: its replacement is checked as new."""
    old, new = _channels(before), _channels(after)
    for name, section in new.items():
        if section == old.get(name) or not isinstance(section, dict):
            continue
        if (manifest := find(name)) is None:
            continue
        path, was = (CHANNELS, name), old.get(name)
        yield from local_only(
            manifest.settings, _shared_settings(was), _shared_settings(section), path
        )
        for account, old_one, new_one in _pairs(_accounts(was), _accounts(section)):
            here = (*path, ACCOUNTS, account)
            yield from local_only(manifest.settings, old_one, new_one, here)


def _channels(config: Any) -> dict[str, Any]:
    found = config.get(CHANNELS) if isinstance(config, dict) else None
    return found if isinstance(found, dict) else {}


def _accounts(section: Any) -> dict[str, Any]:
    found = section.get(ACCOUNTS) if isinstance(section, dict) else None
    return found if isinstance(found, dict) else {}


def _shared_settings(section: Any) -> dict[str, Any]:
    """The settings for all accounts of a channel."""
    known = section if isinstance(section, dict) else {}
    return {key: value for key, value in known.items() if key != ACCOUNTS}


def _in_section(
    section: type[Section], before: dict[str, Any], after: dict[str, Any], path: KeyPath
) -> Iterator[Fault]:
    kinds = kinds_of(section)
    for key in before.keys() | after.keys():
        old, new, here = before.get(key), after.get(key), (*path, key)
        if old == new:
            continue
        if key in section.local or (key == INCLUDE and key in after):
            if key == INCLUDE or _in_force(section, key, old) != _in_force(section, key, new):
                yield here, ONLY_LOCAL
        elif key in after:
            yield from local_only(kinds.get(key, object), old, new, here)
        elif _is_section(kinds.get(key, object), old):  # without a section, its settings change too
            yield from local_only(kinds[key], old, {}, here)


def _in_force(section: type[Section], key: str, written: Any) -> Any:
    """The setting's effective value. A form sends back defaults too, where nothing is written."""
    if written is not None or key not in section.__struct_encode_fields__:
        return written
    fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
    default, make = fields[key].default, fields[key].default_factory
    value = make() if make is not msgspec.NODEFAULT else default
    return None if value is msgspec.NODEFAULT else msgspec.json.decode(msgspec.json.encode(value))


def _references(kind: Any, before: Any, after: Any, path: KeyPath) -> Iterator[Fault]:
    """New `${NAME}`, includes, or secrets by reference, in values without a type of their own."""
    if isinstance(after, str) and _VARIABLE.search(after):
        yield path, NEW_VARIABLE
    elif isinstance(after, dict) and Secret in members_of(kind):
        yield path, NEW_SECRET
    elif isinstance(after, dict | list):
        inside = object if Secrets not in members_of(kind) else Secret
        for step, old, new in _pairs(before, after):
            here = (*path, step)
            if step == INCLUDE:
                yield here, ONLY_LOCAL
            elif old != new:
                yield from _references(inside, old, new, here)


def _pairs(before: Any, after: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """Each part of the new value, with its old one. Items of a list are matched by their id."""
    if isinstance(after, dict):
        old = before if isinstance(before, dict) else {}
        yield from ((name, old.get(name), value) for name, value in after.items())
        return
    items = before if isinstance(before, list) else []
    named = {each["id"]: each for each in items if isinstance(each, dict) and "id" in each}
    for index, item in enumerate(after):
        name = item.get("id") if isinstance(item, dict) else None
        by_place = items[index] if index < len(items) else None
        yield index, named.get(name) if name is not None else by_place, item


def stale_secrets(kind: Any, before: Any, after: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Secrets that were given for another address than the one that now stands beside them.

    A key that is taken out from beside an address is stale too: the environment's would go there in its place.
    """
    if after == before or inside_of(kind, shape_of(after)) is None:
        return
    old = before if isinstance(before, dict) else {}
    addresses = [n for n in _ADDRESSES if isinstance(after, dict) and isinstance(after.get(n), str)]
    if _is_section(kind, after) and any(after[name] != old.get(name) for name in addresses):
        known = frozenset(str(value) for _path, value in _secrets_in(kind, old))
        yield from (
            (*path, *place)
            for place, value in _secrets_in(kind, after)
            if value in (None, "") or str(value) in known
        )
        return
    for step, part, was, now in _parts(kind, before, after):
        if addresses and Secret in members_of(part) and was is not None and now is None:
            yield (*path, step)
        else:
            yield from stale_secrets(part, was, now, (*path, step))


def _secrets_in(kind: Any, value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """All secrets of a value with their paths; for a section also those that are missing."""
    kinds = set(members_of(kind))
    if Secret in kinds:
        yield path, value
    elif Secrets in kinds:
        yield from (((*path, name), each) for name, each in (value or {}).items())
    elif Loose in kinds:
        yield from _sealed_in(Loose.of(value or {}), value, path)
    else:
        for step, part, _was, now in _parts(kind, None, value):
            yield from _secrets_in(part, now, (*path, step))


def _sealed_in(sealed: Any, value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Values that are secrets because of their name. Numbers (`max_tokens`) are none."""
    if isinstance(sealed, Secret):
        if isinstance(value, str):
            yield path, value
    elif isinstance(sealed, dict | list):
        for step, part in sealed.items() if isinstance(sealed, dict) else enumerate(sealed):
            yield from _sealed_in(part, value[step], (*path, step))


def _is_section(kind: Any, value: Any) -> bool:
    inside = inside_of(kind, shape_of(value))
    return isinstance(inside, type) and issubclass(inside, Section)


def _parts(kind: Any, before: Any, after: Any) -> Iterator[tuple[str | int, Any, Any, Any]]:
    """Each part of a value with its type, its old and its new value; for a section also what is missing."""
    inside = inside_of(kind, shape_of(after))
    if inside is None:
        return
    if isinstance(inside, type) and issubclass(inside, Section):
        old = before if isinstance(before, dict) else {}
        for name, part in kinds_of(inside).items():
            yield name, part, old.get(name), after.get(name)
        return
    item = get_args(inside)[-1 if isinstance(after, dict) else 0]
    for step, was, now in _pairs(before, after):
        yield step, item, was, now
