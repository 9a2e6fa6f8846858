"""History: the entries of active sessions, cached in memory and always equal to the ledger's.

The cache also holds how far the view of a session is settled, so that a turn costs what is new, not
what is old.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from hashlib import blake2s
from typing import NamedTuple

import msgspec

from crossclaw.agent.memory import HistoryCache
from crossclaw.agent.session_files import is_files_note, read_files_note
from crossclaw.agent.view import Prefix, ThinkingOrigin, build_view, extend_prefix, has_pictures
from crossclaw.domain.compactions import Compaction, compaction_of
from crossclaw.domain.events import EntryAppended, FeedEvent
from crossclaw.domain.messages import ToolResultMessage, decode_message, encode_message
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.contract import Ledger
from crossclaw.providers.contract import Turn

PAGE = 200  # entries read together; they may be large
# Of one session, read at once: far beyond every window, so what is older is summarised next. A history
# that was never compacted (an import) must not take all memory.
READ_BYTES_MAX = 64_000_000
# All sessions together; the least recently used one leaves first and is read again when needed.
HELD_BYTES_MAX = 64_000_000


class View(NamedTuple):
    turns: list[Turn]
    beginning: str = ""
    """A digest of what comes before the turns that can still grow. Thinking is valid only with the
    same digest."""
    pictures: bool = False
    """Whether the view contains pictures."""
    through: int = 0
    """The seq of the last entry in the view."""


class _Settled(NamedTuple):
    """The part of a session's view that can no longer change."""

    held_from: int
    """The seq of the first cached entry."""
    begin: Prefix
    """The summary and the kept messages that a compaction left of earlier entries."""
    model_origin: ThinkingOrigin | None
    thinking_origin: ThinkingOrigin | None
    """`model_origin` with the digest of this beginning."""
    prefix: Prefix

    def holds(self, held_from: int, begin: Prefix, model_origin: ThinkingOrigin | None) -> bool:
        """Whether this cached prefix is still valid: same first entry, same compaction, same
        model."""
        return (self.held_from, self.begin, self.model_origin) == (held_from, begin, model_origin)


def _behind(
    thinking_origin: ThinkingOrigin | None, begin: Prefix, entries: Sequence[Entry]
) -> ThinkingOrigin | None:
    if thinking_origin is None:
        return None
    # What was told about files behind another prompt is left out: a beginning of its own.
    left_out = [
        entry.seq
        for entry in entries
        if is_files_note(entry) and read_files_note(entry, thinking_origin.snapshot) is None
    ]
    if begin == Prefix() and not left_out:
        return thinking_origin
    digest = blake2s(thinking_origin.beginning.encode(), digest_size=8)
    digest.update(repr(left_out).encode() if left_out else b"")
    digest.update(msgspec.json.encode(begin.turns))
    changed = (begin.pinned, begin.without_pictures, begin.left_out)
    digest.update(repr((begin.seq, begin.cleared_through, *map(sorted, changed))).encode())
    return thinking_origin._replace(beginning=digest.hexdigest())


def _as_stored(entry: Entry) -> Entry:
    """The entry as the ledger returns it: a tool may have answered values of any kind, which JSON knows otherwise."""
    if not isinstance(entry.message, ToolResultMessage):
        return entry
    return msgspec.structs.replace(entry, message=decode_message(encode_message(entry.message)))


