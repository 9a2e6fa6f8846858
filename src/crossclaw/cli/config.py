"""`config`: reads, changes and checks the file, on this machine and without a gateway."""

import json
from collections.abc import Iterator
from typing import Any

from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, json_option, no_arguments
from crossclaw.cli.one_file import PATCH, hold_to_all, this_file_option
from crossclaw.cli.place import StateLocation, find_place, find_place_anyhow, find_unread_place
from crossclaw.cli.say import cleaned, note, out, out_json
from crossclaw.cli.tables import table
from crossclaw.client.finding import served_port
from crossclaw.config.check import near_miss
from crossclaw.config.file import ConfigFile
from crossclaw.config.load import NO_EFFECT
from crossclaw.config.no_effect import lines_for_people
from crossclaw.config.source import Source, dotted
from crossclaw.config.syntax_errors import NotJson5, parse_json5
from crossclaw.domain.aliases import KeyPath

_KEY = "dotted, as agents.defaults.model or agents.list[0].name"


def _get_arguments(parser: Parser) -> None:
    parser.add_argument("key", nargs="?", help=f"{_KEY}; without it, everything in force")
    json_option(parser)


def _get(arguments: Arguments) -> int:
    place = find_place()
    value: Any = place.config.redacted()
    path = parse_key(arguments.key) if arguments.key else ()
    for depth, step in enumerate(path):
        value = _child(value, step, path[:depth])
    if arguments.json:
        out_json(value)
    elif isinstance(value, dict | list | tuple) and value:
        _tell(place, list(_leaves(value, path)))
    else:
        out(_plain(value))
    return Exit.OK


def _tell(place: StateLocation, leaves: list[tuple[KeyPath, Any]]) -> None:
    """Shows a line a setting, with its place."""
    source = Source(place.loaded.path) if place.loaded.exists else None
    lines_for_people = [(path, value) for path, value in leaves if value not in (None, {}, [], ())]
    rows = [
        (dotted(path), _plain(value), _said_where(source, path)) for path, value in lines_for_people
    ]
    out(table(("setting", "value", "said in"), rows) if rows else "nothing is set here")
    if unset := len(leaves) - len(lines_for_people):
        note(f"{unset} more can be set here; --json names them")


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not isinstance(value, dict | list | tuple) or not value:
        yield path, value
        return
    for step, child in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(child, (*path, step))


def _said_where(source: Source | None, path: KeyPath) -> str:
    if source is None or source.at(path) is None:
        return "default"
    spot = source.spot(path)
    return f"{spot.file.name}:{spot.line}"


