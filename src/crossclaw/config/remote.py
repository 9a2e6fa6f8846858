"""What a config may be told over the wire, and what only its local file says.

Whoever may change the config from a distance decides rules, models and agents. What reaches into the machine or to a
secret (programs, paths, variables, included files, the addresses it listens at) is written by somebody who can open
the file: a stolen token must not become a program or a password.
"""

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from crossclaw.config.check import inside_of, kinds_of, members_of, shape_of
from crossclaw.config.positions import KeyPath
from crossclaw.config.section import Secrets, Section
from crossclaw.config.source import INCLUDE
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
_ADDRESSES = ("baseUrl", "url")
"""Where a section's secrets are sent."""

Fault = tuple[KeyPath, str]


def local_only(kind: Any, before: Any, after: Any, path: KeyPath = ()) -> Iterator[Fault]:
    """What differs and is not to be changed over the wire."""
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


def _in_force(section: type[Section], key: str, written: Any) -> Any:
    """What a setting means. A form sends back what holds anyway, also where it is not written."""
    if written is not None or key not in section.__struct_encode_fields__:
        return written
    fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
    default, make = fields[key].default, fields[key].default_factory
    value = make() if make is not msgspec.NODEFAULT else default
    return None if value is msgspec.NODEFAULT else msgspec.json.decode(msgspec.json.encode(value))


def _references(kind: Any, before: Any, after: Any, path: KeyPath) -> Iterator[Fault]:
    """`${NAME}`, an include, or a secret by reference, in what has no type of its own."""
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
    """Each part of what is there now, with what it was. Items of a list are known by their id."""
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
    """Secrets that were given for another address than the one that now stands beside them."""
    if after == before or inside_of(kind, shape_of(after)) is None:
        return
    old = before if isinstance(before, dict) else {}
    moved = isinstance(after, dict) and any(
        isinstance(after.get(name), str) and after[name] != old.get(name) for name in _ADDRESSES
    )
    for step, part, was, now in _parts(kind, before, after):
        if moved and _is_section(kind, after):
            yield from _unchanged_secrets(part, was, now, (*path, step))
        else:
            yield from stale_secrets(part, was, now, (*path, step))


def _unchanged_secrets(kind: Any, before: Any, after: Any, path: KeyPath) -> Iterator[KeyPath]:
    """A key that is missing is stale too: the environment may have one."""
    kinds = set(members_of(kind))
    if Secret in kinds:
        if after in (None, "") or after == before:
            yield path
    elif Secrets in kinds:
        kept = before if isinstance(before, dict) else {}
        yield from ((*path, n) for n, v in (after or {}).items() if kept.get(n) == v)
    else:
        for step, part, was, now in _parts(kind, before, after):
            yield from _unchanged_secrets(part, was, now, (*path, step))


def _is_section(kind: Any, value: Any) -> bool:
    inside = inside_of(kind, shape_of(value))
    return isinstance(inside, type) and issubclass(inside, Section)


def _parts(kind: Any, before: Any, after: Any) -> Iterator[tuple[str | int, Any, Any, Any]]:
    """Each part of a value with its type, as it was and as it is; of a section also what is missing."""
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
