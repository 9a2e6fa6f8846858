"""Reloading: a changed config is applied by opening the gateway anew, in the same process.

Its secrets and rules are in force at once (`config/current`); the rest waits for a moment in which
no run is under way. Opening takes a fraction of a second, and all it has to know afterwards is in
the ledger.
"""

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from crossclaw.config import Loaded, load
from crossclaw.config.changing import TakeRules
from crossclaw.config.current import needs_opening
from crossclaw.domain.errors import CrossclawError

log = logging.getLogger(__name__)

LOOK_S = 1.0  # between two looks at the files, a stat each
BUSY_LOOK_S = 0.1  # between two looks for a quiet moment


Stamp = tuple[tuple[int, int, int] | None, ...]


async def _without_rules(_fresh: Loaded) -> None:
    """Does nothing: used where no rules are in force yet."""


class ConfigWritten:
    """Signals that the gateway itself has changed its config file, so that the rules are applied at
    once and nobody waits for the next look at the file."""

    def __init__(self) -> None:
        self._event, self._begun = anyio.Event(), anyio.Event()
        self._take_rules: TakeRules = _without_rules

    def begin(self, take_rules: TakeRules) -> None:
        """Called when the gateway is open and can apply other rules."""
        self._take_rules = take_rules
        self._begun.set()

    async def take(self, fresh: Loaded) -> str | None:
        """Applies the rules of a written config; returns when they are in force, or why they cannot
        be."""
        await self._begun.wait()
        try:
            return await self._take_rules(fresh)
        finally:
            self._event.set()

    async def within(self, seconds: float) -> None:
        """Waits until the file was changed, or for so many seconds."""
        with anyio.move_on_after(seconds):
            await self._event.wait()
        if self._event.is_set():
            self._event = anyio.Event()


async def next_config(
    loaded: Loaded,
    environ: Mapping[str, str],
    at_work: Callable[[], bool],
    failed: Loaded | None = None,
    take_rules: TakeRules = _without_rules,
    written: ConfigWritten | None = None,
) -> Loaded:
    """Waits for the config that replaces this one: changed, valid, and no run in the way. `failed`
    is one with which the gateway did not open. Rules do not wait for that: `take_rules` is called
    first. `written` saves the wait for the next look at the file."""
    written = written or ConfigWritten()
    settings = loaded.config.gateway.reload
    if settings.mode == "off":
        await anyio.sleep_forever()
    files = tuple(dict.fromkeys((loaded.path, *loaded.files)))
    # The first look finds what was written while the gateway opened, and passes over what failed just now.
    known = [each.raw for each in (loaded, failed) if each is not None]
    seen: Stamp = ()
    due = math.inf
    while True:
        seen = await _changed(files, seen, settings.debounce_ms / 1000, written)
        fresh = _read(loaded, environ)
        if fresh is None or fresh.raw in known:
            if fresh is not None and fresh.raw == loaded.raw:
                await take_rules(loaded)  # what was changed was changed back
            known, due = [loaded.raw], math.inf
            continue
        await take_rules(fresh)
        if not needs_opening(loaded.raw, fresh.raw):
            loaded, known, due = fresh, [fresh.raw], math.inf
            continue
        if due == math.inf:
            log.info("the config has changed; it is taken over as soon as no run is under way")
            due = anyio.current_time() + settings.deferral_timeout_ms / 1000
        if await _quiet(at_work, due, files, seen):
            return fresh


async def _changed(
    files: tuple[Path, ...], seen: Stamp, debounce_s: float, written: ConfigWritten
) -> Stamp:
    """Waits until the files were written and are no longer being written."""
    now = seen
    while now == seen:
        await written.within(LOOK_S)
        now = _stamp(files)
    while True:
        await anyio.sleep(debounce_s)
        if (later := _stamp(files)) == now:
            return now
        now = later


def _stamp(files: tuple[Path, ...]) -> Stamp:
    return tuple(_stamp_of(path) for path in files)


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read(before: Loaded, environ: Mapping[str, str]) -> Loaded | None:
    """The config as it is written now, if it is valid."""
    try:
        fresh = load(before.path, environ)
    except CrossclawError as error:
        log.warning("the changed config is not taken over, the one before holds on: %s", error)
        return None
    if not fresh.exists:
        if before.exists:
            log.warning("%s is gone; the config that was in it holds on", before.path)
        return None
    return fresh


async def _quiet(
    at_work: Callable[[], bool], due: float, files: tuple[Path, ...], seen: Stamp
) -> bool:
    """Waits for a moment without runs, or for the end of patience: a run that is cut off then
    continues where it was. False if the files were written again meanwhile."""
    while at_work() and anyio.current_time() < due:
        if _stamp(files) != seen:
            return False
        await anyio.sleep(BUSY_LOOK_S)
    return True
