"""Configuration: openclaw.json as one frozen type a section, read once and handed out in parts."""

from crossclaw.config.load import Loaded, load
from crossclaw.config.model import ChosenModel, Config, default_model
from crossclaw.config.paths import Paths, find_paths

__all__ = [
    "ChosenModel",
    "Config",
    "Loaded",
    "Paths",
    "agents",
    "amending",
    "catalogue",
    "channels",
    "check",
    "current",
    "default_model",
    "doors",
    "file",
    "find_paths",
    "fingerprints",
    "gateway",
    "heartbeat",
    "hiding",
    "hooks",
    "load",
    "manifests",
    "model",
    "named_models",
    "no_effect",
    "paths",
    "positions",
    "profiles",
    "providers",
    "section",
    "session",
    "source",
    "supported",
    "syntax_errors",
    "token",
    "toolnames",
    "tools",
]
