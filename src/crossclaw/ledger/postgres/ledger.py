"""The ledger on PostgreSQL, whole: one writer, readers beside it, the lock of the database."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import anyio

from crossclaw.ledger.contract import Appended
from crossclaw.ledger.operations import Op
from crossclaw.ledger.postgres.errors import READ_TROUBLE, explain
from crossclaw.ledger.postgres.reader import PostgresReads
from crossclaw.ledger.postgres.store import DatabaseAddress
from crossclaw.ledger.postgres.writer import PostgresWriter
from crossclaw.ledger.sqlite.damage import met
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.store import FolderLock
from crossclaw.ledger.sqlite.watching import SqliteWatching
from crossclaw.ledger.watching import Watching
from crossclaw.ledger.writing import InlineWriter, ThreadWriter

R = TypeVar("R")


class PostgresLedger(PostgresReads):
    """Open it inside an event loop. `inline` commits in the caller's task, for virtual time."""

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
        self.owner = secrets.token_hex(8)
        self._listeners: list[Appended] = []
        writer = InlineWriter if inline else ThreadWriter
        self._writer = writer(engine, self._tell)
        self.watching: Watching = SqliteWatching(self.scan)

    async def commit(self, *ops: Op[Any]) -> list[Any]:
        try:
            return await self._writer.commit(ops)
        except READ_TROUBLE as error:
            raise explain(error) from error

    async def do(self, op: Op[R]) -> R:
        result: R = (await self.commit(op))[0]
        return result

    def on_append(self, listener: Appended) -> None:
        self._listeners.append(listener)

    def _tell(self, session_ids: set[str]) -> None:
        for listener in self._listeners:
            listener(session_ids)

    def unreadable(self) -> Mapping[str, int]:
        return met(self._filename)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._writer.close()
            await self.close_readers()
        self._lock.close()
