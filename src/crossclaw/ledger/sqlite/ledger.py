"""The ledger on SQLite, whole: one writer, readers beside it, the folder's lock."""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import apsw

from crossclaw.domain.budgets import Account
from crossclaw.domain.compactions import Obligation
from crossclaw.domain.credentials import Credential
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.jobs import Job, Tick, TickStatus
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import UserMessage
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry, Session
from crossclaw.domain.sight import Sight
from crossclaw.domain.spawns import Spawn
from crossclaw.ledger import operations
from crossclaw.ledger.agreed import AgreeTool, HeldTool, SeeTools
from crossclaw.ledger.contract import Appended, Hit
from crossclaw.ledger.imports import BeginImport, ImportEntries
from crossclaw.ledger.jobs import (
    DeleteJob,
    MoveJob,
    PutJob,
    SettleTick,
    SwitchOffJob,
    SwitchOffJobs,
    TakeTick,
)
from crossclaw.ledger.operations import Delivery, Export, Op, Timer
from crossclaw.ledger.sqlite import (
    accounts,
    agreed_tools,
    chores,
    credentials,
    entries,
    exchanges,
    imports,
    jobs,
    memory,
    outbox,
    queue,
    reading,
    recovering,
    runs,
    sessions,
    spawns,
    waits,
)
from crossclaw.ledger.sqlite.damage import met
from crossclaw.ledger.sqlite.errors import speaks_for_the_store
from crossclaw.ledger.sqlite.store import FolderLock, open_reader, open_writer
from crossclaw.ledger.sqlite.watching import SqliteWatching
from crossclaw.ledger.sqlite.writer import Handle, InlineWriter, ThreadWriter
from crossclaw.ledger.watching import Watching

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

HANDLERS: dict[type, Handle] = {
    operations.EnsureSession: sessions.ensure_session,
    operations.PatchSession: sessions.patch_session,
    operations.ResetSession: sessions.reset_session,
    operations.DeleteSession: sessions.delete_session,
    operations.ArchiveSession: sessions.archive_session,
    operations.UnarchiveSession: sessions.unarchive_session,
    operations.Submit: runs.submit,
    operations.Claim: queue.claim,
    operations.SetAsideDamaged: recovering.set_aside_damaged,
    operations.Join: queue.join,
    operations.Append: entries.append,
    operations.Inject: entries.inject,
    operations.PinEntry: memory.pin_entry,
    operations.EndRun: runs.end_run,
    operations.EndOpenRun: runs.end_open_run,
    operations.ReleaseRun: runs.release_run,
    operations.Recover: recovering.recover,
    operations.StartTool: runs.start_tool,
    operations.Reserve: runs.reserve,
    operations.Spend: runs.spend,
    operations.BeginWait: waits.begin_wait,
    operations.EndWait: waits.end_wait,
    operations.PutExchange: exchanges.put_exchange,
    operations.SetExchange: exchanges.set_exchange,
    operations.PutSpawn: spawns.put_spawn,
    operations.SetSpawn: spawns.set_spawn,
    operations.PutDelivery: outbox.put_delivery,
    operations.TakeDelivery: outbox.take_delivery,
    operations.SettleDelivery: outbox.settle_delivery,
    PutJob: jobs.put_job,
    SwitchOffJob: jobs.switch_off_job,
    SwitchOffJobs: jobs.switch_off_jobs,
    DeleteJob: jobs.delete_job,
    TakeTick: jobs.take_tick,
    MoveJob: jobs.move_job,
    SettleTick: jobs.settle_tick,
    BeginImport: imports.begin_import,
    ImportEntries: imports.import_entries,
    operations.ArmTimer: chores.arm_timer,
    operations.TakeTimer: chores.take_timer,
    operations.MarkCompressed: chores.mark_compressed,
    operations.MarkExported: chores.mark_exported,
    operations.PutCredential: credentials.put_credential,
    operations.DeleteCredential: credentials.delete_credential,
    operations.Audit: chores.write_audit,
    operations.PruneDedupe: chores.prune_dedupe,
    SeeTools: agreed_tools.see_tools,
    AgreeTool: agreed_tools.agree_tool,
    operations.PassTime: chores.pass_time,
}

SAME_LABEL_MAX = 9  # sessions with one label that are looked at: an error names eight of them
SCANS_AT_ONCE = 2  # reads that may take long run in threads, each with a connection of its own


