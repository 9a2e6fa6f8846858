"""`import`, apart from sessions: cron jobs, keys of model services, people paired from chats; and what is
left, by name."""

from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.cli.import_access import AccessReport, access_in_files, bring_access
from crossclaw.cli.place import StateLocation
from crossclaw.config.openclaw_here import brought, note_brought
from crossclaw.config.profiles import BYTES_MAX, KeptProfiles, keep_profiles
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.openclaw import SHARED_STORE, AgentStore, SharedStore
from crossclaw.sandbox.files import read_file
from crossclaw.schedule.importing import ImportedJobs, JobsReport
from crossclaw.schedule.zones import local_zone, user_zone
from crossclaw.sessions.foreign import read_store
from crossclaw.sessions.imported import ImportReport
from crossclaw.sessions.importing_newer import find_newer

JOBS_FILE, JOBS_BYTES_MAX = "cron/jobs.json", 100_000_000
PROFILES = "agents/*/agent/auth-profiles.json"
LEFT = {
    "plugins": "plugins, which are not loaded here",
    "extensions": "plugins, which are not loaded here",
    "credentials/whatsapp": "WhatsApp's login: link the device anew",
    "credentials/oauth.json": "logins of a browser: sign in with their own client, or use a key",
    "devices": "paired devices: pair them anew",
    "nodes": "paired nodes: pair them anew",
    "memory": "the index of memories; the files in the workspaces are read in place",
    "sandboxes": "sandboxes",
    "subagents": "what sub-agents were doing when it was stopped",
}
"""Parts of an OpenClaw folder that are not imported."""


class RestReport(msgspec.Struct, kw_only=True, rename="camel"):
    jobs: list[str] = []
    jobs_before: int = 0
    jobs_off: list[str] = []
    keys: list[str] = []
    """Names of profiles, never the keys."""
    keys_before: int = 0
    allowed: list[str] = []
    """People who were paired there, as `channel:account:sender`."""
    allowed_before: int = 0
    left: list[str] = []


def has_jobs(folder: Path) -> bool:
    return (folder / JOBS_FILE).is_file() or (folder / SHARED_STORE).is_file()


class Rest:
    """Imports what is not a session. Without a ledger it is a dry run: everything is read and nothing written."""

    def __init__(self, place: StateLocation, folder: Path, report: ImportReport) -> None:
        self._place = place
        self._folder = folder
        self._report = report

    async def bring(self, ledger: Ledger | None) -> RestReport:
        state_dir = self._place.paths.state_dir
        known = brought(state_dir)
        jobs = await self._jobs(ledger, known["jobs"])
        keys = self._keys(dry_run=ledger is None)
        allowed = await self._allowed(ledger, known["allowed"])
        if ledger is not None:
            note_brought(state_dir, jobs=jobs.ids, allowed=allowed.come)
        return RestReport(
            jobs=jobs.come,
            jobs_before=jobs.before,
            jobs_off=jobs.off,
            keys=keys.kept,
            keys_before=keys.before,
            allowed=allowed.come,
            allowed_before=allowed.before,
            left=[*jobs.left, *keys.left, *allowed.left, *self._left()],
        )

    async def _allowed(self, ledger: Ledger | None, known: Collection[str]) -> AccessReport:
        try:
            found = [*self._shared(SharedStore.chat_access), *access_in_files(self._folder)]
            return await bring_access(ledger, found, known, SystemClock().now_ms())
        except (CrossclawError, OSError) as error:
            self._report.problem(f"{self._folder}: who was paired: {error}")
            return AccessReport([], 0, [])

    async def _jobs(self, ledger: Ledger | None, known: Collection[str]) -> JobsReport:
        agents, environ = self._place.config.agents, self._place.environ
        zone = user_zone(agents.defaults.user_timezone, local_zone(environ))
        now_ms = SystemClock().now_ms()
        found = ImportedJobs(agents.ids(), agents.default_id, zone, now_ms)
        return await found.bring(ledger, [*self._rows(), *self._in_file()], known)

    def _rows(self) -> list[Any]:
        found: list[Any] = []
        for raw, _state in self._shared(SharedStore.jobs):
            try:
                found.append(msgspec.json.decode(raw))
            except (msgspec.DecodeError, RecursionError) as error:
                self._report.problem(f"{self._folder / SHARED_STORE}: a job: {error}")
        return found

    def _in_file(self) -> list[Any]:
        """The jobs in the file of OpenClaw 2026.2."""
        try:
            raw = read_file(self._folder, JOBS_FILE, JOBS_BYTES_MAX)
            store = read_store(raw) if raw else {}
        except (CrossclawError, OSError) as error:
            self._report.problem(f"{self._folder / JOBS_FILE}: {error}")
            return []
        jobs = store.get("jobs") if isinstance(store, dict) else None
        return jobs if isinstance(jobs, list) else []

    def _keys(self, *, dry_run: bool) -> KeptProfiles:
        lists = [*self._shared(SharedStore.profiles)]
        for path in find_newer(self._folder):
            with suppress(CrossclawError), closing(AgentStore(path)) as store:
                lists += store.profiles()  # one that cannot be read is told with its sessions
        for path in sorted(self._folder.glob(PROFILES)):
            name = str(path.relative_to(self._folder))
            try:
                lists.append(read_file(self._folder, name, BYTES_MAX) or b"")
            except (CrossclawError, OSError) as error:
                self._report.problem(f"{path}: {error}")
        return keep_profiles(self._place.paths.state_dir, lists, dry_run=dry_run)

    def _shared(self, read: Any) -> list[Any]:
        path = self._folder / SHARED_STORE
        if not path.is_file() or path.is_symlink():
            return []
        try:
            with closing(SharedStore(path)) as store:
                return list(read(store))
        except (Invalid, OSError) as error:
            self._report.problem(f"{path}: {error}")
            return []

    def _left(self) -> Iterator[str]:
        said = {text: name for name, text in LEFT.items() if (self._folder / name).exists()}
        yield from (f"{name}: {text}" for text, name in said.items())
