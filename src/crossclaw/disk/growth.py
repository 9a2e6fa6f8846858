"""Growth: how large the store is, by how much it has grown, and what is left of its disk."""

import os
from pathlib import Path

import msgspec

from crossclaw.disk.room import room_bytes
from crossclaw.disk.threads import Disk
from crossclaw.domain.clock import Clock


class StoreSize(msgspec.Struct, frozen=True, rename="camel"):
    ledger_bytes: int
    """The store itself."""
    wal_bytes: int
    """What was written and is not yet in it."""
    free_bytes: int
    """What is left of the disk."""
    grown_bytes: int = 0
    """Since the first look, store and what is on the way into it together."""
    since_ms: int = 0
    """When that was."""


def size_of(ledger: Path) -> StoreSize:
    return StoreSize(
        _bytes(ledger), _bytes(Path(f"{ledger}-wal")), room_bytes(_there(ledger.parent))
    )


class StoreGrowth:
    def __init__(self, ledger: Path, disk: Disk, clock: Clock) -> None:
        self.path = ledger
        self._disk = disk
        self._clock = clock
        self._first: tuple[int, StoreSize] | None = None

    async def look(self) -> StoreSize:
        now = await self._disk.run(size_of, self.path)
        if self._first is None:
            self._first = self._clock.now_ms(), now
        at, first = self._first
        grown = now.ledger_bytes + now.wal_bytes - first.ledger_bytes - first.wal_bytes
        return msgspec.structs.replace(now, grown_bytes=grown, since_ms=at)


def _bytes(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _there(folder: Path) -> Path:
    """The nearest folder that is there: before the first start the last ones are not."""
    while not folder.exists():
        folder = folder.parent
    return folder
