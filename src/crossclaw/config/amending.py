"""Amending: turns a config that a person was shown without its secrets and has changed into changes of the
file.

What was not touched is not written, so comments and secrets stay. `(hidden)` means the secret that stands
there; where it cannot be known which one is meant, nothing is guessed.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from crossclaw.config.file import ConfigFile
from crossclaw.config.hiding import HIDDEN, without_secrets
from crossclaw.config.load import Unloadable
from crossclaw.config.positions import has_comments, lines_of
from crossclaw.config.source import dotted, parse
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import ConfigInvalid


class Change(NamedTuple):
    verb: Literal["put", "remove", "append"]
    path: KeyPath
    value: Any = None


class NoSecretThere(ConfigInvalid):
    def __init__(self, path: KeyPath) -> None:
        super().__init__(
            f"{HIDDEN} stands for a secret, and it is not clear which; write the secret itself, "
            'or "${NAME}" and set that variable'
        )
        self.path = path


class Version(NamedTuple):
    """A value twice: as it was shown, and as the file has it."""

    shown: Any
    written: Any

    def child(self, step: str | int) -> "Version":
        return Version(self.shown[step], self.written[step])


def changes(before: Version, sent: Any, path: KeyPath = ()) -> Iterator[Change]:
    if _same(sent, before.shown):
        return
    if isinstance(sent, dict) and isinstance(before.shown, dict):
        yield from _changes_in_object(before, sent, path)
    elif isinstance(sent, list) and isinstance(before.shown, list):
        yield from _changes_in_list(before, sent, path)
    else:
        yield Change("put", path, _fresh(sent, path))


def _changes_in_object(before: Version, sent: dict[str, Any], path: KeyPath) -> Iterator[Change]:
    for name in before.shown:
        if name not in sent:
            yield Change("remove", (*path, name))
    for name, value in sent.items():
        here = (*path, name)
        if name in before.shown:
            yield from changes(before.child(name), value, here)
        else:
            yield Change("put", here, _fresh(value, here))


def _changes_in_list(before: Version, sent: list[Any], path: KeyPath) -> Iterator[Change]:
    """The changes of a list: item by item while existing ones keep their places; otherwise the list as a whole."""
    twins = [twin(before.shown, sent, index) for index in range(len(sent))]
    known = len(before.shown)
    if twins[:known] == list(range(known)):
        for index in range(known):
            yield from changes(before.child(index), sent[index], (*path, index))
        for index in range(known, len(sent)):
            yield Change("append", path, _fresh(sent[index], (*path, index)))
        return
    whole = [
        _fresh(item, (*path, index))
        if twin is None
        else _recalled(before.child(twin), item, (*path, index))
        for index, (twin, item) in enumerate(zip(twins, sent, strict=True))
    ]
    yield Change("put", path, whole)


def twin(shown: list[Any], sent: list[Any], index: int) -> int | None:
    """The index of the earlier item that this one is: by its id, as it was, or the only one changed."""
    item = sent[index]
    name = _id(item)
    if name is not None:
        named = [place for place, each in enumerate(shown) if _id(each) == name]
        return named[0] if len(named) == 1 else None
    alike = [place for place, each in enumerate(shown) if _same(each, item)]
    if alike:
        keeps_place = index in alike and len(sent) == len(shown)
        return index if keeps_place else alike[0] if len(alike) == 1 else None
    others = [place for place in range(len(shown)) if place != index]
    fixed = len(sent) >= len(shown) and all(_same(shown[n], sent[n]) for n in others)
    return index if fixed and index < len(shown) else None


def _recalled(before: Version, sent: Any, path: KeyPath) -> Any:
    """The value to write: what was sent, with the secrets that were there."""
    if _same(sent, before.shown):
        return before.written
    if isinstance(sent, dict) and isinstance(before.shown, dict):
        return {
            name: _recalled(before.child(name), value, (*path, name))
            if name in before.shown
            else _fresh(value, (*path, name))
            for name, value in sent.items()
        }
    return _fresh(sent, path)


def _fresh(value: Any, path: KeyPath) -> Any:
    if isinstance(value, dict):
        return {name: _fresh(child, (*path, name)) for name, child in value.items()}
    if isinstance(value, list):
        return [_fresh(child, (*path, index)) for index, child in enumerate(value)]
    if value == HIDDEN:
        raise NoSecretThere(path)
    return value


def _id(item: Any) -> Any:
    return item.get("id") if isinstance(item, dict) else None


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same in a file: Python takes 1 for true and 1.0 for 1, a file does not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# ── the text of a person ───────────────────────────────────────────────────────────────────────


class ConfigFault(NamedTuple):
    """A fault in the text that was sent: where, and what would work."""

    line: int
    key: str
    message: str


class Amended(NamedTuple):
    keys: tuple[str, ...]
    """The keys of the places that change."""
    faults: tuple[ConfigFault, ...]
    warnings: tuple[str, ...] = ()


def amend(file: ConfigFile, text: str, *, save: bool) -> Amended:
    """Changes the file as the text says, as a whole or not at all."""
    try:
        sent = parse(text, _SENT)
    except ConfigInvalid as error:
        return Amended((), (_unread(str(error)),))
    if not isinstance(sent, dict):
        return Amended((), (ConfigFault(1, "", "the config is one object: { … }"),))
    try:
        made = list(changes(Version(without_secrets(file.value), file.value), sent))
        for change in made:
            apply_change(file, change)
        loaded = file.save() if save and made else file.check()
    except NoSecretThere as error:
        return Amended((), (_fault(text, error.path, str(error)),))
    except Unloadable as error:
        faults = sorted(_fault(text, path, why) for path, why in error.problems)
        return Amended((), tuple(faults))
    warnings = (*loaded.all_warnings, *((COMMENTS_STAY_OUT,) if has_comments(text) else ()))
    return Amended(tuple(dict.fromkeys(dotted(each.path) for each in made)), (), warnings)


COMMENTS_STAY_OUT = (
    "comments of this text are not written, and those in the file stay; "
    "write a comment into the file itself"
)
_SENT = Path("text")  # its name in the parser's words


def _unread(why: str) -> ConfigFault:
    named = re.match(rf"{_SENT}:(\d+)(?::\d+)?: (.*)", why, re.DOTALL)
    return ConfigFault(int(named[1]), "", named[2]) if named else ConfigFault(1, "", why)


def _fault(text: str, path: KeyPath, why: str) -> ConfigFault:
    lines, here = lines_of(text), path
    while here and here not in lines:
        here = here[:-1]
    return ConfigFault(lines.get(here, 1), dotted(path), why)


def apply_change(file: ConfigFile, change: Change) -> None:
    match change.verb:
        case "put":
            file.put(change.path, change.value)
        case "remove":
            file.remove(change.path)
        case "append":
            file.insert(change.path, change.value)
