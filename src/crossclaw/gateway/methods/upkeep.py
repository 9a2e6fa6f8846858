"""sessions.abort, archive, unarchive and cleanup: stopping, archiving, bringing back, deleting."""

from typing import Annotated

import msgspec

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.publisher import shown_key
from crossclaw.policy.answering import is_lasting
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.archive import Archive
from crossclaw.sessions.changing import Changing
from crossclaw.sessions.stopping import BY_CLIENT, Stopping

KEPT_DAYS = 30  # archived sessions; long enough to miss something and look it up
DAYS_MAX = 36_525  # a hundred years; a date before 1970 means nothing here
CLEANUP_MAX = 1_000  # sessions of one call: each is a commit of its own

DAY_MS = 24 * 3600 * 1000


class SessionAbortParams(Params, frozen=True):
    key: str | None = None
    run_id: str | None = None
    agent_id: str | None = None
    clear_queued: bool = True


class SessionAbortResult(Result, frozen=True):
    ok: bool
    status: str
    aborted_run_id: str | None = None
    run_ids: tuple[str, ...] = ()


class ArchiveParams(Params, frozen=True):
    key: str


class ArchiveResult(Result, frozen=True):
    ok: bool
    key: str
    archived: bool


class UnarchiveResult(Result, frozen=True):
    ok: bool
    key: str
    unarchived: bool


class CleanupParams(Params, frozen=True):
    """`fixMissing` and `fixDmScope` are OpenClaw's and have nothing to fix here."""

    agent: str | None = None
    all_agents: bool = False
    enforce: bool = False
    active_key: str | None = None
    older_than_days: Annotated[float, msgspec.Meta(ge=0, le=DAYS_MAX)] = KEPT_DAYS
    fix_missing: bool = False
    fix_dm_scope: bool = False


class CleanupResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ok: bool
    dry_run: bool
    count: int
    keys: list[str]


class Upkeep:
    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        stopping: Stopping,
        archive: Archive,
        changing: Changing,
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._resolver = resolver
        self._stopping = stopping
        self._archive = archive
        self._changing = changing
        self._clock = context.clock

    @method(
        "sessions.abort",
        "operator.write",
        "change",
        "Stop a run, or all that a session and its sub-agents have running and queued.",
    )
    async def abort(self, caller: Caller, params: SessionAbortParams) -> SessionAbortResult:
        """Stops one run by its id, or a session's runs: the running ones and, by default, the queued ones."""
        if params.run_id:
            return await self._abort_run(caller, params.run_id, params.key)
        if not params.key:
            raise Invalid("say which: key or runId")
        handle = await self._resolver.resolve(caller.principal, params.key, "change")
        if params.clear_queued:
            stopped = await self._stopping.stop(handle.key, BY_CLIENT)
        else:
            stopped = await self._stopping.stop_running(handle.key, BY_CLIENT)
        return _aborted(stopped)

    async def _abort_run(self, caller: Caller, run_id: str, key: str | None) -> SessionAbortResult:
        run = await self._ledger.find_run(run_id)
        if run is None:
            return _aborted([])
        handle = await self._resolver.resolve(
            caller.principal, key or self._resolver.shown(run.key.text), "change"
        )
        return _aborted(await self._stopping.stop_run(handle.key, run_id, BY_CLIENT))

    @method(
        "sessions.archive",
        "operator.admin",
        "change",
        "Archive a session: not listed, not written to, still readable.",
    )
    async def archive(self, caller: Caller, params: ArchiveParams) -> ArchiveResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "change")
        if is_lasting(self._config.agents, handle.key):
            raise Invalid(
                f"the main session ({shown_key(handle.key)}) cannot be archived; reset it instead"
            )
        done = await self._archive.now(handle.key)
        return ArchiveResult(ok=True, key=shown_key(handle.key), archived=done)

    @method(
        "sessions.unarchive",
        "operator.admin",
        "change",
        "Bring back an archived session: listed and written to again.",
    )
    async def unarchive(self, caller: Caller, params: ArchiveParams) -> UnarchiveResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "change")
        done = await self._archive.bring_back(handle.key)
        return UnarchiveResult(ok=True, key=shown_key(handle.key), unarchived=done)

    @method(
        "sessions.cleanup",
        "operator.admin",
        "change",
        "Delete what was archived long ago; names it only, unless enforce is true.",
    )
    async def cleanup(self, caller: Caller, params: CleanupParams) -> CleanupResult:
        """Deletes what was archived long ago; without `enforce` it is only listed."""
        before = self._clock.now_ms() - int(params.older_than_days * DAY_MS)
        agent = normalize_agent_id(params.agent) if params.agent else None
        found = await self._ledger.list_archived(
            before=before, agent_id=None if params.all_agents else agent, limit=CLEANUP_MAX
        )
        kept = self._meant(params.active_key) if params.active_key else None
        going = [session for session in found if session.key != kept]
        if params.enforce:
            for session in going:
                await self._changing.delete(session)
        keys = [shown_key(session.key) for session in going]
        return CleanupResult(ok=True, dry_run=not params.enforce, count=len(keys), keys=keys)

    def _meant(self, key: str) -> SessionKey:
        return self._config.meant_key(SessionKey.parse(key))


def _aborted(stopped: list[str]) -> SessionAbortResult:
    return SessionAbortResult(
        ok=True,
        status="aborted" if stopped else "no-active-run",
        aborted_run_id=stopped[-1] if stopped else None,
        run_ids=tuple(stopped),
    )