@speaks_for_the_store
class SqliteLedger:
    """Open it inside an event loop. `inline` commits in the caller's task, for virtual time."""

    def __init__(self, path: Path, *, inline: bool = False) -> None:
        self._lock = FolderLock(path.parent)
        try:
            db = open_writer(path)
            self._reader = open_reader(path)
        except BaseException:
            self._lock.close()
            raise
        self.owner = secrets.token_hex(8)
        self._listeners: list[Appended] = []
        writer = InlineWriter if inline else ThreadWriter
        self._writer = writer(db, HANDLERS, self._tell)
        self._inline = inline
        self._path = path
        self._scanners: list[apsw.Connection] = []
        self._scans = anyio.CapacityLimiter(SCANS_AT_ONCE)
        self.watching: Watching = SqliteWatching(self._scan)

    async def commit(self, *ops: Op[Any]) -> list[Any]:
        return await self._writer.commit(ops)

    async def do(self, op: Op[R]) -> R:
        result: R = (await self._writer.commit((op,)))[0]
        return result

    def on_append(self, listener: Appended) -> None:
        self._listeners.append(listener)

    def _tell(self, session_ids: set[str]) -> None:
        for listener in self._listeners:
            listener(session_ids)

    # Short reads by key run right here: a thread hop costs more than the read itself.

    async def find_session(self, key: SessionKey) -> Session | None:
        return sessions.find_session(self._reader, key)

    async def find_session_by_id(self, session_id: str, *, former: bool = False) -> Session | None:
        return sessions.find_session_by_id(self._reader, session_id, former=former)

    async def find_sessions_by_label(
        self, label: str, *, agent_id: str | None = None, sight: Sight
    ) -> list[Session]:
        only = sessions.SessionFilter(agent_id, label=label, sight=sight)
        return sessions.list_sessions(self._reader, SAME_LABEL_MAX, only, shown=False)

    async def list_line(self, key: SessionKey) -> frozenset[str]:
        return sessions.list_line(self._reader, key)

    async def list_sessions(
        self,
        *,
        limit: int,
        agent_id: str | None = None,
        sight: Sight,
        updated_after: int | None = None,
        kinds: Sequence[str] | None = None,
        label: str | None = None,
        spawned_by: str | None = None,
        search: str | None = None,
        offset: int = 0,
    ) -> list[Session]:
        only = sessions.SessionFilter(
            agent_id, updated_after, kinds, label, spawned_by, search, sight
        )
        if search or kinds:  # no index answers these: they may look at every row
            return await self._scan(lambda db: sessions.list_sessions(db, limit, only, offset))
        return sessions.list_sessions(self._reader, limit, only, offset)

    async def count_sessions(self, *, agent_id: str | None = None, sight: Sight) -> int:
        only = sessions.SessionFilter(agent_id, sight=sight)
        return await self._scan(lambda db: sessions.count_sessions(db, only))

    async def count_sessions_of_agents(self) -> dict[str, int]:
        return await self._scan(sessions.count_sessions_of_agents)

    async def list_tails(
        self, session_ids: Sequence[str], *, limit: int, tool_results: bool = True
    ) -> dict[str, list[Entry]]:
        return await self._scan(lambda db: reading.list_tails(db, session_ids, limit, tool_results))

    async def list_archived(
        self, *, before: int, agent_id: str | None = None, limit: int
    ) -> list[Session]:
        return await self._scan(lambda db: sessions.list_archived(db, before, agent_id, limit))

    async def find_run(self, run_id: str) -> Run | None:
        return runs.find_run(self._reader, run_id)

    async def find_deduped(self, scope: str, key: str) -> str | None:
        return runs.find_deduped(self._reader, scope, key)

    async def has_open_run(self, key: SessionKey) -> bool:
        return runs.has_open_run(self._reader, key)

    async def list_open_runs(self, key: SessionKey) -> list[Run]:
        return runs.list_open_runs(self._reader, key)

    async def have_talked(self, one: SessionKey, other: SessionKey) -> bool:
        return exchanges.have_talked(self._reader, one.text, other.text)

    async def list_made_runs(self) -> list[Run]:
        return runs.list_made_runs(self._reader)

    async def find_inbox(self, run_id: str) -> UserMessage | None:
        return runs.find_inbox(self._reader, run_id)

    async def lanes_with_work(self) -> list[SessionKey]:
        return runs.lanes_with_work(self._reader)

    async def last_seq(self, session_id: str) -> int:
        return reading.last_seq(self._reader, session_id)

    async def list_entries(
        self,
        session_id: str,
        *,
        limit: int,
        before: int | None = None,
        after: int = 0,
        tool_results: bool = True,
        notes: bool = True,
        forward: bool = False,
    ) -> list[Entry]:
        only = reading.Only(tool_results, notes)
        return reading.list_entries(self._reader, session_id, limit, before, after, only, forward)

    async def list_held_tools(self) -> list[HeldTool]:
        return agreed_tools.list_held_tools(self._reader)

    def unreadable(self) -> Mapping[str, int]:
        return met(str(self._reader.filename))

    async def find_compaction(self, session_id: str) -> Entry | None:
        return memory.find_compaction(self._reader, session_id)

    async def list_pinned(self, session_id: str) -> list[Entry]:
        return memory.list_pinned(self._reader, session_id)

    async def list_obligations(self, key: SessionKey) -> list[Obligation]:
        return memory.list_obligations(self._reader, key)

    async def search(
        self, words: str, *, limit: int, agent_id: str | None = None, sight: Sight
    ) -> list[Hit]:
        return await self._scan(lambda db: reading.search(db, words, limit, agent_id, sight))

    async def tool_was_started(self, run_id: str, tool_use_id: str) -> bool:
        return runs.tool_was_started(self._reader, run_id, tool_use_id)

    async def list_open_deliveries(self, *, after: int = 0, limit: int) -> list[Delivery]:
        return outbox.list_open_deliveries(self._reader, after, limit)

    async def find_account(self, account_id: str) -> Account | None:
        return accounts.find_account(self._reader, account_id)

    async def list_accounts(self, keys: Sequence[SessionKey]) -> dict[SessionKey, Account]:
        return await self._scan(lambda db: accounts.accounts_of_sessions(db, keys))

    async def find_exchange(self, exchange_id: str) -> Exchange | None:
        return exchanges.find_exchange(self._reader, exchange_id)

    async def find_spawn(self, child_key: SessionKey) -> Spawn | None:
        return spawns.find_spawn(self._reader, child_key)

    async def list_spawns(self, parent_key: SessionKey, *, open_only: bool = False) -> list[Spawn]:
        return spawns.list_spawns(self._reader, parent_key, open_only)

    async def find_delivery(self, delivery_key: str) -> Delivery | None:
        return outbox.find_delivery(self._reader, delivery_key)

    async def find_job(self, job_id: str) -> Job | None:
        return jobs.find_job(self._reader, job_id)

    async def list_jobs(self) -> list[Job]:
        return jobs.list_jobs(self._reader)

    async def list_due_jobs(self, *, due_before: int, limit: int) -> list[Job]:
        return jobs.list_due_jobs(self._reader, due_before, limit)

    async def next_job_at(self, *, after: int) -> int | None:
        return jobs.next_job_at(self._reader, after)

    async def list_ticks(
        self, job_id: str | None, *, limit: int, status: TickStatus | None = None
    ) -> list[Tick]:
        return jobs.list_ticks(self._reader, job_id, limit, status)

    async def count_ticks_under_way(self) -> int:
        return jobs.count_ticks_under_way(self._reader)

    async def list_credentials(self) -> list[Credential]:
        return credentials.list_credentials(self._reader)

    async def list_timers(
        self, *, due_before: int, limit: int, kinds: Sequence[str] | None = None
    ) -> list[Timer]:
        return chores.list_timers(self._reader, due_before, limit, kinds)

    async def count_timers(self) -> dict[str, int]:
        return chores.count_timers(self._reader)

    async def list_exports(self, *, behind: bool, after: str = "", limit: int) -> list[Export]:
        return chores.list_exports(self._reader, behind, after, limit)

    async def list_old_exports(self, *, before: int, after: str = "", limit: int) -> list[Export]:
        return await self._scan(lambda db: chores.list_old_exports(db, before, after, limit))

    async def list_compressed(self, session_ids: Sequence[str]) -> set[str]:
        return chores.list_compressed(self._reader, session_ids)

    async def list_transcripts(self, key: SessionKey, *, limit: int, offset: int) -> list[Export]:
        return chores.list_transcripts(self._reader, key, limit, offset)

    async def find_export(self, session_id: str) -> Export | None:
        return chores.find_export(self._reader, session_id)

    async def _scan(self, read: Callable[[apsw.Connection], T]) -> T:
        if self._inline:
            return read(self._reader)
        async with self._scans:
            db = self._scanners.pop() if self._scanners else open_reader(self._path)
            try:
                return await anyio.to_thread.run_sync(read, db)
            finally:
                self._scanners.append(db)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._writer.close()
        for db in (self._reader, *self._scanners):
            db.close()
        self._lock.close()
