"""Zones: the time zones of this machine and of the owner."""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path

from crossclaw.domain.errors import Invalid
from crossclaw.schedule.times import find_zone

_LOCALTIME = Path("/etc/localtime")


def local_zone(environ: Mapping[str, str]) -> tzinfo:
    """The machine's zone: TZ, else what its localtime is a link to, else UTC."""
    _, _, linked = str(_LOCALTIME.resolve()).partition("/zoneinfo/")
    for name in (environ.get("TZ", "").removeprefix(":"), linked):
        try:
            if name:
                return find_zone(name)
        except Invalid:
            continue
    return UTC


def user_zone(written: str | None, local: tzinfo) -> tzinfo:
    """The zone of `agents.defaults.userTimezone`; an unknown name means the machine's."""
    try:
        return find_zone(written) if written else local
    except Invalid:
        return local
