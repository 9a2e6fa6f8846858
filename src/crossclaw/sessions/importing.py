"""Importing: the sessions of an OpenClaw state folder, with keys, ids, settings, messages and usage.

Nothing is changed in that folder. What was imported before is known, so an import that was cut off
goes on, and one that is repeated changes nothing.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.clock import Clock
from crossclaw.domain.counts import count_of
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, InvalidKey, NotFound
from crossclaw.domain.ids import RandomIds
from crossclaw.ledger.approvals import PutGrants
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.imports import (
    BeginImport,
    ImportedEntry,
    ImportedSession,
    ImportEntries,
    ImportState,
)
from crossclaw.sandbox.files import read_file
from crossclaw.sessions.foreign import (
    TranscriptFolder,
    begun_at,
    canonical_first,
    columns_of,
    is_file_name,
    key_of,
    number_of,
    read_store,
)
from crossclaw.sessions.foreign_approvals import find_approvals, name_of, read_approvals
from crossclaw.sessions.import_sources import TranscriptFile, TranscriptSource
from crossclaw.sessions.imported import FoundTranscript, ImportReport, Progress
from crossclaw.sessions.importing_newer import NewerStores, find_newer
from crossclaw.transcripts.foreign import LineRead

BATCH_ENTRIES = 2_000  # one fsync for so many; a cut-off import repeats none of them
BATCH_BYTES = 8_000_000
GROUP_SESSIONS = 500  # made in one commit; others who write wait no longer than a few milliseconds
STORE_BYTES_MAX = 1_000_000_000  # of a sessions.json: a gigabyte is a million sessions


class Import:
    """One import of a state folder. Without a ledger it is a dry run: everything is read and nothing written."""

    def __init__(
        self,
        ledger: Ledger | None,
        clock: Clock,
        progress: Progress,
        report: ImportReport | None = None,
        known_grants: Collection[str] = (),
    ) -> None:
        """`known_grants` were imported before: one that was revoked here since is not imported again."""
        self._ledger = ledger
        self._clock = clock
        self._progress = progress
        self._done = self._all = 0
        self._folder = Path()
        self.report = report or ImportReport()
        self._known_grants = known_grants
        self.grants: list[str] = []
        """The grants that were imported, by names that stay the same."""

    async def run(self, folder: Path) -> ImportReport:
        self._folder = folder
        with ExitStack() as opened:
            found = self._find(folder, opened)
            if not found:
                raise Invalid("; ".join(self.report.problems[:3]) or _why_nothing(folder))
            self.report.agents = sorted({each.session.key.agent_id for each in found})
            self._all = sum(each.size for each in found)
            await self._bring_approvals(folder)
            for first in range(0, len(found), GROUP_SESSIONS):
                await self._bring(found[first : first + GROUP_SESSIONS])
        return self.report

    async def _bring_approvals(self, folder: Path) -> None:
        """Imports which commands were allowed for good, and how strictly others were treated."""
        try:
            for raw in find_approvals(folder):
                self.report.approvals += await self._keep_approvals(raw)
        except (CrossclawError, OSError, ValueError) as error:
            self.report.problem(f"{folder}: approvals of commands: {error}")

    async def _keep_approvals(self, raw: bytes) -> int:
        at = self._clock.now_ms()
        read = read_approvals(raw, Path.home(), at, RandomIds(), self.report.remark)
        self.grants += [name_of(each) for each in read]
        found = [each for each in read if name_of(each) not in self._known_grants]
        if self._ledger is None:
            return len(found)
        return await self._ledger.do(PutGrants(grants=tuple(found)))

    # ── finding ────────────────────────────────────────────────────────────────────────────────

    def _find(self, folder: Path, opened: ExitStack) -> list[FoundTranscript]:
        """Finds all transcripts. A session that an older release left in a file and a newer one has taken
        over is the newer one's."""
        newer = list(NewerStores(self.report, opened).find(folder))
        there = {each.session.session_id for each in newer}
        older = [
            found
            for agent_name, store in _stores(folder)
            for found in self._of_store(normalize_agent_id(agent_name), store)
        ]
        return [*newer, *(each for each in older if each.session.session_id not in there)]

    def _of_store(self, agent_id: str, store: Path) -> Iterator[FoundTranscript]:
        entries, shelf = self._read_store(store), TranscriptFolder(store.parent)
        used: set[str] = set()
        files: set[str] = set()
        for name in sorted(entries, key=canonical_first):
            found = self._try_session(agent_id, name, entries[name], store, shelf)
            if found is None or found.session.session_id in used:
                continue  # a second name of the same transcript: `main` beside agent:main:main
            used.add(found.session.session_id)
            files |= {found.source.path.name} if isinstance(found.source, TranscriptFile) else set()
            yield found
        if orphans := shelf.count_unnamed(used, files):
            left = count_of(orphans, "transcript")
            self.report.remark(f"{store.parent}: {left} that no session names, left out")

    def _read_store(self, store: Path) -> dict[str, Any]:
        try:
            raw = read_file(self._folder, str(store.relative_to(self._folder)), STORE_BYTES_MAX)
            entries = read_store(raw or b"")
        except (CrossclawError, OSError) as error:
            self.report.problem(f"{store}: {error}")
            return {}
        if not isinstance(entries, dict):
            self.report.problem(f"{store}: no list of sessions")
            return {}
        return entries

    def _try_session(
        self, agent_id: str, name: str, entry: Any, store: Path, shelf: TranscriptFolder
    ) -> FoundTranscript | None:
        """Reads one session; one that cannot be read does not keep the others out."""
        try:
            return self._session(agent_id, name, entry, store, shelf)
        except (OverflowError, RecursionError, OSError, ValueError) as error:
            self.report.problem(f"{store}: session {name[:80]!r}: {type(error).__name__}: {error}")
            return None

    def _session(
        self, agent_id: str, name: str, entry: Any, store: Path, shelf: TranscriptFolder
    ) -> FoundTranscript | None:
        session_id = entry.get("sessionId") if isinstance(entry, dict) else None
        if not isinstance(session_id, str) or not is_file_name(session_id):
            self.report.problem(f"{store}: session {name!r} has no usable sessionId")
            return None
        try:
            key, past = key_of(agent_id, name)
        except InvalidKey as error:
            self.report.problem(f"{store}: {error}")
            return None
        path = shelf.find(entry, session_id)
        about = (path or store).stat()
        # Not the time of the import: that would be another one with every import.
        updated_at = number_of(entry.get("updatedAt")) or int(about.st_mtime * 1000)
        if path is None:
            self.report.remark(f"{key} has no transcript in {store.parent}")
        session = ImportedSession(
            key=key,
            session_id=session_id,
            created_at=begun_at(path) or updated_at,
            updated_at=updated_at,
            columns=columns_of(entry),
            past=past,
        )
        if path is None:
            return FoundTranscript(session, None)
        return FoundTranscript(session, TranscriptFile(path, about.st_size), about.st_size)

    # ── bringing ───────────────────────────────────────────────────────────────────────────────

    async def _bring(self, group: Sequence[FoundTranscript]) -> None:
        """Imports some sessions in a few commits: a commit each would be a wait for the disk each."""
        parcel = _Parcel(self._ledger)
        for found, state in zip(group, await self._begin(group), strict=True):
            if state is not None and found.source is not None:
                await self._bring_one(found, found.source, state, parcel)
            self._done += found.size
            self._progress(self._done, self._all, self.report)
        await parcel.send()

    async def _begin(self, group: Sequence[FoundTranscript]) -> Sequence[ImportState | None]:
        self.report.sessions += len(group)
        if self._ledger is None:
            return [ImportState()] * len(group)
        at = self._clock.now_ms()
        begun = [
            BeginImport(
                session=found.session, path=found.source.name if found.source else "", at=at
            )
            for found in group
        ]
        states: list[ImportState | None] = await self._ledger.commit(*begun)
        for found, state in zip(group, states, strict=True):
            if state is None:
                self.report.remark(f"{found.session.session_id} is a session of this store already")
        return states

    async def _bring_one(
        self,
        found: FoundTranscript,
        source: TranscriptSource,
        state: ImportState,
        parcel: "_Parcel",
    ) -> None:
        for remark in state.remarks:
            self.report.remark(remark)
        self._tell_again(found, source, state)
        if state.bytes and state.size == found.size:
            self.report.transcripts_before += 1
        elif state.last_seq > state.entries:
            self.report.remark(f"{found.session.key} has been talked in here since; it stays as it is")  # fmt: skip
        else:
            await self._try_entries(found, source, state, parcel)

    def _tell_again(
        self, found: FoundTranscript, source: TranscriptSource, state: ImportState
    ) -> None:
        """Reports again what an earlier import could not read and this one cannot either. A transcript of
        which all but the header came in is not read again."""
        is_torn = state.size == found.size > state.bytes
        if not state.bytes or (state.lines - state.entries <= 1 and not is_torn):
            return
        try:
            for read in source.read():
                if read.end > state.bytes or (read.torn and not is_torn):
                    break
                self._tell_problem(source, read)
        except (NotFound, Forbidden, Invalid) as error:
            self.report.problem(f"{source.name}: {error}")

    def _tell_problem(self, source: TranscriptSource, read: LineRead) -> None:
        if read.problem is not None:
            self.report.problem(f"{source.name}:{read.number}: {read.problem}")

    async def _try_entries(
        self,
        found: FoundTranscript,
        source: TranscriptSource,
        state: ImportState,
        parcel: "_Parcel",
    ) -> None:
        """Reads a transcript's entries. A file that has become something else since it was found does not
        keep the others out."""
        try:
            await self._bring_entries(found, source, state, parcel)
        except (NotFound, Forbidden, Invalid) as error:
            self.report.problem(f"{source.name}: {error}")

    async def _bring_entries(
        self,
        found: FoundTranscript,
        source: TranscriptSource,
        state: ImportState,
        parcel: "_Parcel",
    ) -> None:
        batch = _Batch(found.session.session_id, state)
        for read in source.read(state.bytes, state.lines):
            self._tell_problem(source, read)
            batch.add(read)
            if batch.full:
                await self._put(batch, 0, parcel)
        await self._put(batch, found.size, parcel)

    async def _put(self, batch: "_Batch", size: int, parcel: "_Parcel") -> None:
        done = batch.taken(size)
        messages = sum(each.entry.message is not None for each in done.entries)
        self.report.messages += messages
        self.report.notes += len(done.entries) - messages
        self.report.bytes += done.after.bytes - done.before.bytes
        await parcel.add(done)
        self._progress(self._done + done.after.bytes, self._all, self.report)


