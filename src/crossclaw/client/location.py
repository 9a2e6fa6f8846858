"""The location of a gateway's state: environment, paths and config, read once a command or connection."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from crossclaw.config import Config, Loaded, Paths, find_paths, load
from crossclaw.config.dotenv import with_dotenv
from crossclaw.config.load import load_gateway
from crossclaw.display.languages import tr
from crossclaw.domain.errors import ConfigInvalid


class StateLocation(msgspec.Struct, frozen=True):
    environ: Mapping[str, str]
    paths: Paths
    loaded: Loaded
    unread: bool = False
    """Whether its config does not load: good enough to find a running gateway, and for nothing else."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def when_a_change_counts(self) -> str:
        if self.config.gateway.reload.mode == "off":
            return tr("A gateway that is running learns of it when it is started again.")
        return tr("A gateway that is running takes it over in a moment, when no run is under way.")


def find_place(
    environ: Mapping[str, str] | None = None, *, to_serve: bool = False
) -> StateLocation:
    """Finds the state. `to_serve` is for starting a gateway: then every variable that the config names must
    be set."""
    given, paths = _found(os.environ if environ is None else environ)
    given = with_dotenv(given, paths.state_dir)
    return StateLocation(given, paths, load(paths.config_path, given, to_serve=to_serve))


def find_unread_place(environ: Mapping[str, str] | None = None) -> StateLocation:
    """Finds the state as far as possible without the config, or with its section `gateway` if that loads."""
    given, paths = _found(os.environ if environ is None else environ)
    with suppress(ConfigInvalid):
        given = with_dotenv(given, paths.state_dir)
    loaded = Loaded(Config(), paths.config_path, True, {}, (), ())
    with suppress(ConfigInvalid):
        loaded = load_gateway(paths.config_path, given)
    return StateLocation(given, paths, loaded, unread=True)


def _found(environ: Mapping[str, str]) -> tuple[Mapping[str, str], Paths]:
    return environ, find_paths(environ, Path(environ.get("HOME") or Path.home()))
