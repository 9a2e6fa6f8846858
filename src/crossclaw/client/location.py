"""Where a gateway's state lies: environment, paths and config, read once a command or connection."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from crossclaw.config import Config, Loaded, Paths, find_paths, load
from crossclaw.display.languages import tr


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


def find_unread_place() -> StateLocation:
    """As far as it can be known without the config."""
    paths = find_paths(os.environ, Path(os.environ.get("HOME") or Path.home()))
    nothing = Loaded(Config(), paths.config_path, True, {}, (), ())
    return StateLocation(os.environ, paths, nothing, unread=True)