class _Batch:
    """What was read of one transcript since it was last taken."""

    def __init__(self, session_id: str, before: ImportState) -> None:
        self._session_id = session_id
        self._begin_anew(before)

    def _begin_anew(self, before: ImportState) -> None:
        self._before = before
        self._entries: list[ImportedEntry] = []
        self._end, self._lines = before.bytes, before.lines

    def add(self, read: LineRead) -> None:
        if read.torn:
            return  # it is read again when it has its end
        self._end, self._lines = read.end, read.number
        if read.entry is not None:
            self._entries.append(read.entry)

    @property
    def full(self) -> bool:
        return len(self._entries) >= BATCH_ENTRIES or self._end - self._before.bytes >= BATCH_BYTES

    def taken(self, size: int) -> ImportEntries:
        """The batch as an operation to store. `size` is 0 until the whole file has been read."""
        before, entries = self._before, self._entries
        count = before.entries + len(entries)
        after = ImportState(size=size, bytes=self._end, lines=self._lines, entries=count)
        self._begin_anew(after)
        return ImportEntries(
            session_id=self._session_id, entries=entries, before=before, after=after
        )


class _Parcel:
    """Entries of many short transcripts, or of a part of a long one, that are stored in one commit."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger
        self._ops: list[ImportEntries] = []
        self._entries = self._bytes = 0

    async def add(self, op: ImportEntries) -> None:
        self._ops.append(op)
        self._entries += len(op.entries)
        self._bytes += op.after.bytes - op.before.bytes
        if self._entries >= BATCH_ENTRIES or self._bytes >= BATCH_BYTES:
            await self.send()

    async def send(self) -> None:
        ops, self._ops = self._ops, []
        self._entries = self._bytes = 0
        if ops and self._ledger is not None:
            await self._ledger.commit(*ops)


def require_sessions(folder: Path) -> None:
    """Raises at once if there is nothing to import, before anything is opened."""
    if not has_sessions(folder):
        raise Invalid(_why_nothing(folder))


def has_sessions(folder: Path) -> bool:
    return bool(_stores(folder) or find_newer(folder))


def _stores(folder: Path) -> list[tuple[str, Path]]:
    """Each store of sessions, with the name of its agent."""
    found = [(each.parent.parent.name, each) for each in folder.glob("agents/*/sessions/sessions.json")]  # fmt: skip
    if (shared := folder / "sessions" / "sessions.json").is_file():
        found.append(("main", shared))
    return sorted(found)


def _why_nothing(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}"
    return (
        f"there are no sessions in {folder}: an OpenClaw state folder has agents/<agent>/sessions/sessions.json "
        "(2026.2) or agents/<agent>/agent/openclaw-agent.sqlite (2026.9)"
    )
