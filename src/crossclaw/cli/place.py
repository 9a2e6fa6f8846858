"""The command line's place: config and state folder, found once a command."""

from collections.abc import Callable

from crossclaw.cli.say import note
from crossclaw.client.location import StateLocation, find_place, find_unread_place
from crossclaw.domain.errors import ConfigInvalid

__all__ = [
    "StateLocation",
    "error_text",
    "find_place",
    "find_place_anyhow",
    "find_served_place",
    "find_unread_place",
    "served_places",
]


def find_place_anyhow() -> StateLocation:
    """The place even if the config does not load: for backups and for changes of the config itself."""
    try:
        return find_place()
    except ConfigInvalid:
        return find_unread_place()


def find_served_place(tell: Callable[[str], None] | None = None) -> StateLocation:
    """The place for asking the gateway. A config that does not load does not matter while a gateway runs: it
    keeps the config before."""
    try:
        return find_place()
    except ConfigInvalid as error:
        place = find_unread_place()
        if not place.paths.port_path.exists():
            raise
        if tell is not None:
            tell(f"{error_text(error)}\nThe gateway that runs goes on with the config before.")
        return place


def served_places() -> Callable[[], StateLocation]:
    """A function that finds the place for asking the gateway, as `find_served_place` does, for a command that looks several
    times: a fault of the config is reported once."""
    said: set[str] = set()

    def tell_once(text: str) -> None:
        if text not in said:
            said.add(text)
            note(text)

    return lambda: find_served_place(tell_once)


def error_text(error: ConfigInvalid) -> str:
    """The error with the line at fault, for the terminal."""
    return f"{error}\n{error.excerpt}" if error.excerpt else str(error)
