"""sessions.search, sessions.entries and its search: words in all transcripts, and a transcript page by
page."""

import sys
from typing import Annotated, Any, TypedDict

import msgspec

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.aliases import SafeInteger
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import words_of
from crossclaw.domain.sessions import Entry
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.messages import short_wire_message, waiting_message, wire_message
from crossclaw.gateway.methods.map import require_person
from crossclaw.gateway.publisher import shown_key
from crossclaw.ledger.contract import Hit, Ledger
from crossclaw.ledger.monitoring import ExchangeRow, RunRow
from crossclaw.ledger.operations import Export
from crossclaw.sessions.fitting import HistoryPage, PageWanted, read_page

HITS_MAX = 100  # nobody reads more; another word narrows it
CLIENTS_HITS_MAX = 25  # what OpenClaw's clients may ask for
AROUND_CHARS = 120  # before and after the word that was found
ENTRIES_MAX = 500
TRANSCRIPTS_MAX = (
    1_000  # in one answer; a session that begins anew every day has as many in three years
)
ENTRY_BYTES_MAX = 8 * 1024 * 1024  # a picture of OpenClaw's 5 MB as base64 is there to be seen
PAGE_BYTES_MAX = 2 * 1024 * 1024  # the rest of a page is one call away; a picture may be megabytes

SearchText = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class SearchParams(Params, frozen=True):
    query: SearchText
    limit: Annotated[int, msgspec.Meta(ge=1, le=HITS_MAX)] = 50
    agent_id: str | None = None


class ClientsSearchParams(Params, frozen=True):
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=CLIENTS_HITS_MAX)] = CLIENTS_HITS_MAX
    agent_id: str | None = None


class SearchHit(Result, frozen=True):
    session_key: str
    session_id: str
    message_id: str
    role: str
    timestamp: int
    snippet: str
    score: float
    """A rank: the newest has the highest, 1, then 1/2, 1/3 …"""


class SearchHits(Result, frozen=True):
    results: list[SearchHit]
    truncated: bool


class MessageHit(Result, frozen=True):
    key: str
    session_id: str
    entry_id: str
    seq: int
    at: int
    role: str
    text: str
    """The words around the first one that was found."""
    run_id: str | None = None


class SearchResult(Result, frozen=True):
    query: str
    hits: list[MessageHit]


class EntriesParams(Params, frozen=True):
    """Parameters of sessions.entries. With `after` the oldest entries after it, so that a slow reader misses
    none; otherwise the newest."""

    key: SearchText
    before: SafeInteger | None = None
    after: SafeInteger | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=ENTRIES_MAX)] = 100
    whole: bool = False
    """Whether messages of any size come as they are, for an export: each that is too large in a page of its own."""
    exchanges: bool = False
    """Whether to add the kind of each entry's run, and the sends and spawns that the entries belong to. For a
    person's client."""


class ShownEntry(Result, frozen=True):
    seq: int
    entry_id: str
    at: int
    type: str
    run_id: str | None = None
    message: dict[str, Any] | None = None
    note: dict[str, Any] | None = None
    run_kind: str | None = None
    exchange: str | None = None
    """The id of the send, or the key of the child, that it belongs to."""


class OpenRun(Result, frozen=True):
    run_id: str
    kind: str
    status: str
    created_at: int
    message: dict[str, Any] | None = None
    """The message of a run that has not begun."""


class EntriesResult(Result, frozen=True):
    key: str
    entries: list[ShownEntry]
    open: list[OpenRun]
    last_seq: int = 0
    session_id: str | None = None
    before: int | None = None
    """Pass it as `before` to read further back; missing at the beginning."""
    after: int | None = None
    """The number to pass as `after` to read on, in a page that was asked for with `after`; missing at the end."""
    exchanges: list[ExchangeRow] | None = None


class TranscriptsParams(Params, frozen=True):
    key: SearchText
    offset: SafeInteger = 0


class TranscriptRow(Result, frozen=True):
    session_id: str
    created_at: int
    entries: int
    current: bool
    """Whether it is the one that is written to; the others were closed by a reset."""


