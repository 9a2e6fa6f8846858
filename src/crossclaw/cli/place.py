"""The place: whose command line this is. Environment, paths and config, read once a command."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crossclaw.config import Config, Loaded, Paths, find_paths, load


@dataclass(frozen=True, slots=True)
class Place:
    environ: Mapping[str, str]
    paths: Paths
    loaded: Loaded

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def when_a_change_counts(self) -> str:
        if self.config.gateway.reload.mode == "off":
            return "A gateway that is running learns of it when it is started again."
        return "A gateway that is running takes it over in a moment, when no run is under way."


def find_place(environ: Mapping[str, str] | None = None) -> Place:
    given = os.environ if environ is None else environ
    paths = find_paths(given, Path(given.get("HOME") or Path.home()))
    return Place(given, paths, load(paths.config_path, given))
