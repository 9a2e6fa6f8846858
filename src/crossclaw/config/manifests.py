"""Finding manifests: the description of a channel, by the name that the config gives it.

Channels are above the config and are found by name, as other people's packages are: a folder of
`crossclaw/channels` with a `manifest.py`, or an entry point of the group `crossclaw.channels`. Nothing is imported
but the manifests that are asked for.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from crossclaw.config.channels import ChannelSettings

GROUP = "crossclaw.channels"
"""The package of our own channels, and the group of entry points for those of others."""


class DescribesChannel(Protocol):
    """The part of a channel's manifest that the config needs; `channels.manifest` has all of it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def settings(self) -> type[ChannelSettings]: ...
    def normalize_sender(self, entry: str, /) -> str | None: ...


@cache
def own_names() -> tuple[str, ...]:
    """The names of our own channels: folders of `crossclaw/channels`."""
    spec = find_spec(GROUP)
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return tuple(
        sorted(
            path.parent.name for folder in folders for path in Path(folder).glob("*/manifest.py")
        )
    )


@cache
def foreign() -> dict[str, str]:
    """Channels of other packages: name → `module:attribute`."""
    from importlib.metadata import entry_points  # noqa: PLC0415  10 ms, and seldom asked

    return {entry.name.lower(): entry.value for entry in entry_points(group=GROUP)}


def known_names() -> tuple[str, ...]:
    return tuple(sorted({*own_names(), *foreign()}))


def find(name: str) -> DescribesChannel | None:
    """The manifest by a channel's name or an alias, in any case."""
    wanted = name.strip().lower()
    if wanted in own_names():
        return _own(wanted)
    for own in own_names():
        if wanted in _own(own).aliases:
            return _own(own)
    where = foreign().get(wanted)
    return _load(where) if where else None


@cache
def _own(name: str) -> DescribesChannel:
    return _load(f"{GROUP}.{name}.manifest:MANIFEST")


@cache
def _load(where: str) -> DescribesChannel:
    module, _, attribute = where.partition(":")
    found: DescribesChannel = getattr(import_module(module), attribute)
    return found
