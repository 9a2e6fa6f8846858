"""Compaction: room in the model's window, before it is full or after the model has said so.

Old results of tools go first; if that is not enough, older turns become a summary. Recent turns, the
first request, the request under way and what is pinned stay as they are. A compaction is one entry,
appended in one step; the history is never rewritten, and every tool still reads all of it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from crossclaw.agent.flushing import Flusher
from crossclaw.agent.history import History
from crossclaw.agent.refusals import Refusal, refused_pictures, unanswered
from crossclaw.agent.run_setup import RunSetup
from crossclaw.agent.summary import TIMEOUT_S, Summarizer, is_a_persons
from crossclaw.agent.weight import counted, weigh, weigh_text
from crossclaw.domain.budgets import Amount
from crossclaw.domain.compactions import (
    KEPT_CHARS_MAX,
    Compaction,
    CompactionReason,
    compaction_of,
)
from crossclaw.domain.errors import ProviderError
from crossclaw.domain.events import CompactionPhase
from crossclaw.domain.messages import AssistantMessage, ToolResultMessage, Usage, UserMessage
from crossclaw.domain.models import BYTES_A_TOKEN
from crossclaw.domain.runs import Run
from crossclaw.domain.runtime import under_way_lines
from crossclaw.domain.sessions import Entry
from crossclaw.providers.contract import ModelRequest, Provider
from crossclaw.runs.context import ServiceContext
from crossclaw.runs.run_store import RunStore

log = logging.getLogger(__name__)

OVERFLOWS_MAX = 2  # compactions because the model said that it is too much; then it is an error
ENOUGH = (
    0.75  # of the limit: a compaction that leaves more than this would soon be followed by another
)
KEPT_SHARE = 4  # of the limit stays as it is, where a window is too small for the usual amount
RESERVE_TOKENS = 16_384
BY_HAND_SHARE = 4  # a person who compacts means it: at most a quarter stays as it is
GAIN_SHARE = 10  # a tenth of the limit: less is not worth a model's call with every message
REQUESTS_TOKENS = (
    2_000  # of requests beside a run's own: what people write while they wait is short
)
SHORTEST_CHARS = 500  # of a message that alone is too much; less says nothing
FIRST_ENTRIES = 20  # among which the first request is looked for


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    reserve_tokens: int = 20_000
    keep_recent_tokens: int = 20_000
    share: float | None = None
    """The share of the window that the conversation may fill, if that is less than the reserve
    leaves."""
    instructions: str | None = None
    model: str | None = None
    timeout_s: float = TIMEOUT_S

    def limit(self, window: int) -> int:
        """The number of tokens at which compaction begins. The reserve takes at most half of the
        window."""
        limit = window - min(self.reserve_tokens, window // 2)
        return limit if self.share is None else min(limit, int(window * self.share))


class Compactor:
    def __init__(
        self,
        context: ServiceContext,
        history: History,
        run_store: RunStore,
        settings: CompactionSettings,
        find_provider: Callable[[str], tuple[Provider, str]],
        flusher: Flusher,
    ) -> None:
        self._ledger = context.ledger
        self._history = history
        self._run_store = run_store
        self._feed = context.feed
        self._ids = context.ids
        self._settings = settings
        self._find_provider = find_provider
        self._config = context.config
        self._flusher = flusher

    async def is_full(self, run: Run, setup: RunSetup, request: ModelRequest) -> bool:
        """Whether the request fills the window. It is asked of every request, so it looks closely
        only when that is likely."""
        limit = self._settings.limit(setup.window)
        entries = self._history.held(run.session_id)
        most = self._history.held_bytes(run.session_id) // BYTES_A_TOKEN + _beside(request)
        if max(most, counted(entries)) <= limit:
            return False
        return (await self._look(run)).filled(request) > limit

    async def make_room(
        self, run: Run, setup: RunSetup, request: ModelRequest | None, overflows: int = 0
    ) -> bool:
        """Compacts the history; returns whether it became smaller. `overflows` counts how often the
        model has refused the request as too long; each time less is kept unchanged."""
        given = await self._look(run)
        limit = self._settings.limit(setup.window)
        keep = min(self._settings.keep_recent_tokens, limit // KEPT_SHARE) >> overflows
        cut = given.cut_keeping(keep)
        reason: CompactionReason = "overflow" if overflows else "threshold"
        cleared = await self._clear(run, given, cut, limit, reason, request)
        if cleared:
            return True
        if await self._older(given, cut, run) <= (0 if overflows else limit // GAIN_SHARE):
            return overflows > 0 and (
                await self._clear_all(run, given, request)
                or await self._shorten_all(run, given, limit >> overflows, request)
            )
        try:
            flushed = None
            if request is not None and not overflows:
                flushed = await self._flusher.flush(run, setup, request)
            return await self._summarize(run, setup, given, cut, reason, flushed)
        except ProviderError as error:
            if overflows:
                raise
            log.warning("run %s goes on without a compaction: %s", run.run_id, error)
            return False

    async def by_hand(self, run: Run, setup: RunSetup) -> bool:
        """Compacts because a person asked for it: writes a summary as soon as there is anything to
        summarise."""
        given = await self._look(run)
        if run.plan.keep_messages is not None:
            cut = given.cut_keeping_messages(run.plan.keep_messages)
        else:
            quarter = sum(map(weigh, given.entries)) // BY_HAND_SHARE
            cut = given.cut_keeping(min(self._settings.keep_recent_tokens, quarter))
        if not await self._older(given, cut, run):
            return False
        return await self._summarize(run, setup, given, cut, "manual")

    # ── inside ─────────────────────────────────────────────────────────────────────────────────

    async def _look(self, run: Run, tried: Compaction | None = None) -> "CompactionInput":
        entries = await self._history.read(run.session_id)
        found = await self._ledger.find_compaction(run.session_id)
        before = tried or (compaction_of(found) if found else None)
        first = before.first_kept_seq if before else 0
        shown = [entry for entry in entries if entry.seq >= first]
        return CompactionInput(shown, before, found.run_id if found else None)

    async def _clear(
        self,
        run: Run,
        given: "CompactionInput",
        cut: int,
        limit: int,
        reason: CompactionReason,
        request: ModelRequest | None,
    ) -> bool:
        """Leaves out the tool results before the cut, if that frees enough."""
        through = given.entries[cut - 1].seq if cut else 0
        freed = given.freed(through)
        filled = given.filled(request)
        allowed = limit if reason == "threshold" else filled
        if not freed or filled - freed > allowed * ENOUGH:
            return False
        await self.put(run, given.cleared(through, reason, filled, filled - freed))
        return True

    async def _clear_all(
        self, run: Run, given: "CompactionInput", request: ModelRequest | None
    ) -> bool:
        """Leaves out all tool results. The last resort: one result may be larger than the
        window."""
        through = given.entries[-1].seq
        freed, filled = given.freed(through), given.filled(request)
        if not freed:
            return False
        await self.put(run, given.cleared(through, "overflow", filled, filled - freed))
        return True

    async def _shorten_all(
        self, run: Run, given: "CompactionInput", limit: int, request: ModelRequest | None
    ) -> bool:
        """Keeps only the beginning of the requests, if even they alone are too long."""
        before = given.before.kept_chars if given.before else KEPT_CHARS_MAX
        beside = _beside(request) if request else 0
        room = max(SHORTEST_CHARS, (limit - beside) * BYTES_A_TOKEN // 2)
        shown = [e for e in given.entries if e.message is not None]
        if not shown and room >= before:
            return False
        last, filled = (given.entries or (None,))[-1], given.filled(request)
        kept = await self._kept(given, len(given.entries), run)
        known = given.before or Compaction(reason="overflow", tokens_before=0, tokens_after=0)
        made = msgspec.structs.replace(
            known,
            reason="overflow",
            tokens_before=filled,
            tokens_after=room // BYTES_A_TOKEN + beside,
            cleared_through=last.seq if last else known.cleared_through,
            first_kept_seq=last.seq + 1 if last else known.first_kept_seq,
            first_kept_entry_id=None,
            first_request=0,
            asked=kept.run_request,
            asked_with=kept.other_requests[-1:],
            kept_chars=min(room, before),
            without_files=True,
            usage=None,
        )
        await self.put(run, made)
        return True

    async def without_refused(
        self, run: Run, refusal: Refusal, tried: Compaction | None = None
    ) -> Compaction | None:
        """A compaction that replaces what a service may have refused by a note, so that no message
        blocks its session for ever.

        Pictures, if the refusal names or mentions them; otherwise the messages that earlier runs
        could not answer, also those that a summary has kept. It is returned, not stored: the caller stores it (`put`) once it has
        helped.
        """
        given = await self._look(run, tried)
        before = given.before
        shown = [*await self._kept_entries(run, before), *given.entries]
        pictures = refused_pictures(refusal, shown, before.without_pictures if before else ())
        gone = before.left_out if before else ()
        asked = [] if pictures else unanswered(given.entries, gone, run.run_id)
        if (
            not pictures and not asked
        ):  # then it may be one that is shown although a summary covers its time
            asked = unanswered(shown, gone, run.run_id)
        if not pictures and not asked:
            return None
        known = given.before or Compaction(reason="refused", tokens_before=0, tokens_after=0)
        filled = given.filled(None)
        return msgspec.structs.replace(
            known,
            reason="refused",
            tokens_before=filled,
            tokens_after=filled,
            without_pictures=tuple(sorted({*known.without_pictures, *pictures})),
            left_out=tuple(sorted({*known.left_out, *asked})),
            usage=None,
        )

    async def _kept_entries(self, run: Run, before: Compaction | None) -> list[Entry]:
        """Messages that are shown although a summary covers their time: pins and requests."""
        if before is None:
            return []
        found = {e.seq: e for e in await self._ledger.list_pinned(run.session_id)}
        for seq in {before.first_request, before.asked, *before.asked_with} - {0}:
            if (entry := await self._ledger.find_entry(run.session_id, seq)) is not None:
                found[seq] = entry
        return [found[seq] for seq in sorted(found) if seq < before.first_kept_seq]

    async def _older(self, given: "CompactionInput", cut: int, run: Run) -> int:
        """How many tokens a summary would replace. Messages that are kept are shortened too, which
        counts."""
        kept = await self._kept(given, cut, run)
        older = [entry for entry in given.entries[:cut] if entry.message]
        stays = KEPT_CHARS_MAX // BYTES_A_TOKEN
        return sum(
            max(0, weigh(entry, given.cleared_through) - stays)
            if entry.seq in kept.seqs
            else weigh(entry, given.cleared_through)
            for entry in older
        )

    async def _summarize(
        self,
        run: Run,
        setup: RunSetup,
        given: "CompactionInput",
        cut: int,
        reason: CompactionReason,
        flushed: Usage | None = None,
    ) -> bool:
        """Replaces the entries before the cut by a summary. `flushed` is what writing notes before
        it has cost."""
        self._feed.publish(CompactionPhase(run.run_id, run.key, "start"))
        try:
            made = await self._summarized(run, setup, given, cut, reason)
            if flushed is not None:
                usage = flushed + (made.usage or Usage())
                made = msgspec.structs.replace(made, usage=usage)
            await self.put(run, made, setup.spent())
        finally:
            self._feed.publish(CompactionPhase(run.run_id, run.key, "end", reason == "overflow"))
        return True

    async def _summarized(
        self,
        run: Run,
        setup: RunSetup,
        given: "CompactionInput",
        cut: int,
        reason: CompactionReason,
    ) -> Compaction:
        older = [entry for entry in given.entries[:cut] if entry.message is not None]
        before, filled = given.before, given.filled(None)
        summary = await self._summarizer(run, setup).summarize(
            before.summary if before else None,
            [entry.message for entry in older if entry.message is not None],
        )
        kept = await self._kept(given, cut, run)
        first_kept, through = given.entries[cut], given.entries[cut - 1].seq
        left = filled - sum(weigh(entry, given.cleared_through) for entry in older)
        return Compaction(
            reason=reason,
            tokens_before=filled,
            tokens_after=max(0, left) + weigh_text(summary.text),
            cleared_through=max(through, given.cleared_through),
            summary=summary.text,
            first_kept_seq=first_kept.seq,
            first_kept_entry_id=first_kept.entry_id,
            first_request=kept.first_request,
            asked=kept.run_request,
            asked_with=kept.other_requests,
            without_pictures=before.without_pictures if before else (),
            left_out=before.left_out if before else (),
            summarized=len(older) + (before.summarized if before else 0),
            usage=summary.usage,
        )

    def _summarizer(self, run: Run, setup: RunSetup) -> Summarizer:
        settings = self._settings
        provider, model, window = setup.provider, setup.model, setup.window
        if settings.model:
            find = setup.meter.on(self._find_provider) if setup.meter else self._find_provider
            if setup.permission is not None:
                find = setup.permission.on(find)
            provider, model = find(settings.model)
            window = self._config.facts_for(settings.model).window
        wishes = run.plan.context if run.kind == "compact" else None
        # Half of what the window holds: the summary so far and the answer need their place too.
        chars = settings.limit(window) * BYTES_A_TOKEN // 2
        instructions = "\n".join(filter(None, [settings.instructions, wishes]))
        return Summarizer(
            provider,
            model,
            chars,
            instructions or None,
            settings.timeout_s,
            patient=run.patient,
            outside=run.authority.is_of_hooks,
        )

    async def _kept(self, given: "CompactionInput", cut: int, run: Run) -> "KeptEntries":
        """The messages before the cut that stay unchanged."""
        beginning = await self._ledger.list_entries(
            run.session_id, limit=FIRST_ENTRIES, before=FIRST_ENTRIES + 1
        )
        first_kept = given.seq_at(cut)
        first = next((e.seq for e in beginning if isinstance(e.message, UserMessage)), 0)
        asked = next((e.seq for e in given.entries if _asks(e, run)), 0) or given.request_of(run)
        return KeptEntries(
            first if first < first_kept and first != asked else 0,
            asked if asked < first_kept else 0,
            tuple(seq for seq in given.asked_with(run, asked) if seq < first_kept),
        )

    async def put(self, run: Run, compaction: Compaction, spent: Amount | None = None) -> None:
        lines = under_way_lines(await self._ledger.list_obligations(run.key))
        made = msgspec.structs.replace(compaction, under_way="\n".join(lines))
        entry = made.entry(self._ids.short())
        await self._run_store.append(run, msgspec.structs.replace(entry, spent=spent))


def _beside(request: ModelRequest) -> int:
    """Tokens that fill the window beside the conversation: system prompt and tools."""
    return weigh_text(request.system) + len(msgspec.json.encode(request.tools)) // BYTES_A_TOKEN


def _asks(entry: Entry, run: Run) -> bool:
    return entry.run_id == run.run_id and isinstance(entry.message, UserMessage)


class KeptEntries(NamedTuple):
    """Seqs of the messages that stay unchanged; 0 means none."""

    first_request: int
    run_request: int
    other_requests: tuple[int, ...]

    @property
    def seqs(self) -> set[int]:
        return {self.first_request, self.run_request, *self.other_requests}


class CompactionInput:
    """What the model sees now: the entries after the last summary."""

    def __init__(
        self, entries: Sequence[Entry], before: Compaction | None, made_by: str | None = None
    ) -> None:
        self.entries = entries
        self.before = before
        self._made_by = made_by
        self.cleared_through = before.cleared_through if before else 0

    def request_of(self, run: Run) -> int:
        """The seq of this run's request, if an earlier compaction by the same run has kept it."""
        return self.before.asked if self.before and self._made_by == run.run_id else 0

    def asked_with(self, run: Run, request_seq: int) -> list[int]:
        """The other requests that this run answers: those that waited behind its own, and those that
        came while it was at work. The newest of them, where they are too much to keep."""
        if not request_seq:
            return []
        before = self.before.asked_with if self.before and self.request_of(run) else ()
        begin = next((n for n, entry in enumerate(self.entries) if _asks(entry, run)), 0)
        kept: list[int] = []
        room = REQUESTS_TOKENS
        for entry in reversed(self.entries[begin:]):
            if is_a_persons(entry.message) and entry.seq != request_seq:
                room -= weigh(entry)
                if room < 0:
                    return kept[::-1]
                kept.append(entry.seq)
        return [*before, *kept[::-1]]

    def seq_at(self, place: int) -> int:
        if place < len(self.entries):
            return self.entries[place].seq
        return self.entries[-1].seq + 1 if self.entries else 0

    def filled(self, request: ModelRequest | None) -> int:
        """Tokens in use: the larger of what was counted and what we estimate."""
        estimate = sum(weigh(entry, self.cleared_through) for entry in self.entries)
        if self.before and self.before.summary:
            estimate += weigh_text(self.before.summary)
        if request is not None:
            estimate += _beside(request)
        return max(estimate, counted(self.entries, self.cleared_through))

    def freed(self, through: int) -> int:
        """How many tokens it frees to leave out the tool results up to this seq."""
        results = [e for e in self.entries if isinstance(e.message, ToolResultMessage)]
        return sum(
            weigh(entry, self.cleared_through) - weigh(entry, through)
            for entry in results
            if entry.seq <= through
        )

    def cleared(
        self, through: int, reason: CompactionReason, tokens_before: int, tokens_after: int
    ) -> Compaction:
        known = self.before or Compaction(reason=reason, tokens_before=0, tokens_after=0)
        return msgspec.structs.replace(
            known,
            reason=reason,
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            cleared_through=max(through, self.cleared_through),
            usage=None,
        )

    def cut_keeping(self, tokens: int) -> int:
        """The index from which at most so many tokens are kept unchanged; 0 keeps all."""
        places, room = self._places(), tokens
        best = places[-1] if places else 0
        for number in range(len(self.entries) - 1, -1, -1):
            room -= weigh(self.entries[number], self.cleared_through)
            if room < 0:
                break
            if number in places:
                best = number
        return best

    def cut_keeping_messages(self, count: int) -> int:
        messages = [n for n, entry in enumerate(self.entries) if entry.message is not None]
        if len(messages) <= count:
            return 0
        wanted = messages[-count] if count else len(self.entries)
        return max((place for place in self._places() if place <= wanted), default=0)

    def _places(self) -> list[int]:
        """The indices at which the conversation can be cut: before a message, while no call waits
        for its result."""
        places: list[int] = []
        waiting: set[str] = set()
        for number, entry in enumerate(self.entries):
            match entry.message:
                case ToolResultMessage(tool_use_id=call_id):
                    waiting.discard(call_id)
                case AssistantMessage() as message:
                    # Whoever speaks again has given up on earlier calls.
                    places.append(number)
                    waiting = {call.id for call in message.tool_calls}
                case UserMessage() if not waiting:
                    places.append(number)
        return places
