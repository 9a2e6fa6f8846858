"""`config`: the file read, changed and checked, on this machine and without a gateway."""

from typing import Any

import pyjson5

from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.finding import served_port
from crossclaw.cli.grammar import Arguments, Command, Parser, json_option, no_arguments
from crossclaw.cli.place import Place, find_place, find_unread_place
from crossclaw.cli.say import note, out, out_json
from crossclaw.config.check import near_miss
from crossclaw.config.file import ConfigFile
from crossclaw.config.positions import KeyPath
from crossclaw.config.source import Source, dotted
from crossclaw.config.supported import refuse_unsupported

_KEY = "dotted, as agents.defaults.model or agents.list[0].name"


def _get_arguments(parser: Parser) -> None:
    parser.add_argument("key", nargs="?", help=f"{_KEY}; without it, everything in force")
    json_option(parser)


def _get(arguments: Arguments) -> int:
    value: Any = find_place().config.redacted()
    path = parse_key(arguments.key) if arguments.key else ()
    for depth, step in enumerate(path):
        value = _child(value, step, path[:depth])
    plain = isinstance(value, str) and not arguments.json
    out(value) if plain else out_json(value)
    return Exit.OK


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
    """`a.b[0]."c.d"` → the steps; brackets and dots are the same for a number."""
    steps: list[str | int] = []
    for part in text.replace("[", ".").replace("]", "").split("."):
        if not part:
            raise UsageError(f"{text!r} is no key", hint=f"A key is {_KEY}.")
        steps.append(int(part) if part.isdecimal() else part.strip("\"'"))
    return tuple(steps)


def _set_arguments(parser: Parser) -> None:
    parser.add_argument("key", help=_KEY)
    parser.add_argument("value", help="JSON5, or plain text")


def _set(arguments: Arguments) -> int:
    place = find_place()
    file = ConfigFile(place.paths.config_path, place.environ)
    path = parse_key(arguments.key)
    file.put(path, parse_value(arguments.value))
    file.save()
    out(f"{dotted(path)} is set in {file.path}")
    if served_port(place):
        note(place.when_a_change_counts)
    return Exit.OK


def parse_value(text: str) -> Any:
    """What reads as JSON5 is that; anything else is the text itself, as people type it."""
    try:
        return pyjson5.decode(text)
    except pyjson5.Json5DecoderException:
        return text


def _path(arguments: Arguments) -> int:
    out(str(find_unread_place().paths.config_path))  # it may be broken, and looked for to be mended
    return Exit.OK


def _check(arguments: Arguments) -> int:
    place = find_place()  # raises, with file and line, when the file is not good
    if not place.loaded.exists:
        out(f"there is no {place.loaded.path}; everything is at its default")
        return Exit.OK
    refuse_unsupported(place.config)
    for line in located_warnings(place):
        out(f"warning: {line}")
    out(f"{place.loaded.path} is good")
    return Exit.OK


def located_warnings(place: Place) -> list[str]:
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
    "get": Command(_get_arguments, _get),
    "set": Command(_set_arguments, _set),
    "path": Command(no_arguments, _path),
    "check": Command(no_arguments, _check),
}