class TranscriptsResult(Result, frozen=True):
    key: str
    transcripts: list[TranscriptRow]
    """The transcripts, the oldest first."""
    more: bool = False
    """Whether there are more; `offset` reads on."""


class Search:
    def __init__(self, ledger: Ledger, resolver: Resolver) -> None:
        self._ledger = ledger
        self._resolver = resolver

    @method(
        "sessions.entries.search",
        "operator.read",
        "read",
        "Ours: the same with the number of each entry, and what tools answered.",
    )
    async def search(self, caller: Caller, params: SearchParams) -> SearchResult:
        agent_id = normalize_agent_id(params.agent_id) if params.agent_id else None
        sight = self._resolver.sight(caller.principal)
        hits = await self._ledger.search(
            params.query, limit=params.limit, agent_id=agent_id, sight=sight
        )
        return SearchResult(query=params.query, hits=[_found(h, params.query) for h in hits])

    @method(
        "sessions.search", "operator.read", "read", "The newest messages that have all the words."
    )
    async def search_for_clients(self, caller: Caller, params: ClientsSearchParams) -> SearchHits:
        """Searches as OpenClaw's clients know it: among what people and agents said, without tools' results."""
        wanted = SearchParams(query=params.query, limit=HITS_MAX, agent_id=params.agent_id)
        found = (await self.search(caller, wanted)).hits
        said = [hit for hit in found if hit.role in ("user", "assistant")]
        hits = [_hit(hit, place) for place, hit in enumerate(said[: params.limit], 1)]
        return SearchHits(results=hits, truncated=len(said) > len(hits) or len(found) == HITS_MAX)

    @method(
        "sessions.entries",
        "operator.read",
        "read",
        "Ours: a transcript page by page, with the number of each entry, and its open runs.",
    )
    async def entries(self, caller: Caller, params: EntriesParams) -> EntriesResult:
        handle = await self._resolver.resolve_transcript(caller.principal, params.key)
        if handle.session is None:
            return EntriesResult(key=shown_key(handle.key), entries=[], open=[])
        if params.exchanges:
            require_person(self._resolver, caller)
        return await self._read(handle.key, handle.session.session_id, params)

    async def _read(self, key: SessionKey, session_id: str, params: EntriesParams) -> EntriesResult:
        page = await self._page(session_id, params)
        last_seq = await self._ledger.last_seq(session_id)
        shown, exchanges = await self._with_exchanges(page.shown, wanted=params.exchanges)
        return EntriesResult(
            key=shown_key(key),
            session_id=session_id,
            entries=shown,
            open=await self._open(key),
            last_seq=last_seq,
            exchanges=exchanges,
            **_where_to_read_on(page, params, last_seq),
        )

    async def _page(self, session_id: str, params: EntriesParams) -> HistoryPage[ShownEntry]:
        return await read_page(
            self._ledger,
            session_id,
            _shown,
            _shown_short,
            PageWanted(
                limit=params.limit,
                bytes_max=PAGE_BYTES_MAX,
                before=params.before,
                after=params.after,
                notes=True,
                alone_max=sys.maxsize if params.whole else ENTRY_BYTES_MAX,
            ),
        )

    @method(
        "sessions.transcripts",
        "operator.read",
        "read",
        "Ours: the transcripts of a session, also those that a reset has closed. Each is read by its id as `key` of `sessions.entries`.",
    )
    async def transcripts(self, caller: Caller, params: TranscriptsParams) -> TranscriptsResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "read")
        session = await self._ledger.find_session(handle.key)
        current = session.session_id if session else None
        read = await self._ledger.list_transcripts(
            handle.key, limit=TRANSCRIPTS_MAX + 1, offset=params.offset
        )
        rows = [_transcript_row(each, current) for each in read[:TRANSCRIPTS_MAX]]
        return TranscriptsResult(
            key=shown_key(handle.key), transcripts=rows, more=len(read) > TRANSCRIPTS_MAX
        )

    async def _with_exchanges(
        self, entries: list[ShownEntry], *, wanted: bool
    ) -> tuple[list[ShownEntry], list[ExchangeRow] | None]:
        if not wanted:
            return entries, None
        watching = self._ledger.monitoring
        ids = list(dict.fromkeys(entry.run_id for entry in entries if entry.run_id))
        runs = {run.run_id: run for run in await watching.runs_by_id(ids)}
        named = [_belonging(entry, runs.get(entry.run_id or "")) for entry in entries]
        exchanges = list(dict.fromkeys(entry.exchange for entry in named if entry.exchange))
        return named, await watching.exchanges_by_id(exchanges)

    async def _open(self, key: SessionKey) -> list[OpenRun]:
        shown: list[OpenRun] = []
        for run in await self._ledger.list_open_runs(key):
            waiting = await self._ledger.find_inbox(run.run_id)
            shown.append(
                OpenRun(
                    run_id=run.run_id,
                    kind=run.kind,
                    status=run.status,
                    created_at=run.created_at,
                    message=await waiting_message(self._ledger, run.run_id, waiting, run.created_at)
                    if waiting
                    else None,
                )
            )
        return shown


