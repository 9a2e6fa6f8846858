"""The reads of the contract on SQLite: a line each, with the function that does it and where it
runs.

The twin of the table of operations in `ledger.py`. A function takes the connection and then what
the contract says; mypy checks every line against the contract.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
import anyio.to_thread
import apsw

from crossclaw.domain.media import KINDS, Kinds
from crossclaw.domain.sessions import Entry, Session
from crossclaw.domain.sight import Sight
from crossclaw.ledger.database import Database
from crossclaw.ledger.sqlite import (
    accounts,
    agreed_tools,
    approvals,
    channels,
    chores,
    credentials,
    exchanges,
    jobs,
    media,
    memory,
    outbox,
    pieces,
    previews,
    reading,
    runs,
    sessions,
    spawns,
)
from crossclaw.ledger.sqlite.errors import READ_TROUBLE, explain
from crossclaw.ledger.sqlite.store import open_reader

P = ParamSpec("P")
T = TypeVar("T")
ReadFunction = Callable[Concatenate[Database, P], T]
ReadMethod = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]

SCANS_AT_ONCE = 2  # reads that may take long run in threads, each with a connection of its own


def here(read: ReadFunction[P, T]) -> ReadMethod[P, T]:
    """Short reads by key run in the event loop: a thread hop costs more than the read itself."""

    @wraps(read)
    async def method(self: "ReadTable", /, *args: P.args, **named: P.kwargs) -> T:
        return await self.look(read, args, named)

    return method


def beside(read: ReadFunction[P, T]) -> ReadMethod[P, T]:
    """Reads that may look at many rows run in a thread: nobody waits for them but who asked."""

    @wraps(read)
    async def method(self: "ReadTable", /, *args: P.args, **named: P.kwargs) -> T:
        found: T = await self.scan(lambda db: read(db, *args, **named))
        return found

    return method


class ReadTable(ABC):
    """The table of reads; an engine implements how short ones (`look`) and long ones (`scan`)
    run."""

    @abstractmethod
    async def look(
        self, read: Callable[..., T], args: tuple[Any, ...], named: dict[str, Any]
    ) -> T: ...

    @abstractmethod
    async def scan(self, read: Callable[[Database], T]) -> T: ...

    # ── sessions ───────────────────────────────────────────────────────────────────────────────
    find_session = here(sessions.find_session)
    find_damaged_session = here(sessions.find_damaged_session)
    find_session_by_id = here(sessions.find_session_by_id)
    find_sessions_by_label = here(sessions.find_sessions_by_label)
    list_line = here(sessions.list_line)
    count_sessions = beside(sessions.count_sessions)
    count_sessions_of_agents = beside(sessions.count_sessions_of_agents)
    list_archived = beside(sessions.list_archived)
    list_quiet = beside(sessions.list_quiet)
    moment_ago = beside(chores.moment_ago)
    list_obligations = here(memory.list_obligations)
    list_accounts = beside(accounts.list_accounts)
    find_account = here(accounts.find_account)
    # ── runs ───────────────────────────────────────────────────────────────────────────────────
    find_run = here(runs.find_run)
    find_deduped = here(runs.find_deduped)
    list_request_times = here(runs.list_request_times)
    has_open_run = here(runs.has_open_run)
    list_open_runs = here(runs.list_open_runs)
    list_made_runs = here(runs.list_made_runs)
    find_inbox = here(runs.find_inbox)
    lanes_with_work = here(runs.lanes_with_work)
    tool_was_started = here(runs.tool_was_started)
    # ── transcripts ────────────────────────────────────────────────────────────────────────────
    last_seq = here(reading.last_seq)
    list_entries = here(reading.list_entries)
    find_entry = here(reading.find_entry)
    list_tails = beside(reading.list_tails)
    search = beside(reading.search)
    find_compaction = here(memory.find_compaction)
    list_pinned = here(memory.list_pinned)
    list_exports = here(chores.list_exports)
    list_old_exports = beside(chores.list_old_exports)
    list_compressed = here(chores.list_compressed)
    list_transcripts = here(chores.list_transcripts)
    find_export = here(chores.find_export)
    find_media = beside(media.find_media)
    find_media_words = here(media.find_media_words)
    # ── what sessions do with each other, and what goes out ────────────────────────────────────
    find_exchange = here(exchanges.find_exchange)
    have_talked = here(exchanges.have_talked)
    find_spawn = here(spawns.find_spawn)
    list_spawns = here(spawns.list_spawns)
    find_delivery = here(outbox.find_delivery)
    list_open_deliveries = here(outbox.list_open_deliveries)
    list_pieces = here(pieces.list_pieces)
    find_open_delivery = here(outbox.find_open_delivery)
    find_preview = here(previews.find_preview)
    find_cursor = here(channels.find_cursor)
    is_paired = here(channels.is_paired)
    list_pairing_requests = here(channels.list_pairing_requests)
    list_paired_senders = here(channels.list_paired_senders)
    list_heard = here(channels.list_heard)
    # ── jobs, timers, credentials, tools ───────────────────────────────────────────────────────
    find_job = here(jobs.find_job)
    list_jobs = here(jobs.list_jobs)
    list_due_jobs = here(jobs.list_due_jobs)
    next_job_at = here(jobs.next_job_at)
    list_ticks = here(jobs.list_ticks)
    count_ticks_under_way = here(jobs.count_ticks_under_way)
    list_timers = here(chores.list_timers)
    count_timers = here(chores.count_timers)
    list_credentials = here(credentials.list_credentials)
    list_held_tools = here(agreed_tools.list_held_tools)
    find_approval = here(approvals.find_approval)
    list_waiting_approvals = here(approvals.list_waiting_approvals)
    list_grants = here(approvals.list_grants)

    async def with_media(self, entries: Sequence[Entry], kinds: Kinds = KINDS) -> list[Entry]:
        """The entries with their media, read in a thread, if there are any: most entries have
        none."""
        if not any(media.names_media(entry, kinds) for entry in entries):
            return list(entries)
        return await self.scan(lambda db: media.with_media(db, entries, kinds))

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
            return await self.scan(lambda db: sessions.newest_sessions(db, limit, only, offset))
        return await _newest_sessions(self, limit, only, offset)


class SqliteReads(ReadTable):
    def __init__(self, path: Path, *, inline: bool) -> None:
        self._path = path
        self._inline = inline
        self._reader = open_reader(path)
        self._scanners: list[apsw.Connection] = []
        self._scans = anyio.CapacityLimiter(SCANS_AT_ONCE)

    async def look(self, read: Callable[..., T], args: tuple[Any, ...], named: dict[str, Any]) -> T:
        try:
            return read(self._reader, *args, **named)
        except READ_TROUBLE as error:
            raise explain(error) from error

    async def scan(self, read: Callable[[Database], T]) -> T:
        try:
            if self._inline:
                return read(self._reader)
            async with self._scans:
                db = self._scanners.pop() if self._scanners else open_reader(self._path)
                try:
                    return await anyio.to_thread.run_sync(read, db)
                finally:
                    self._scanners.append(db)
        except READ_TROUBLE as error:
            raise explain(error) from error

    def close_readers(self) -> None:
        for db in (self._reader, *self._scanners):
            db.close()


_newest_sessions = here(sessions.newest_sessions)
