"""The exporter: keeps the copy of every transcript up to date with the ledger.

There is one way, for new entries and for repair: read what a file lacks from the ledger, append it,
remember how far it has come. That is stored in the ledger about once a second; after a crash its
mark is merely behind, and the file itself shows how far it really got. A file that cannot be
written is tried again later and affects no other.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from crossclaw.disk.threads import Disk
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Export, MarkExported
from crossclaw.transcripts.compressing import Compressing
from crossclaw.transcripts.copies import Chunk, Copies, Copy
from crossclaw.transcripts.files import CopyName, CopyPiece, Differs, Files
from crossclaw.transcripts.jsonl import iso_time
from crossclaw.transcripts.repairing import Repairing

log = logging.getLogger(__name__)

GATHER_S = 0.1  # hardly seen by whoever follows a file, and what comes close together is one write
MARK_EVERY_S = 1.0  # so long may a mark lag behind its file: what a crash makes us compare
STEP_SESSIONS = 64  # handled together: one trip to the thread for all the busy ones
STEP_BYTES_MAX = 8 * 1024 * 1024  # in memory at once, beyond it the rest waits for the next step
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 60.0  # a full disk is not helped by trying more often
REPAIR_EVERY_S = 60.0  # each may leave a damaged copy: whoever fights us must not fill the disk
PAGE = 200  # sessions looked at in one go: about a millisecond of stat calls
VERIFY_AFTER_S = 2.0  # a start has the disk to itself
VERIFY_PAUSE_S = 0.05  # between pages: 100,000 files in half a minute, unnoticed by the rest
COMPRESS_EVERY = 60  # sweeps: once an hour is often enough for what is days old
SWEEP_EVERY_S = 60.0  # finds what a hint missed

Failure = OSError | CrossclawError | msgspec.MsgspecError


class Exporter:
    """Writes the copies. Sessions with something to write are a set of ids, so its size is bounded
    by the number of sessions; no entry waits in memory, because the ledger has it."""

    def __init__(
        self,
        ledger: Ledger,
        sessions_dir: Path,
        clock: Clock,
        *,
        inline: bool = False,
        compress_after_ms: int | None = None,
        is_ours: bool = True,
    ) -> None:
        self._is_ours = is_ours
        """Whether the copies are written here; of several gateways one does."""
        self.files = Files(sessions_dir)
        self._ledger = ledger
        self._clock = clock
        self._disk = Disk(inline=inline)
        self._copies = Copies(ledger)
        self._repairing = Repairing(self._copies, self.files, self._disk, clock)
        self._compressing = Compressing(ledger, self._copies, self.files, self._disk, clock)
        self._compress_after_ms = compress_after_ms
        self._dirty: set[str] = set()
        self._resting: dict[str, tuple[float, float]] = {}
        """Sessions that failed: when to try again, and how long the pause is."""
        self._complaints: set[str] = set()
        self._hinted = anyio.Event()
        self._marked_at = 0.0
        self._lock = anyio.Lock()
        """Makes sure that a file has one writer; held for a step."""
        ledger.on_append(self._on_append)

    def begin(self) -> None:
        """Has this gateway write the copies from now on."""
        self._is_ours = True

    def path_of(self, agent_id: str, session_id: str, compressed: bool = False) -> Path:
        """The path of a copy, for display; nothing here takes a path back."""
        name = CopyName(agent_id, session_id)
        return self.files.path_of(name.compressed if compressed else name)

    async def repair(self, tell: Callable[[int], None] | None = None) -> None:
        """Writes what the ledger says is missing, before serving. Other files are not read. `tell`
        is called with how many are done."""
        async with self._lock:
            after, done = "", 0
            while page := await self._ledger.list_exports(behind=True, after=after, limit=PAGE):
                await self._bring_up_to_date(export.session_id for export in page)
                after, done = page[-1].session_id, done + len(page)
                if tell:
                    tell(done)
            await self._mark()

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._work, name="transcripts: writing")
            tasks.start_soon(self._look_after, name="transcripts: looking after")
            task_status.started()

    async def verify(self, *, deep: bool = False) -> None:
        """Goes through all files slowly, and repairs those whose size is wrong; `deep` compares
        every byte."""
        after = ""
        while True:
            async with self._lock:
                page = await self._ledger.list_exports(behind=False, after=after, limit=PAGE)
                if not page:
                    return
                await self._verify_page(page, deep)
            after = page[-1].session_id
            await anyio.sleep(VERIFY_PAUSE_S)

    async def flush(self) -> None:
        """Writes and marks everything hinted so far; what failed before is tried once more."""
        async with self._lock:
            await self._bring_up_to_date(self._dirty | self._resting.keys())
            await self._mark()

    async def compress(self, session_id: str) -> bool:
        """Compress the copy of a session that has come to rest; False when it could not be now."""
        if not self._is_ours:
            return False  # whoever has the copies finds it at its next look
        async with self._lock:
            await self._bring_up_to_date([session_id])
            await self._mark()
            export = await self._ledger.find_export(session_id)
            if export is None or not export.last_seq or export.exported_seq < export.last_seq:
                return False
            return export.compressed_at is not None or await self._compressing.compress(export)

    async def compress_old(self) -> int:
        """Compresses all that is old enough, or archived. Returns how many there were."""
        if self._compress_after_ms is None:
            return 0
        before, after, count = self._clock.now_ms() - self._compress_after_ms, "", 0
        while page := await self._ledger.list_old_exports(before=before, after=after, limit=PAGE):
            for export in page:
                count += await self._try_compress(export.session_id)
            after = page[-1].session_id
            await anyio.sleep(VERIFY_PAUSE_S)
        return count

    async def _try_compress(self, session_id: str) -> bool:
        try:
            return await self.compress(session_id)
        except (OSError, CrossclawError) as error:
            log.warning("the transcript of session %s stays as it is: %s", session_id, error)
            return False

    async def set_aside(self, agent_id: str, session_id: str) -> Path | None:
        """Renames the file of a session that is gone from the ledger; it stays beside the
        others."""
        async with self._lock:
            self._copies.forget(session_id)
            self._dirty.discard(session_id)
            self._resting.pop(session_id, None)
            stamp = iso_time(self._clock.now_ms()).replace(":", "-")
            name = CopyName(agent_id, session_id)
            kept = [
                await self._disk.run(self.files.set_aside, each, f"deleted.{stamp}")
                for each in (name, name.compressed)
            ]
            return kept[0] or kept[1]

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._upkeep("writing what is left", self.flush)
            await self._upkeep("closing the files", partial(self._disk.run, self.files.close))

    # ── working ────────────────────────────────────────────────────────────────────────────────

    def _on_append(self, session_ids: set[str]) -> None:
        if self._is_ours:
            self._dirty.update(session_ids)
            self._hinted.set()

    def on_entries_hint(self, session_ids: frozenset[str] | None) -> None:
        """Notes what other gateways have written; without ids, the next look finds it."""
        self._on_append(set(session_ids or ()))

    async def _work(self) -> None:
        while True:
            with anyio.move_on_after(self._pause_s()):
                await self._hinted.wait()
                await anyio.sleep(GATHER_S)
            self._hinted = anyio.Event()
            async with self._lock:
                await self._bring_up_to_date(self._take())
                if anyio.current_time() >= self._marked_at + MARK_EVERY_S:
                    await self._mark()
            if self._dirty:
                self._hinted.set()

    async def _look_after(self) -> None:
        """Repairs what hints do not report: damaged files, and entries whose hint was lost."""
        await anyio.sleep(VERIFY_AFTER_S)
        await self._upkeep("verifying", self.verify)
        for minute in count():
            if minute % COMPRESS_EVERY == 0:
                await self._upkeep("compressing", self.compress_old)
            await anyio.sleep(SWEEP_EVERY_S)
            await self._upkeep("looking for what is missing", self.repair)

    async def _upkeep(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Runs one round of upkeep. A failure is logged, and the next round comes."""
        try:
            await work()
        except Exception as error:
            log.warning(
                "transcripts: %s failed and is tried again later: %s",
                what,
                error,
                exc_info=None if isinstance(error, Failure) else error,
            )

    def _pause_s(self) -> float | None:
        moments = [until for until, _ in self._resting.values()]
        if self._copies.has_unmarked:
            moments.append(self._marked_at + MARK_EVERY_S)
        return max(0.0, min(moments) - anyio.current_time()) if moments else None

    def _take(self) -> list[str]:
        """The sessions with something to write, without those that still pause after a failure.
        They stay marked until they are written."""
        now = anyio.current_time()
        for session_id, (until, _) in self._resting.items():
            if until <= now:
                self._dirty.add(session_id)
            else:
                self._dirty.discard(session_id)
        return list(self._dirty)

    # ── one step, under the lock ───────────────────────────────────────────────────────────────

    async def _bring_up_to_date(self, session_ids: Iterable[str]) -> None:
        todo = deque(session_ids)
        while todo:
            more = await self._step([todo.popleft() for _ in range(min(len(todo), STEP_SESSIONS))])
            self._dirty.update(more)  # in case that we are cut off before their turn
            todo.extend(more)

    async def _step(self, session_ids: Sequence[str]) -> list[str]:
        """Appends what these sessions lack, within limits; returns those that have more. A hint
        that comes meanwhile marks a session again, and so does being cut off."""
        self._dirty.difference_update(session_ids)
        try:
            work, more = await self._prepare(session_ids)
            pieces = [
                CopyPiece(copy.name, copy.size, chunk.data, copy.ending) for copy, chunk in work
            ]
            outcomes = await self._disk.run(self.files.append_all, pieces) if pieces else []
            for (copy, chunk), outcome in zip(work, outcomes, strict=True):
                if await self._settle(copy, chunk, outcome):
                    more.append(copy.name.session_id)
        except Exception as error:  # whatever else is wrong with a file: its session is tried later
            log.debug("a step of the transcripts failed", exc_info=error)
            for session_id in session_ids:
                self._rest(session_id, error)
            return []
        except BaseException:
            self._dirty.update(session_ids)
            raise
        return more

    async def _prepare(
        self, session_ids: Sequence[str]
    ) -> tuple[list[tuple[Copy, Chunk]], list[str]]:
        """What to append, and the sessions that have to wait because the limit is reached."""
        work: list[tuple[Copy, Chunk]] = []
        total = 0
        for index, session_id in enumerate(session_ids):
            if total >= STEP_BYTES_MAX:
                return work, list(session_ids[index:])
            found = await self._find_work(session_id)
            if found is not None:
                work.append(found)
                total += len(found[1].data)
        return work, []

    async def _find_work(self, session_id: str) -> tuple[Copy, Chunk] | None:
        try:
            copy = await self._copies.find(session_id)
            if copy and copy.export.compressed_at is not None:
                if _is_at_rest(copy):
                    self._copies.forget(session_id)  # it is looked at anew when it goes on
                    if session_id in self._resting:
                        await self._tidy_one(copy.export)
                    self._end_rest(session_id)
                    return None
                await self._compressing.make_plain(copy)
            chunk = copy and await self._copies.read(copy)
            if copy and chunk and not chunk.entries and session_id in self._resting:
                # Nothing to append, and yet it failed: when its file was looked at.
                copy = await self._repairing.repair(session_id)
                chunk = copy and await self._copies.read(copy)
        except (OSError, CrossclawError, msgspec.MsgspecError) as error:
            self._rest(session_id, error)
            return None
        if not copy or not chunk or not chunk.entries:
            self._end_rest(session_id)
            return None
        return copy, chunk

    async def _settle(self, copy: Copy, chunk: Chunk, outcome: Exception | None) -> bool:
        """Handles the outcome of an append; True if the session has more to write at once."""
        session_id = copy.name.session_id
        if isinstance(outcome, Differs):
            return await self._repair_after(copy)
        if isinstance(outcome, Failure):
            self._rest(session_id, outcome)
            return False
        copy.take(chunk)
        self._copies.note(copy)
        self._end_rest(session_id)
        return chunk.is_full

    # ── what is wrong ──────────────────────────────────────────────────────────────────────────

    async def _verify_page(self, page: Sequence[Export], deep: bool) -> None:
        await self._tidy([export for export in page if export.compressed_at is not None])
        page = [export for export in page if export.compressed_at is None]
        wrong = [export.session_id for export in page] if deep else await self._list_wrong(page)
        repaired = [
            session_id for session_id in wrong if await self._repair(session_id, whole=deep)
        ]
        await self._bring_up_to_date(repaired)
        if wrong:
            await self._mark()

    async def _tidy(self, compressed: Sequence[Export]) -> None:
        for export in compressed:
            try:
                await self._tidy_one(export)
            except (OSError, CrossclawError) as error:
                self._rest(export.session_id, error)

    async def _tidy_one(self, export: Export) -> None:
        if not await self._compressing.tidy(export):
            # Its mark goes back to the beginning: the next step writes it anew.
            await self._ledger.do(MarkExported(exports=[(export.session_id, 0, 0)]))
            self._copies.forget(export.session_id)
            self._on_append({export.session_id})

    async def _list_wrong(self, page: Sequence[Export]) -> list[str]:
        names = [CopyName(export.agent_id, export.session_id) for export in page]
        wrong = []
        for export, size in zip(page, await self._disk.run(self.files.sizes, names), strict=True):
            if isinstance(size, Failure):
                self._rest(export.session_id, size)
            elif (size or 0) != self._copies.progress(export)[1]:
                wrong.append(export.session_id)
        return wrong

    async def _repair_after(self, copy: Copy) -> bool:
        """Repairs a file that was not as we left it; True if it can go on."""
        now, session_id = anyio.current_time(), copy.name.session_id
        if now < copy.repaired_at + REPAIR_EVERY_S:
            self._rest(session_id, FileExistsError("another program keeps changing the file"))
            return False
        repaired = await self._repair(session_id)
        if repaired is not None:
            repaired.note_repaired(now)
        return repaired is not None

    async def _repair(self, session_id: str, *, whole: bool = False) -> Copy | None:
        try:
            return await self._repairing.repair(session_id, whole=whole)
        except (OSError, CrossclawError, msgspec.MsgspecError) as error:
            self._rest(session_id, error)
            return None

    def _rest(self, session_id: str, error: Exception) -> None:
        _, before_s = self._resting.get(session_id, (0.0, 0.0))
        pause_s = min(max(RETRY_FIRST_S, before_s * 2), RETRY_MAX_S)
        self._resting[session_id] = (anyio.current_time() + pause_s, pause_s)
        self._hinted.set()  # whoever waits for a hint shall now also wait for the end of the rest
        cause = _cause_of(error)
        if cause not in self._complaints:
            self._complaints.add(cause)
            log.warning(
                "the transcript of session %s cannot be written and will be tried again: %s "
                "(others may fail the same way; this is said once)",
                session_id,
                cause,
            )

    def _end_rest(self, session_id: str) -> None:
        if self._resting.pop(session_id, None) and not self._resting:
            self._complaints.clear()
            log.info("all transcripts are written again")

    async def _mark(self) -> None:
        self._marked_at = anyio.current_time()
        try:
            await self._copies.mark()
        except CrossclawError as error:
            log.info("the ledger will hear later how far the transcripts have come: %s", error)


def _is_at_rest(copy: Copy) -> bool:
    """Whether a copy is compressed and nothing came since."""
    export = copy.export
    return export.compressed_at is not None and export.exported_seq == export.last_seq


def _cause_of(error: Exception) -> str:
    """The cause of a failure without names and texts, so that it reads the same for every
    session."""
    if isinstance(error, msgspec.MsgspecError):
        return "the ledger has an entry that cannot be read"
    if isinstance(error, Failure):
        return (isinstance(error, OSError) and error.strerror) or str(error)
    return f"{type(error).__name__}: {error}"
