"""Following: changes this gateway's config file as another gateway's was changed over the wire.

The rules of every change over the wire hold: what is local stays as it is, comments stay, a file that would not
load is not written, and what stands in an included file is left to a person.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossclaw.config.agreeing import OwnParts, differing, digest_of, shared_keys
from crossclaw.config.amending import Version, apply_change, changes
from crossclaw.config.file import ConfigFile, NotChanged
from crossclaw.config.load import Loaded, load
from crossclaw.config.source import dotted
from crossclaw.domain.aliases import KeyPath

KEYS_SAID = 5


def follow_shared(
    path: Path,
    environ: Mapping[str, str],
    shared: dict[str, Any],
    secrets: Mapping[KeyPath, Any],
) -> Loaded:
    """Writes another gateway's common part into the file; raises `NotChanged` if that cannot be."""
    before = load(path, environ)
    own = OwnParts(before.raw, secrets)
    wanted = own.with_own(shared)
    if own.missing:
        raise NotChanged(
            f"{some(list(map(dotted, own.missing)))} must be written into {path} by hand: secrets of another "
            "gateway's file do not travel",
            tuple((place, "a secret that is not here") for place in own.missing),
        )
    file = ConfigFile(path, environ, from_wire=True)
    text = file.text
    for change in changes(Version(before.raw, before.raw), wanted):
        apply_change(file, change)
    if file.text == text:
        return before
    _refuse_others(file, shared)
    file.save()
    return load(path, environ)


def _refuse_others(file: ConfigFile, shared: dict[str, Any]) -> None:
    """Refuses changes of what stands in an included file, or under an old name: that cannot be changed here."""
    ours, theirs = shared_keys(file.check().raw), shared_keys(shared)
    if digest_of(ours) != digest_of(theirs):
        keys = differing(ours, theirs)
        raise NotChanged(
            f"{file.path} was not changed: {some(keys)} cannot be changed there from elsewhere "
            "(is it in an included file?); change it by hand",
            tuple(((key,), "cannot be changed from elsewhere") for key in keys),
        )


def some(keys: list[str]) -> str:
    """The first few, for people."""
    more = f" and {len(keys) - KEYS_SAID} more" if len(keys) > KEYS_SAID else ""
    return ", ".join(keys[:KEYS_SAID]) + more
