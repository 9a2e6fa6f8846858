"""Extras: optional packages, and how to install them.

In a clone that is by make: Crossclaw is on no index, and the environment of `make run` has no pip
of its own.
"""

from pathlib import Path

import crossclaw

LOCK = "requirements-extras.lock"  # what `make extras` installs
POSTGRES = "postgres"  # by a target of its own, without the rest


def how_to_install(extra: str, folder: Path | None = None) -> str:
    """The command that installs an extra on this machine, for its owner. `folder`: where a clone
    would be."""
    folder = folder or Path(crossclaw.__file__).parents[2]
    if (folder / LOCK).is_file():
        return f"make -C {folder} {'postgres-driver' if extra == POSTGRES else 'extras'}"
    return f"pip install 'crossclaw[{extra}]'"


def how_to_install_there(extra: str) -> str:
    """How to install an extra, for readers who may be elsewhere: clients, chats, models."""
    return f"pip install 'crossclaw[{extra}]', or in a clone: make extras"
