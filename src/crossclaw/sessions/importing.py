"""Importing: the sessions of an OpenClaw state folder, with keys, ids, settings, messages and usage.

Nothing is changed in that folder. What was imported before is known, so an import that was cut off
goes on, and one that is repeated changes nothing.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, InvalidKey, NotFound
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.imports import (
    BeginImport,
    ImportedEntry,
    ImportedSession,
    ImportEntries,
    ImportState,
)
from crossclaw.sandbox.contract import Beneath
from crossclaw.sandbox.files import open_file, read_file
from crossclaw.sessions.foreign import (
    begun_at,
    canonical_first,
    columns_of,
    find_transcript,
    is_file_name,
    key_of,
    number_of,
    read_store,
)
from crossclaw.transcripts.foreign import Read, read_transcript

BATCH_ENTRIES = 2_000  # one fsync for so many; a cut-off import repeats none of them
BATCH_BYTES = 8_000_000
TOLD_MAX = 200  # problems told one by one; the rest are counted
STORE_BYTES_MAX = 1_000_000_000  # of a sessions.json: a gigabyte is a million sessions


NEWER_STORES = "agents/*/agent/openclaw-agent.sqlite"
"""Where OpenClaw 2026.9 keeps its sessions."""


class Report(msgspec.Struct, kw_only=True, rename="camel"):
    """What an import has found and done."""

    sessions: int = 0
    transcripts_before: int = 0
    """Known from an earlier import and not changed since."""
    messages: int = 0
    notes: int = 0
    unreadable: int = 0
    bytes: int = 0
    problems: list[str] = []
    remarks: list[str] = []
    agents: list[str] = []
    """Whose sessions were found."""

    def problem(self, text: str) -> None:
        self.unreadable += 1
        if len(self.problems) < TOLD_MAX:
            self.problems.append(text)

    def remark(self, text: str) -> None:
        if len(self.remarks) < TOLD_MAX:
            self.remarks.append(text)


Progress = Callable[[int, int, Report], None]
"""(bytes done, bytes in all, the report so far)"""


class Found(NamedTuple):
    session: ImportedSession
    path: Path | None


class Import:
    """Without a ledger it is a dry run: everything is read and nothing written."""

    def __init__(self, ledger: Ledger | None, clock: Clock, progress: Progress) -> None:
        self._ledger = ledger
        self._clock = clock
        self._progress = progress
        self._done = self._all = 0
        self._folder = Path()
        self.report = Report()

    async def run(self, folder: Path) -> Report:
        self._folder = folder
        found = list(self._find(folder))
        newer = _newer(folder)
        if not found:
            raise Invalid("; ".join(self.report.problems[:3]) or _why_nothing(folder, newer))
        for store in newer:
            self.report.remark(f"{store}: sessions of OpenClaw 2026.9, which cannot be read yet")
        self.report.agents = sorted({each.session.key.agent_id for each in found})
        self._all = sum(each.path.stat().st_size for each in found if each.path)
        for each in found:
            await self._bring(each)
        return self.report

    # ── finding ────────────────────────────────────────────────────────────────────────────────

    def _find(self, folder: Path) -> Iterator[Found]:
        stores = [(each.parent.parent.name, each) for each in folder.glob("agents/*/sessions/sessions.json")]  # fmt: skip
        if (shared := folder / "sessions" / "sessions.json").is_file():
            stores.append(("main", shared))
        for agent_name, store in sorted(stores):
            yield from self._of_store(normalize_agent_id(agent_name), store)

    def _of_store(self, agent_id: str, store: Path) -> Iterator[Found]:
        entries = self._read_store(store)
        used: set[str] = set()
        for name in sorted(entries, key=canonical_first):
            found = self._try_session(agent_id, name, entries[name], store)
            if found is None or found.session.session_id in used:
                continue  # a second name of the same transcript: `main` beside agent:main:main
            used.add(found.session.session_id)
            yield found
        orphans = [p for p in store.parent.glob("*.jsonl") if not any(p.name.startswith(u) for u in used)]  # fmt: skip
        if orphans:
            self.report.remark(f"{store.parent}: {len(orphans)} transcripts that no session names are left")  # fmt: skip

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

    def _try_session(self, agent_id: str, name: str, entry: Any, store: Path) -> Found | None:
        """One that nobody can read does not keep the others out."""
        try:
            return self._session(agent_id, name, entry, store)
        except (OverflowError, RecursionError, OSError, ValueError) as error:
            self.report.problem(f"{store}: session {name[:80]!r}: {type(error).__name__}: {error}")
            return None

    def _session(self, agent_id: str, name: str, entry: Any, store: Path) -> Found | None:
        session_id = entry.get("sessionId") if isinstance(entry, dict) else None
        if not isinstance(session_id, str) or not is_file_name(session_id):
            self.report.problem(f"{store}: session {name!r} has no usable sessionId")
            return None
        try:
            key, past = key_of(agent_id, name)
        except InvalidKey as error:
            self.report.problem(f"{store}: {error}")
            return None
        path = find_transcript(entry, session_id, store.parent)
        # Not the time of the import: that would be another one with every import.
        updated_at = number_of(entry.get("updatedAt")) or int(
            (path or store).stat().st_mtime * 1000
        )
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
        return Found(session, path)

    # ── bringing ───────────────────────────────────────────────────────────────────────────────

    async def _bring(self, found: Found) -> None:
        path, size = found.path, found.path.stat().st_size if found.path else 0
        state = await self._begin(found)
        if state is not None and path is not None:
            for remark in state.remarks:
                self.report.remark(remark)
            if state.bytes and state.size == size:
                self.report.transcripts_before += 1
            elif state.last_seq > state.entries:
                self.report.remark(f"{found.session.key} has been talked in here since; it stays as it is")  # fmt: skip
            else:
                await self._try_entries(found.session, path, state, size)
        self._done += size
        self._progress(self._done, self._all, self.report)

    async def _begin(self, found: Found) -> ImportState | None:
        self.report.sessions += 1
        if self._ledger is None:
            return ImportState()
        begin = BeginImport(
            session=found.session, path=str(found.path or ""), at=self._clock.now_ms()
        )
        state = await self._ledger.do(begin)
        if state is None:
            self.report.remark(f"{found.session.session_id} is a session of this store already")
        return state

    async def _try_entries(
        self, session: ImportedSession, path: Path, state: ImportState, size: int
    ) -> None:
        """What has become something else than a file since it was found does not keep the others out."""
        try:
            await self._bring_entries(session, path, state, size)
        except (NotFound, Forbidden, Invalid) as error:
            self.report.problem(f"{path}: {error}")

    async def _bring_entries(
        self, session: ImportedSession, path: Path, state: ImportState, size: int
    ) -> None:
        batch = _Batch(state)
        with open_file(Beneath(path.parent), path.name) as file:
            for read in read_transcript(file, begin=state.bytes, lines=state.lines):
                if read.problem is not None:
                    self.report.problem(f"{path}:{read.number}: {read.problem}")
                batch.add(read)
                if batch.full:
                    await self._write(session, batch, 0)
        await self._write(session, batch, size)

    async def _write(self, session: ImportedSession, batch: "_Batch", size: int) -> None:
        after = batch.after(size)
        if self._ledger is not None:
            await self._ledger.do(
                ImportEntries(
                    session_id=session.session_id,
                    entries=batch.entries,
                    before=batch.before,
                    after=after,
                )
            )
        messages = sum(each.entry.message is not None for each in batch.entries)
        self.report.messages += messages
        self.report.notes += len(batch.entries) - messages
        self.report.bytes += after.bytes - batch.before.bytes
        batch.begin_anew(after)
        self._progress(self._done + after.bytes, self._all, self.report)


class _Batch:
    def __init__(self, before: ImportState) -> None:
        self.begin_anew(before)

    def begin_anew(self, before: ImportState) -> None:
        self.before = before
        self.entries: list[ImportedEntry] = []
        self._end, self._lines = before.bytes, before.lines

    def add(self, read: Read) -> None:
        if read.torn:
            return  # it is read again when it has its end
        self._end, self._lines = read.end, read.number
        if read.entry is not None:
            self.entries.append(read.entry)

    @property
    def full(self) -> bool:
        return len(self.entries) >= BATCH_ENTRIES or self._end - self.before.bytes >= BATCH_BYTES

    def after(self, size: int) -> ImportState:
        """`size` is 0 until the whole file has been read."""
        entries = self.before.entries + len(self.entries)
        return ImportState(size=size, bytes=self._end, lines=self._lines, entries=entries)


def _newer(folder: Path) -> list[Path]:
    return sorted(folder.glob(NEWER_STORES))


def _why_nothing(folder: Path, newer: list[Path]) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if newer:
        return (
            f"{folder} has the layout of OpenClaw 2026.9, whose sessions ({newer[0].relative_to(folder)}) "
            "cannot be read yet; what can be read is that of 2026.2, agents/<agent>/sessions/sessions.json"
        )
    return (
        f"there are no sessions in {folder}: an OpenClaw state folder has "
        "agents/<agent>/sessions/sessions.json"
    )