class ReadOn(TypedDict, total=False):
    """What to ask for next: further back as `before`, or further on as `after`."""

    before: int
    after: int


def _where_to_read_on(
    page: HistoryPage[ShownEntry], params: EntriesParams, last_seq: int
) -> ReadOn:
    """Nothing at the beginning and at the end."""
    if params.after is None:
        first = page.first or params.before or 0
        return ReadOn(before=first) if first > 1 else ReadOn()
    end = min(last_seq, params.before - 1) if params.before else last_seq
    return ReadOn(after=page.last) if 0 < page.last < end else ReadOn()


def _found(hit: Hit, query: str) -> MessageHit:
    entry, message = hit.entry, hit.entry.message
    return MessageHit(
        key=shown_key(hit.key),
        session_id=entry.session_id,
        entry_id=entry.entry_id,
        seq=entry.seq,
        at=entry.at,
        role=wire_message(message, entry.at)["role"] if message else entry.type,
        text=_context(words_of(message) if message else "", query),
        run_id=entry.run_id,
    )


def _transcript_row(transcript: Export, current: str | None) -> TranscriptRow:
    return TranscriptRow(
        session_id=transcript.session_id,
        created_at=transcript.created_at,
        entries=transcript.last_seq,
        current=transcript.session_id == current,
    )


def _hit(found: MessageHit, place: int) -> SearchHit:
    return SearchHit(
        session_key=found.key,
        session_id=found.session_id,
        message_id=found.entry_id,
        role=found.role,
        timestamp=found.at,
        snippet=found.text,
        score=1 / place,
    )


def _context(text: str, query: str) -> str:
    lower = text.lower()
    places = [place for word in query.lower().split() if (place := lower.find(word)) >= 0]
    begin = max(0, min(places, default=0) - AROUND_CHARS)
    end = begin + 2 * AROUND_CHARS
    before, after = "…" if begin else "", "…" if end < len(text) else ""
    return f"{before}{' '.join(text[begin:end].split())}{after}"


def _belonging(entry: ShownEntry, run: RunRow | None) -> ShownEntry:
    exchange = _exchange_of(run) if run else _reporter(entry)
    return msgspec.structs.replace(entry, run_kind=run.kind if run else None, exchange=exchange)


def _exchange_of(run: RunRow) -> str | None:
    """The exchange of a run; for a child's runs the child's key. A run that a report begins in the parent has
    the child as its source."""
    if run.exchange_id is not None or run.kind not in ("spawn", "announce"):
        return run.exchange_id
    return run.key if run.kind == "spawn" else run.source or run.key


def _reporter(entry: ShownEntry) -> str | None:
    """The child that a report comes from, if it began no run."""
    source: dict[str, Any] = (entry.message or {}).get("provenance") or {}
    return source.get("sourceSessionKey") if source.get("kind") == "announce" else None


def _shown(entry: Entry) -> ShownEntry:
    return ShownEntry(
        seq=entry.seq,
        entry_id=entry.entry_id,
        at=entry.at,
        type=entry.type,
        run_id=entry.run_id,
        message=wire_message(entry.message, entry.at) if entry.message else None,
        note=entry.note,
    )


def _shown_short(entry: Entry, size: int) -> ShownEntry:
    return msgspec.structs.replace(_shown(entry), message=short_wire_message(entry, size))
