"""The ledger on PostgreSQL, whole: one writer, readers beside it, the lock of the database."""

from collections.abc import Mapping
from pathlib import Path

import anyio

from crossclaw.ledger.postgres.errors import READ_TROUBLE, explain
from crossclaw.ledger.postgres.reader import PostgresReads
from crossclaw.ledger.postgres.store import DatabaseAddress
from crossclaw.ledger.postgres.writer import PostgresWriter
from crossclaw.ledger.sqlite.damage import met
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.store import FolderLock
from crossclaw.ledger.sqlite.watching import SqliteWatching
from crossclaw.ledger.watching import Watching
from crossclaw.ledger.writing import LedgerWrites


class PostgresLedger(LedgerWrites, PostgresReads):
    """Open it inside an event loop. `inline` commits in the caller's task, for virtual time."""

    trouble = READ_TROUBLE
    explain = staticmethod(explain)

    def __init__(self, url: str, folder: Path, *, inline: bool = False) -> None:
        self._lock = FolderLock(folder)
        try:
            address = DatabaseAddress(url)
            wire = address.prepare()
            super().__init__(address.connect_reader, address.shown, inline=inline)
        except BaseException:
            self._lock.close()
            raise
        engine = PostgresWriter(address.connect_writer, HANDLERS, address.shown, wire)
        self.begin_writing(engine, inline=inline)
        self.watching: Watching = SqliteWatching(self.scan)

    def unreadable(self) -> Mapping[str, int]:
        return met(self._filename)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.end_writing()
            await self.close_readers()
        self._lock.close()
