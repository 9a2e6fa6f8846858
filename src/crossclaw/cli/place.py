"""The place: whose command line this is. Environment, paths and config, read once a command."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from crossclaw.cli.say import note
from crossclaw.config import Config, Loaded, Paths, find_paths, load
from crossclaw.display.languages import tr
from crossclaw.domain.errors import ConfigInvalid


class StateLocation(msgspec.Struct, frozen=True):
    environ: Mapping[str, str]
    paths: Paths
    loaded: Loaded
    unread: bool = False
    """Its config does not load: good enough to find a gateway that runs, and for nothing else."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def when_a_change_counts(self) -> str:
        if self.config.gateway.reload.mode == "off":
            return tr("A gateway that is running learns of it when it is started again.")
        return tr("A gateway that is running takes it over in a moment, when no run is under way.")


def find_place(environ: Mapping[str, str] | None = None) -> StateLocation:
    given = os.environ if environ is None else environ
    paths = find_paths(given, Path(given.get("HOME") or Path.home()))
    return StateLocation(given, paths, load(paths.config_path, given))


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


def find_unread_place() -> StateLocation:
    """As far as it can be known without the config."""
    paths = find_paths(os.environ, Path(os.environ.get("HOME") or Path.home()))
    nothing = Loaded(Config(), paths.config_path, True, {}, (), ())
    return StateLocation(os.environ, paths, nothing, unread=True)


def told_whole(error: ConfigInvalid) -> str:
    """With the line at fault, for the terminal."""
    return f"{error}\n{error.excerpt}" if error.excerpt else str(error)