class History:
    def __init__(self, ledger: Ledger, held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self._ledger = ledger
        self._held: OrderedDict[str, list[Entry]] = OrderedDict()
        self._bytes: dict[str, int] = {}
        self._memory = HistoryCache(ledger)
        self._compactions: dict[str, Entry | None] = {}
        """The newest compaction of each session, until an entry arrives that could be a newer
        one."""
        self._settled: dict[str, _Settled] = {}
        self._held_bytes = 0
        self._held_bytes_max = held_bytes_max
        self._unchanged: set[str] = set()
        """Sessions that have got no entry since they were last read; empty if other gateways write
        too, since that cannot be known then."""
        self._last_append: deque[set[str]] = deque([set()], maxlen=1)
        ledger.on_append(self._unchanged.difference_update)
        ledger.on_append(self._last_append.append)

    async def read(self, session_id: str) -> list[Entry]:
        """The entries that a model may still be shown unchanged, oldest first: all since the newest
        compaction, however large. Reads only what came since the last call."""
        if session_id in self._unchanged:
            self._held.move_to_end(session_id)
            return self._held[session_id]
        last_append = self._last_append[0]
        entries = await self._look(session_id)
        nothing_came = last_append is self._last_append[0]
        if nothing_came and session_id in self._held and self._ledger.gateways is None:
            self._unchanged.add(session_id)
        return entries

    async def _look(self, session_id: str) -> list[Entry]:
        while True:
            held_through = self._held_through(session_id)
            if await self._ledger.last_seq(session_id) <= self._held_through(session_id):
                if self._held.get(session_id):
                    self._held.move_to_end(session_id)
                return self._held.get(session_id, [])
            self._compactions.pop(session_id, None)
            after = held_through or await self._summarized_through(session_id)
            fresh = await self._read_after(session_id, after)
            # While it was read, something may have been heard, or let go for want of memory.
            now_through = self._held_through(session_id)
            if bool(now_through) == bool(held_through):
                return self._add(session_id, [each for each in fresh if each.seq > now_through])

    def _held_through(self, session_id: str) -> int:
        held = self._held.get(session_id)
        return held[-1].seq if held else 0

    def on_event(self, event: FeedEvent) -> None:
        """A listener of the feed: what was just stored need not be read again."""
        if not isinstance(event, EntryAppended):
            return
        entry, held = event.entry, self._held.get(event.entry.session_id)
        if held and entry.seq == held[-1].seq + 1:
            if entry.type == "compaction":
                self._compactions.pop(entry.session_id, None)
            self._add(entry.session_id, [_as_stored(entry)])

    def held(self, session_id: str) -> list[Entry]:
        """The entries that were last read."""
        return self._held.get(session_id, [])

    def held_bytes(self, session_id: str) -> int:
        """The size of the entries that were last read, in bytes."""
        return self._bytes.get(session_id, 0)

    async def view(
        self,
        run: Run,
        thinking_origin: ThinkingOrigin | None = None,
        trial: Compaction | None = None,
    ) -> View:
        """What the model of this run is shown. Entries before the run are settled. `trial` is a
        compaction that is not stored yet."""
        session_id = run.session_id
        entries = await self.read(session_id)
        if not entries:
            return View(build_view(entries))
        newest = await self._find_compaction(session_id)
        compaction = trial or (compaction_of(newest) if newest else None)
        begin = await self._memory.begin(run, compaction)
        if session_id in self._held:  # else it was let go while the ledger was asked
            entries = self._forget_through(session_id, begin.seq)
        settled = self._settled.get(session_id)
        if settled is None or not settled.holds(entries[0].seq, begin, thinking_origin):
            behind = _behind(thinking_origin, begin, entries)
            settled = _Settled(entries[0].seq, begin, thinking_origin, behind, begin)
        prefix = settled.prefix
        done = max(0, prefix.seq - entries[0].seq + 1)  # seqs have no holes
        mine = [at for at in range(done, len(entries)) if entries[at].run_id == run.run_id]
        begins = mine[0] if mine else len(entries)
        prefix = extend_prefix(entries[done:begins], prefix, settled.thinking_origin)
        self._settled[session_id] = settled._replace(prefix=prefix)
        turns = build_view(entries[begins:], prefix, settled.thinking_origin)
        pictures = prefix.pictures or any(has_pictures(e.message) for e in entries[begins:])
        beginning = settled.thinking_origin.beginning if settled.thinking_origin else ""
        return View(turns, beginning, pictures, entries[-1].seq)

    async def _summarized_through(self, session_id: str) -> int:
        newest = await self._find_compaction(session_id)
        return 0 if newest is None else max(0, compaction_of(newest).first_kept_seq - 1)

    def _forget_through(self, session_id: str, seq: int) -> list[Entry]:
        """Drops the entries that a compaction has taken out of the view. One always stays, to know
        how far was read."""
        entries = self._held[session_id]
        if entries[0].seq > seq or len(entries) == 1:
            return entries
        kept = [entry for entry in entries if entry.seq > seq] or entries[-1:]
        size = sum(entry.size for entry in kept)
        self._held_bytes += size - self._bytes[session_id]
        self._held[session_id], self._bytes[session_id] = kept, size
        return kept

    async def _find_compaction(self, session_id: str) -> Entry | None:
        if session_id in self._compactions:
            return self._compactions[session_id]
        looked_at = self._held_through(session_id)
        found = await self._ledger.find_compaction(session_id)
        if (
            self._held_through(session_id) == looked_at
        ):  # else what came meanwhile may be a newer one
            self._compactions[session_id] = found
        return found

    async def _read_after(self, session_id: str, after: int) -> list[Entry]:
        """Reads all entries after this seq, page by page from the newest back."""
        fresh: list[Entry] = []
        while sum(entry.size for entry in fresh) < READ_BYTES_MAX:
            before = fresh[0].seq if fresh else None
            page = await self._ledger.list_entries(
                session_id, limit=PAGE, before=before, after=after
            )
            fresh = [*page, *fresh]
            if len(page) < PAGE:
                break
        return fresh

    def _add(self, session_id: str, fresh: list[Entry]) -> list[Entry]:
        """Adds new entries to the cache. It makes a new list, so a caller's older list does not
        change."""
        entries = [*self._held.get(session_id, ()), *fresh]
        before = self._bytes.get(session_id, 0)
        size = before + sum(entry.size for entry in fresh)
        self._held_bytes += size - before
        self._held[session_id], self._bytes[session_id] = entries, size
        self._held.move_to_end(session_id)
        self._let_oldest_go()
        return entries

    def _let_oldest_go(self) -> None:
        while self._held_bytes > self._held_bytes_max and len(self._held) > 1:
            oldest, _ = self._held.popitem(last=False)
            self._held_bytes -= self._bytes.pop(oldest)
            self._settled.pop(oldest, None)
            self._compactions.pop(oldest, None)
            self._unchanged.discard(oldest)
