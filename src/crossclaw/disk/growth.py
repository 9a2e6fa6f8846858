"""Growth: the size of the store, how much it has grown, and the free space of its disk."""

import os
from pathlib import Path

import msgspec

from crossclaw.disk.free_space import free_disk_bytes
from crossclaw.disk.threads import Disk
from crossclaw.domain.clock import Clock


class StoreSize(msgspec.Struct, frozen=True, rename="camel"):
    ledger_bytes: int
    """The size of the store itself."""
    wal_bytes: int
    """The size of its log: what was written and is not yet in the store."""
    free_bytes: int
    """The free space of the disk."""
    grown_bytes: int = 0
    """How much store and log together have grown since the first look."""
    since_ms: int = 0
    """When the first look was."""


def size_of(ledger: Path) -> StoreSize:
    return StoreSize(
        _bytes(ledger), _bytes(Path(f"{ledger}-wal")), free_disk_bytes(_there(ledger.parent))
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
    """The nearest folder that exists: before the first start the last ones do not."""
    while not folder.exists():
        folder = folder.parent
    return folder
