"""Whose command line this is: where the state lies, found once a command."""

import os
from pathlib import Path

from crossclaw.cli.say import note
from crossclaw.client.location import StateLocation, find_place, find_unread_place
from crossclaw.config import find_paths
from crossclaw.domain.errors import ConfigInvalid

__all__ = ["StateLocation", "find_place", "find_served_place", "find_unread_place", "told_whole"]


def find_served_place() -> StateLocation:
    """For whoever asks the gateway: a config that does not load is no reason not to, where one runs. It
    holds on to the config before."""
    try:
        return find_place()
    except ConfigInvalid as error:
        paths = find_paths(os.environ, Path(os.environ.get("HOME") or Path.home()))
        if not paths.port_path.exists():
            raise
        note(f"{told_whole(error)}\nThe gateway that runs goes on with the config before.")
        return find_unread_place()


def told_whole(error: ConfigInvalid) -> str:
    """With the line at fault, for the terminal."""
    return f"{error}\n{error.excerpt}" if error.excerpt else str(error)
