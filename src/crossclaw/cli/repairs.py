"""Repairs that `doctor --fix` can make. Each is small, is checked again right before it is done, and touches
only this user's own files; what cannot be undone by hand in a minute is not among them."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from crossclaw.cli.exits import CommandFailed
from crossclaw.cli.one_file import differs_for_all
from crossclaw.client.finding import is_taken, served_port
from crossclaw.client.location import StateLocation
from crossclaw.config.check import is_same_word
from crossclaw.config.file import ConfigFile
from crossclaw.config.load import Unloadable
from crossclaw.config.source import dotted
from crossclaw.disk.private import make_folder
from crossclaw.domain.aliases import Callback, KeyPath
from crossclaw.domain.clock import SystemClock

OTHERS_HAVE_THEIRS = (
    "in this file alone: several gateways share the ledger and have one config; where theirs says another thing, this gateway "
    "takes no runs and names it"
)
DRAFT_S_MIN = 3600  # a younger one may still be written


class Repair(NamedTuple):
    command: str
    """The repair as somebody would type or write it."""
    do: Callback
    """Makes the repair. Raises OSError or CommandFailed if it cannot be done, and has then changed nothing."""
    asks: bool = False
    """Whether it needs a person's consent: it is a guess."""


def close_to_others(path: Path, mode: int) -> Repair:
    def do() -> None:
        # Not through a link, which may lead to a file of somebody else.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            about = os.fstat(descriptor)
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                raise CommandFailed(f"{path} is no file or folder")
            if about.st_uid != os.getuid():
                raise CommandFailed(f"{path} belongs to another user")
            os.fchmod(descriptor, stat.S_IMODE(about.st_mode) & mode)
        finally:
            os.close(descriptor)

    return Repair(f"chmod {mode:o} {path}", do)


def make_missing(path: Path) -> Repair:
    return Repair(f"mkdir -p -m 700 {path}", lambda: make_folder(path))


def forget_port(place: StateLocation) -> Repair:
    path, number = place.paths.port_path, served_port(place)

    def do() -> None:
        if served_port(place) != number or (number and is_taken(number)):
            raise CommandFailed("a gateway has been started meanwhile")
        path.unlink()

    return Repair(f"rm {path}", do)


def is_old_draft(path: Path) -> bool:
    try:
        about = path.lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(about.st_mode) and SystemClock().now_ms() / 1000 - about.st_mtime > DRAFT_S_MIN
    )


def remove_draft(path: Path) -> Repair:
    def do() -> None:
        if not is_old_draft(path):
            raise CommandFailed(f"{path} has changed meanwhile")
        path.unlink()

    return Repair(f"rm {path}", do)


def rename_key(place: StateLocation, path: KeyPath, meant: str) -> Repair | None:
    """Renames a misspelt key; None if it stands in an included file, or the right one is there too."""
    right = (*path[:-1], meant)
    file = ConfigFile(place.paths.config_path, place.environ)
    if not file.has(path) or file.has(right):
        return None

    def do() -> None:
        file = ConfigFile(place.paths.config_path, place.environ)
        if not file.has(path) or file.has(right):
            raise CommandFailed(f"{file.path} has changed meanwhile")
        _rename(file, path, right)
        file.save_no_worse(right)

    text = f"rename {dotted(path)} to {dotted(right)} in {place.paths.config_path}"
    if for_all := _is_common(file, path, right):
        text += f" ({OTHERS_HAVE_THEIRS})"
    return Repair(text, do, asks=for_all or not is_same_word(str(path[-1]), meant))


def _is_common(file: ConfigFile, path: KeyPath, right: KeyPath) -> bool:
    """Whether the file is one of several gateways', and they have this setting in common. The file does not
    load, so it is read as it was written."""
    before, ledger = file.value, file.value.get("ledger")
    if not isinstance(ledger, dict) or ledger.get("shared") is not True:
        return False
    _rename(file, path, right)
    return differs_for_all(before, file.value)


def _rename(file: ConfigFile, path: KeyPath, right: KeyPath) -> None:
    value = file.value
    for step in path:
        value = value[step]
    file.put(right, value)
    file.remove(path)


def renames(place: StateLocation, error: Unloadable) -> list[Repair]:
    found = [rename_key(place, path, meant) for path, meant in error.meant]
    return [repair for repair in found if repair]
