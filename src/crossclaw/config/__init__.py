"""Configuration: openclaw.json as one frozen type a section, read once and handed out in parts."""

from crossclaw.config.load import Loaded, load
from crossclaw.config.model import ChosenModel, Config, default_model
from crossclaw.config.paths import Paths, find_paths

__all__ = [
    "ChosenModel",
    "Config",
    "Loaded",
    "Paths",
    "default_model",
    "find_paths",
    "load",
]
