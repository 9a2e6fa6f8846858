"""Check: all problems of a config at once, and every key that nobody will read.

msgspec decides whether a config is good, but stops at the first fault and cannot name keys of free maps. So
this walks the types beside the values: always for unknown keys, and for single values when msgspec has refused.
"""

import difflib
from collections.abc import Callable, Iterator
from functools import cache
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from crossclaw.config.section import Loose, Secrets, Section
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.secret import Secret
from crossclaw.domain.texts import with_ellipsis

Hook = Callable[[type, Any], Any]

_ALIKE = 0.8  # difflib's ratio: one wrong letter in five
_FOUND_CHARS_MAX = 60


class Problem(NamedTuple):
    path: KeyPath
    text: str
    shows_found: bool = False
    """Whether to show the value; never for a secret."""
    meant: str | None = None
    """The key that this one was probably meant to be."""


class Note(NamedTuple):
    path: KeyPath
    text: str


class Unread(NamedTuple):
    """A key of OpenClaw that nobody reads here."""

    path: KeyPath


ConfigFinding = Problem | Note


def examine(
    kind: Any, value: Any, path: KeyPath, hook: Hook | None
) -> Iterator[ConfigFinding | Unread]:
    """Finds what is wrong in a value of the config and below it. With a hook, single values are tried as well."""
    inside = inside_of(kind, shape_of(value))
    if inside is None:
        if hook:
            yield from _examine_leaf(kind, value, path, hook)
    elif isinstance(inside, type) and issubclass(inside, Section):
        yield from _examine_section(inside, value, path, hook)
    else:
        item = get_args(inside)[-1 if isinstance(value, dict) else 0]
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, child in steps:
            yield from examine(item, child, (*path, step), hook)


def _examine_section(
    section: type[Section], value: dict[str, Any], path: KeyPath, hook: Hook | None
) -> Iterator[ConfigFinding | Unread]:
    kinds = kinds_of(section)
    for key, child in value.items():
        if key not in kinds:
            if key not in section.quiet:
                yield _unknown(section, key, path)
            continue
        if key in section.idle:
            yield Unread((*path, key))
        if hook or isinstance(child, dict | list):
            yield from examine(kinds[key], child, (*path, key), hook)
    for key in _required(section):
        if key not in value:
            yield Problem(path, f'"{key}" is missing; it must be {expected(kinds[key])}')


def _unknown(section: type[Section], key: str, path: KeyPath) -> ConfigFinding | Unread:
    if key in section.unused:
        return Unread((*path, key))
    meant = near_miss(key, kinds_of(section).keys() | section.unused)
    if meant:
        return Problem((*path, key), f'unknown key; did you mean "{meant}"?', meant=meant)
    return Note((*path, key), "unknown key, ignored")


def is_read(kind: Any, path: KeyPath) -> bool:
    """Whether anybody looks at what stands there."""
    for step in path:
        inside = inside_of(kind, dict if isinstance(step, str) else list)
        if inside is None:
            return True
        if isinstance(inside, type) and issubclass(inside, Section):
            if step not in kinds_of(inside) or step in inside.idle:
                return False
            kind = kinds_of(inside)[str(step)]
        else:
            kind = get_args(inside)[-1 if isinstance(step, str) else 0]
    return True


def near_miss(word: str, known: set[str]) -> str | None:
    """The known word that this one was probably meant to be: another case or spelling with
    dashes, swapped letters, or nearly the same letters."""
    plain = {_plain(name): name for name in sorted(known)}
    wanted = _plain(word)
    if wanted in plain:
        return plain[wanted]
    swapped = [name for text, name in plain.items() if sorted(text) == sorted(wanted)]
    close = difflib.get_close_matches(wanted, plain, n=1, cutoff=_ALIKE)
    return next(iter(swapped + [plain[text] for text in close]), None)


def is_same_word(one: str, other: str) -> bool:
    """Whether they differ in case and dashes only."""
    return _plain(one) == _plain(other)


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _examine_leaf(kind: Any, value: Any, path: KeyPath, hook: Hook) -> Iterator[ConfigFinding]:
    try:
        msgspec.convert(value, kind, dec_hook=hook)
    except msgspec.ValidationError as error:
        if {Secret, Secrets, Loose} & set(members_of(kind)):
            yield Problem(path, str(error))
        else:
            yield Problem(
                path, f"expected {expected(kind)}", shows_found=not _may_hide(kind, value)
            )


def _may_hide(kind: Any, value: Any) -> bool:
    """Whether a value may be a secret: a text in place of a section is often the secret that belongs into it."""
    return isinstance(value, str) and any(
        isinstance(each, type) and issubclass(each, Section) for each in members_of(kind)
    )


@cache
def kinds_of(section: type[Section]) -> dict[str, Any]:
    """The types of a section's keys, by their names in the file. `msgspec.structs.fields` has the same, but
    takes 5 ms for all."""
    kinds: dict[str, Any] = {}
    for base in reversed(section.__mro__):
        kinds |= get_annotations(base)
    names = zip(section.__struct_encode_fields__, section.__struct_fields__, strict=True)
    return {written: kinds[name] for written, name in names}


@cache
def _required(section: type[Section]) -> tuple[str, ...]:
    names = section.__struct_encode_fields__
    return names[: len(names) - len(section.__struct_defaults__)]


@cache
def members_of(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def shape_of(value: Any) -> type | None:
    return dict if isinstance(value, dict) else list if isinstance(value, list) else None


@cache
def inside_of(kind: Any, shape: type | None) -> Any:
    """The member of a type that says what is inside an object or a list; None for a leaf."""
    for member in members_of(kind):
        origin = get_origin(member)
        is_section = origin is None and isinstance(member, type) and issubclass(member, Section)
        if shape is dict and (origin is dict or is_section):
            return member
        if shape is list and origin is tuple:
            return member
    return None


def expected(kind: Any) -> str:
    """The accepted values, in words."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{word}"' for word in get_args(kind))
    if get_origin(kind) is Annotated:
        base, meta = get_args(kind)
        return expected(base) + _range(meta)
    if get_origin(kind) is tuple:
        return f"a list, each item {expected(get_args(kind)[0])}"
    members = [member for member in members_of(kind) if member is not NoneType]
    if members != [kind]:  # a choice, or something that may be left out
        return " or ".join(map(expected, members))
    plain = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    return plain.get(members[0]) or (
        "an object" if members[0] is not Secret else 'text, or { source: "env", id: "NAME" }'
    )


def _range(meta: msgspec.Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    if meta.ge is not None:
        return f" of at least {meta.ge}"
    if meta.gt is not None:
        return f" of more than {meta.gt}"
    return ", not empty" if meta.min_length else ""


def sort_of(value: Any) -> str:
    """The kind of a value, without showing it."""
    match value:
        case None | bool() | dict() | list():
            return found(value)
        case str():
            return "text"
        case _:
            return "a number"


def found(value: Any) -> str:
    """The value in words, and not too many."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return f'"{with_ellipsis(value, _FOUND_CHARS_MAX)}"'
        case _:
            return str(value)
