"""The ledger on PostgreSQL: one writer, readers beside it, the lock of the database."""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from crossclaw.ledger.gateways import TakeOver, TellGateways
from crossclaw.ledger.hints import HearHints
from crossclaw.ledger.monitoring import MonitoringReads
from crossclaw.ledger.postgres.dialect import PgStatement
from crossclaw.ledger.postgres.errors import READ_TROUBLE, explain
from crossclaw.ledger.postgres.listener import HintListener
from crossclaw.ledger.postgres.membership import IS_HERE, PostgresMembership
from crossclaw.ledger.postgres.reader import PostgresReads
from crossclaw.ledger.postgres.store import DatabaseAddress
from crossclaw.ledger.postgres.taking_over import take_over, tell_gateways
from crossclaw.ledger.postgres.wire import bound
from crossclaw.ledger.postgres.writer import PostgresWriter
from crossclaw.ledger.sqlite.damage import met
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.monitoring import SqliteMonitoring
from crossclaw.ledger.sqlite.store import FolderLock
from crossclaw.ledger.writing import LedgerWrites


class PostgresLedger(LedgerWrites, PostgresReads):
    """A ledger in a PostgreSQL database. Open it inside an event loop. `inline` commits in the
    caller's task, for virtual time."""

    gateways: PostgresMembership | None = None
    trouble = READ_TROUBLE
    explain = staticmethod(explain)

    def __init__(
        self, url: str, folder: Path, *, inline: bool = False, shared: bool = False
    ) -> None:
        self.shared, self._inline = shared, inline
        self._listener: HintListener | None = None
        self._lock = FolderLock(folder)
        with ExitStack() as unopened:  # whoever tries again finds nothing of it
            unopened.callback(self._lock.close)
            address = DatabaseAddress(url, shared=shared)
            self._engine = self._writer_at(address, unopened)
            super().__init__(address.connect_reader, address.shown, inline=inline)
            unopened.pop_all()
        self.begin_writing(self._engine, inline=inline)
        self.owner = self._engine.name
        self.monitoring: MonitoringReads = SqliteMonitoring(self.scan)
        if shared:
            self.gateways = PostgresMembership(
                address.connect, self.owner, partial(self.guard, IS_HERE, self.owner), inline=inline
            )

    def _writer_at(self, address: DatabaseAddress, unopened: ExitStack) -> PostgresWriter:
        handlers = HANDLERS | {TakeOver: take_over, TellGateways: tell_gateways}
        try:
            wire = address.prepare()
            unopened.callback(wire.close)
            return PostgresWriter(
                address.connect_writer, handlers, address.shown, wire, shared=self.shared
            )
        except READ_TROUBLE as error:
            raise explain(error) from error

    def unreadable(self) -> Mapping[str, int]:
        return met(self._filename)

    def on_hint(self, kind: str, callback: HearHints) -> None:
        super().on_hint(kind, callback)
        if self.shared and not self._inline and self._listener is None:
            self._listener = HintListener(self._connect_reader, self._engine.name, self._hints.tell)

    def guard(self, sql: str, *values: Any) -> None:
        """Stores a transaction from now on only while this statement, in PostgreSQL's words, answers a row."""
        self._engine.guard_by(bound(PgStatement(sql.encode(), writes=False), values))

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            if self._listener is not None:
                await anyio.to_thread.run_sync(self._listener.close)
            await self.end_writing()
            await self.close_readers()
            if self.gateways is not None:
                self.gateways.close()
        self._lock.close()