def _plain(value: Any) -> str:
    return cleaned(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _child(value: Any, step: str | int, before: KeyPath) -> Any:
    name = dotted((*before, step))
    if isinstance(value, dict):
        if step in value:
            return value[step]
        meant = near_miss(str(step), set(value))
        more = f"; did you mean {dotted((*before, meant))}?" if meant else ""
        raise CommandFailed(f"nothing is set at {name}{more}")
    if isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
        return value[step]
    raise CommandFailed(f"nothing is set at {name}")


def parse_key(text: str) -> KeyPath:
    """The steps of a key: `a.b[0]."c.d"`; brackets and dots are the same for a number."""
    steps: list[str | int] = []
    for part in text.replace("[", ".").replace("]", "").split("."):
        if not part:
            raise UsageError(f"{text!r} is no key", hint=f"A key is {_KEY}.")
        steps.append(int(part) if part.isdecimal() else part.strip("\"'"))
    return tuple(steps)


def _set_arguments(parser: Parser) -> None:
    parser.add_argument("key", help=_KEY)
    parser.add_argument("value", help="JSON5, or plain text")
    this_file_option(parser)


def _set(arguments: Arguments) -> int:
    place = find_place_anyhow()
    file = ConfigFile(place.paths.config_path, place.environ)
    path, before = parse_key(arguments.key), file.value
    file.put(path, parse_value(arguments.value))
    if not arguments.this_file:
        hold_to_all(place, before, file, PATCH)
    return _saved(place, file, path, f"{dotted(path)} is set in {file.path}")


def _saved(place: StateLocation, file: ConfigFile, path: KeyPath, lines_for_people: str) -> int:
    left = file.save_no_worse(path)
    out(lines_for_people)
    if left:
        shown = "\n".join(f"  {cleaned(line)}" for line in left)
        note(f"the file still does not load; to fix, with crossclaw config set or unset:\n{shown}")
        return Exit.OK
    now, before = find_place().loaded, place.loaded
    more = [each for each in now.no_effect if each not in before.no_effect]
    for text in [*now.warnings, *(f"{each} (no effect here)" for each in more)]:
        if text not in before.warnings:
            note(f"warning: {text}")
    if served_port(place):
        note(place.when_a_change_counts)
    return Exit.OK


def _unset_arguments(parser: Parser) -> None:
    parser.add_argument("key", help=_KEY)
    this_file_option(parser)


def _unset(arguments: Arguments) -> int:
    place = find_place_anyhow()
    file = ConfigFile(place.paths.config_path, place.environ)
    path, before = parse_key(arguments.key), file.value
    if not file.has(path):
        raise _not_there(place, file, path)
    file.remove(path)
    if not arguments.this_file:
        hold_to_all(place, before, file, PATCH)
    return _saved(place, file, path, f"{dotted(path)} is no longer in {file.path}")


def _not_there(place: StateLocation, file: ConfigFile, path: KeyPath) -> CommandFailed:
    source = Source(place.paths.config_path) if place.loaded.exists else None
    if source and source.at(path) is not None:
        return CommandFailed(
            f"{dotted(path)} is not in {file.path}: an included file says it",
            hint=f"Take it out there: {source.spot(path)}",
        )
    found: Any = file.value
    for depth, step in enumerate(path):
        try:
            found = _child(found, step, path[:depth])
        except CommandFailed as failed:
            return CommandFailed(
                f"{failed} in {file.path}" if "did you mean" not in str(failed) else str(failed),
                hint="What config get shows beyond the file is a default, and stays.",
            )
    return CommandFailed(f"nothing is set at {dotted(path)}")


def parse_value(text: str) -> Any:
    """The value of a text that is JSON5; anything else is the text itself, as people type it."""
    try:
        return parse_json5(text)
    except NotJson5:
        return text


def _path(arguments: Arguments) -> int:
    out(str(find_unread_place().paths.config_path))  # it may be broken, and looked for to be fixed
    return Exit.OK


def _check(arguments: Arguments) -> int:
    place = find_place(to_serve=True)  # raises, with file and line, when the file is not good
    if not place.loaded.exists:
        out(f"there is no {place.loaded.path}; everything is at its default")
        return Exit.OK
    for line in located_warnings(place):
        out(f"warning: {line}")
    if listed := lines_for_people(place.loaded.no_effect):
        out("\n  ".join([NO_EFFECT, *listed]))
    out(f"{place.loaded.path} is good")
    return Exit.OK


def located_warnings(place: StateLocation) -> list[str]:
    """The warnings with the file and line of the key that each is about."""
    if not place.loaded.warnings:
        return []
    source = Source(place.loaded.path)
    paths = {dotted(path): path for path in _paths(source.value)}
    return [
        f"{source.spot(paths.get(text.split(': ', 1)[0], ()))}: {text}"
        for text in place.loaded.warnings
    ]


def _paths(value: Any, before: KeyPath = ()) -> list[KeyPath]:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[KeyPath] = []
    for step, child in steps:
        found.append((*before, step))
        if isinstance(child, dict | list):
            found += _paths(child, (*before, step))
    return found


COMMANDS = {
    "get": CommandSpec(_get_arguments, _get),
    "set": CommandSpec(_set_arguments, _set),
    "unset": CommandSpec(_unset_arguments, _unset),
    "path": CommandSpec(no_arguments, _path),
    "check": CommandSpec(no_arguments, _check),
}
