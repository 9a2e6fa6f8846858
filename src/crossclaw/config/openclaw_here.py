"""OpenClaw's data in the state folder that both programs share, and whether it has been imported."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from crossclaw.disk.private import write_file

STORES = (
    "agents/*/sessions/sessions.json",  # sessions of 2026.2
    "agents/*/agent/openclaw-agent.sqlite",  # sessions of 2026.9
    "cron/jobs.json",  # jobs of 2026.2
    "state/openclaw.sqlite",  # jobs of 2026.9
)
BROUGHT = ("jobs", "allowed", "grants")
_MARK = "imported.json"
_BYTES_MAX = 10_000_000


def find_stores(folder: Path) -> list[str]:
    """The stores in a folder, as paths relative to it."""
    found = (path for pattern in STORES for path in folder.glob(pattern))
    return sorted(str(path.relative_to(folder)) for path in found if path.is_file())


def find_unimported(state_dir: Path) -> list[str]:
    """Stores in the gateway's own folder that nobody has imported yet."""
    found = find_stores(state_dir)
    known = _marks(state_dir).get("stores", ()) if found else ()
    return [store for store in found if store not in known]


def note_imported(state_dir: Path, stores: Iterable[str]) -> None:
    """Notes that these stores were imported, so that they are not reported again."""
    _add(state_dir, "stores", stores)


def brought(state_dir: Path) -> dict[str, frozenset[str]]:
    """Jobs, people and commands that were imported: what is removed here afterwards does not come back by
    another import."""
    return {name: frozenset(_marks(state_dir).get(name, ())) for name in BROUGHT}


def note_brought(state_dir: Path, **found: Iterable[str]) -> None:
    """Notes what was imported, by the names in `BROUGHT`."""
    for name in BROUGHT:
        _add(state_dir, name, found.get(name, ()))


def _add(state_dir: Path, name: str, found: Iterable[str]) -> None:
    marks = _marks(state_dir)
    if more := sorted({*found} - {*marks.get(name, ())}):
        marks[name] = [*marks.get(name, ()), *more]
        write_file(state_dir / _MARK, msgspec.json.encode(marks).decode() + "\n")


def _marks(state_dir: Path) -> dict[str, list[str]]:
    try:
        with (state_dir / _MARK).open("rb") as file:
            return msgspec.json.decode(file.read(_BYTES_MAX), type=dict[str, list[str]])
    except (OSError, msgspec.MsgspecError):
        return {}
