"""Whose command line this is: where the state lies, found once a command."""

from collections.abc import Callable

from crossclaw.cli.say import note
from crossclaw.client.location import StateLocation, find_place, find_unread_place
from crossclaw.domain.errors import ConfigInvalid

__all__ = [
    "StateLocation",
    "find_place",
    "find_place_anyhow",
    "find_served_place",
    "find_unread_place",
    "served_places",
    "told_whole",
]


def find_place_anyhow() -> StateLocation:
    """For backups and for changes of the config itself: a config that does not load keeps nobody from them."""
    try:
        return find_place()
    except ConfigInvalid:
        return find_unread_place()


def find_served_place(tell: Callable[[str], None] | None = None) -> StateLocation:
    """For whoever asks the gateway: a config that does not load is no reason not to, where one runs. It
    holds on to the config before."""
    try:
        return find_place()
    except ConfigInvalid as error:
        place = find_unread_place()
        if not place.paths.port_path.exists():
            raise
        if tell is not None:
            tell(f"{told_whole(error)}\nThe gateway that runs goes on with the config before.")
        return place


def served_places() -> Callable[[], StateLocation]:
    """The same, for one command that looks several times: what is wrong is said once."""
    said: set[str] = set()

    def tell_once(text: str) -> None:
        if text not in said:
            said.add(text)
            note(text)

    return lambda: find_served_place(tell_once)


def told_whole(error: ConfigInvalid) -> str:
    """With the line at fault, for the terminal."""
    return f"{error}\n{error.excerpt}" if error.excerpt else str(error)
