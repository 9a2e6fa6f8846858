"""Source: the files of a config, merged, and the place of each key.

`$include` names one file or several, relative to the file that says it. They are merged in order, objects
deeply, lists end to end; what stands beside `$include` comes last and wins.
"""

import os
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from crossclaw.config.positions import keys_twice, lines_of
from crossclaw.config.syntax_errors import NESTING_MAX, NestedTooDeeply, NotJson5, parse_json5
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import ConfigInvalid

INCLUDE = "$include"
OLD, DEFAULTS = "agent", ("agents", "defaults")
"""The old name `agent: {…}` of an early OpenClaw for what is `agents.defaults` today; the new one goes before it."""
INCLUDE_DEPTH_MAX = 10  # as OpenClaw: deeper is a mistake, not an order


class SourcePosition(NamedTuple):
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class LocatedValue(NamedTuple):
    """A value and where its pieces stand; no spots as long as nobody asks for them."""

    value: Any
    spots: dict[KeyPath, SourcePosition]


class _Step(NamedTuple):
    """One file on the way of includes, and how deep in the config it was put."""

    file: Path
    depth: int


_Chain = tuple[_Step, ...]


class Source:
    """All files of one config. Each is read from disk once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._texts: dict[Path, str] = {}
        self._spots: Mapping[KeyPath, SourcePosition] | None = None
        read = self._object(_Reader(self._texts, locate=False).read(path))
        self._has_old_agent = _is_old_agent(read.get(OLD))
        self.value: dict[str, Any] = with_new_names(read)

    def keep_only(self, *names: str) -> None:
        """The other sections count as not written."""
        self.value = {name: self.value[name] for name in names if name in self.value}

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._texts)

    def spot(self, path: KeyPath) -> SourcePosition:
        """The place of a key, or of the nearest thing around it."""
        if self._spots is None:
            self._spots = _Reader(self._texts, locate=True).read(self.path).spots
        old = (OLD, *path[2:]) if self._has_old_agent and path[:2] == DEFAULTS else path
        while path and path not in self._spots and old not in self._spots:
            path, old = path[:-1], old[:-1]
        return self._spots.get(path) or self._spots.get(old, SourcePosition(self.path, 1))

    def old_names(self) -> list[KeyPath]:
        """Keys that stand under the name that an early OpenClaw gave them."""
        return [(OLD,)] if self._has_old_agent else []

    def twice(self) -> list[KeyPath]:
        """Keys that one file has twice in the same place, as they stand in it."""
        return [path for text in self._texts.values() for path in keys_twice(text)]

    def at(self, path: KeyPath) -> Any:
        """The value as it was written, before variables were put in."""
        return reduce(child_of, path, self.value)

    def _object(self, part: LocatedValue) -> dict[str, Any]:
        if isinstance(part.value, dict):
            return part.value
        raise ConfigInvalid(f"{self.path} must hold one object: {{ … }}")


def with_new_names(value: dict[str, Any]) -> dict[str, Any]:
    """The config with old names replaced by those that are read."""
    return _without_old_agent(value) if _is_old_agent(value.get(OLD)) else value


def _is_old_agent(value: Any) -> bool:
    """Whether a section `agent` is the old one. With keys that belong into `agents` it is that word, misspelt."""
    return (
        isinstance(value, dict)
        and bool(value)
        and not value.keys() & {"list", "entries", "defaults"}
    )


def _without_old_agent(value: dict[str, Any]) -> dict[str, Any]:
    agents = value.get("agents", {})
    if not isinstance(agents, dict):
        return value
    defaults = deep_merge(value[OLD], agents.get("defaults", {}), joins_lists=False)
    rest = {name: child for name, child in value.items() if name != OLD}
    return rest | {"agents": agents | {"defaults": defaults}}


class _Reader:
    def __init__(self, texts: dict[Path, str], *, locate: bool) -> None:
        self._texts = texts
        self._locate = locate
        self._lines: dict[Path, dict[KeyPath, int]] = {}

    def read(self, file: Path, chain: _Chain = (), depth: int = 0) -> LocatedValue:
        value = parse(self._text(file), file)
        if self._locate:
            self._lines[file] = lines_of(self._texts[file])
        elif INCLUDE not in self._texts[file]:
            return LocatedValue(value, {})
        return self._resolve(value, (), (*chain, _Step(file, depth)))

    def _text(self, file: Path) -> str:
        if file not in self._texts:
            self._texts[file] = read_text(file)
        return self._texts[file]

    def _resolve(self, value: Any, here: KeyPath, chain: _Chain) -> LocatedValue:
        if isinstance(value, dict):
            own = self._resolve_object(value, here, chain)
            return self._included(value[INCLUDE], own, here, chain) if INCLUDE in value else own
        if isinstance(value, list):
            items = [self._resolve(v, (*here, i), chain) for i, v in enumerate(value)]
            spots = self._under(enumerate(items), here, chain)
            return LocatedValue([item.value for item in items], spots)
        return LocatedValue(value, self._under((), here, chain))

    def _resolve_object(self, value: dict[str, Any], here: KeyPath, chain: _Chain) -> LocatedValue:
        children = {
            key: self._resolve(child, (*here, key), chain)
            for key, child in value.items()
            if key != INCLUDE
        }
        spots = self._under(children.items(), here, chain)
        return LocatedValue({key: child.value for key, child in children.items()}, spots)

    def _under(
        self, children: Iterable[tuple[str | int, LocatedValue]], here: KeyPath, chain: _Chain
    ) -> dict[KeyPath, SourcePosition]:
        if not self._locate:
            return {}
        file = chain[-1].file
        spots: dict[KeyPath, SourcePosition] = {
            (): SourcePosition(file, self._lines[file].get(here, 1))
        }
        for step, child in children:
            spots |= {(step, *path): spot for path, spot in child.spots.items()}
        return spots

    def _included(
        self, names: Any, own: LocatedValue, here: KeyPath, chain: _Chain
    ) -> LocatedValue:
        files = [names] if isinstance(names, str) else names
        if not (isinstance(files, list) and files and all(isinstance(f, str) for f in files)):
            raise self._refused(here, chain, "needs the name of a file, or a list of names")
        merged = reduce(merge_parts, [self._include(name, here, chain) for name in files])
        if not own.value:
            return merged
        if not isinstance(merged.value, dict):
            raise self._refused(
                here, chain, "has other keys beside it, so the file must hold an object"
            )
        return merge_parts(merged, own)

    def _include(self, name: str, here: KeyPath, chain: _Chain) -> LocatedValue:
        file = self._path(name, here, chain)
        depth = chain[-1].depth + len(here)
        if file in [step.file.resolve() for step in chain]:
            circle = " → ".join(str(earlier) for earlier in (*(s.file for s in chain), file))
            raise self._refused(here, chain, f"goes in a circle: {circle}")
        if len(chain) > INCLUDE_DEPTH_MAX:
            raise self._refused(here, chain, f"is nested deeper than {INCLUDE_DEPTH_MAX} files")
        if depth > NESTING_MAX:
            raise self._refused(here, chain, f"lies deeper than {NESTING_MAX} levels")
        if not os.path.isfile(file):  # unlike Path's, it never raises
            raise self._refused(here, chain, f'names "{name}", but there is no file {file}')
        return self.read(file, chain, depth)

    def _path(self, name: str, here: KeyPath, chain: _Chain) -> Path:
        try:
            return (chain[-1].file.parent / name).resolve()
        except (ValueError, RuntimeError, OSError):  # a NUL byte, a circle of links, too long
            raise self._refused(here, chain, f"names {name!r}, which cannot be a file") from None

    def _refused(self, here: KeyPath, chain: _Chain, what: str) -> ConfigInvalid:
        file = chain[-1].file
        line = lines_of(self._texts[file]).get((*here, INCLUDE), 1)
        return ConfigInvalid(f"{SourcePosition(file, line)}: {dotted((*here, INCLUDE))} {what}")


def deep_merge(base: Any, over: Any, *, joins_lists: bool = True) -> Any:
    """Merges objects deeply, and lists, if so wanted, end to end; of anything else `over` wins."""
    if isinstance(base, dict) and isinstance(over, dict):
        both = {
            key: deep_merge(base[key], over[key], joins_lists=joins_lists)
            for key in base.keys() & over.keys()
        }
        return base | over | both
    if joins_lists and isinstance(base, list) and isinstance(over, list):
        return base + over
    return over


def merge_parts(base: LocatedValue, over: LocatedValue) -> LocatedValue:
    moved = {_moved(path, base.value, over.value): spot for path, spot in over.spots.items()}
    return LocatedValue(deep_merge(base.value, over.value), base.spots | moved)


def _moved(path: KeyPath, base: Any, over: Any) -> KeyPath:
    """A path of `over` after the merge: a list's items move behind those of `base`."""
    steps: list[str | int] = []
    for step in path:
        joined = isinstance(base, list) and isinstance(over, list) and isinstance(step, int)
        steps.append(len(base) + step if joined else step)  # type: ignore[operator]
        base = None if joined else child_of(base, step)
        over = child_of(over, step)
    return tuple(steps)


def child_of(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def dotted(path: KeyPath) -> str:
    """The path as text: `agents.list[0].id`; a name with dots in it is put in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (f'"{step}"' if "." in step or not step else step)
    return text


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{file} is not UTF-8 text: byte {error.start} is wrong") from None
    except OSError as error:
        raise ConfigInvalid(f"{file} cannot be read: {error.strerror}") from None


def parse(text: str, file: Path) -> Any:
    try:
        return parse_json5(text)
    except NestedTooDeeply:
        raise ConfigInvalid(f"{file} is nested deeper than {NESTING_MAX} levels") from None
    except NotJson5 as error:
        raise _explained(text, file, error) from None


def _explained(text: str, file: Path, error: NotJson5) -> ConfigInvalid:
    if not text.strip():
        return ConfigInvalid(f"{file} is empty; write {{}} into it or remove it")
    place = f"{file}:{error.line}:{error.column}"
    explained = ConfigInvalid(f"{place}: this is not JSON5: {error.why}")
    explained.excerpt = error.excerpt
    return explained
