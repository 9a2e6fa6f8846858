"""sessions.table: every session with its current state, page by page. Ours: OpenClaw has none."""

from collections.abc import Callable
from typing import Annotated

import msgspec

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.clock import Clock
from crossclaw.domain.keys import CHILD, SessionKey, known_kinds
from crossclaw.domain.sessions import Session
from crossclaw.domain.states import IDLE, State, end_state, lane_state
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.sessions import SEARCH_CHARS_MAX
from crossclaw.gateway.publisher import shown_key
from crossclaw.ledger.monitoring import Lane, MonitoringReads, Order, Page
from crossclaw.sessions.rows import RowBasics, channel_field, row_basics

ROWS_MAX = 200  # a window shows forty; the next page is one call away

RowsLimit = Annotated[int, msgspec.Meta(ge=1, le=ROWS_MAX)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]


class TableParams(Params, frozen=True):
    key: str | None = None
    """The one session to return, archived or not."""
    limit: RowsLimit = 100
    offset: Offset = 0
    order: Order = "updated"
    search: Annotated[str, msgspec.Meta(max_length=SEARCH_CHARS_MAX)] | None = None
    kinds: list[str] | None = None
    agent_id: str | None = None
    active_minutes: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    archived: bool = False


MADE_UP = ("chat-", "fork-")
"""How keys begin that the gateway has given to new conversations."""
TITLE_CHARS_MAX = 60


def title_of(text: str) -> str:
    """The first line, cut between words."""
    line = next((" ".join(each.split()) for each in text.splitlines() if each.strip()), "")
    if len(line) <= TITLE_CHARS_MAX:
        return line
    return line[:TITLE_CHARS_MAX].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


class TableRow(RowBasics, frozen=True, kw_only=True):
    agent_id: str
    created_at: int
    tokens: int
    context_used: int
    cost_usd: float
    standing: State
    """The session's state: what goes on, else how its last run ended."""
    overrides: dict[str, str]
    """What was set on this session: model, thinkingLevel, verboseLevel, sendPolicy."""
    title: str | None = None
    """How a conversation began that nobody has named."""
    spawned_by: str | None = None
    lane: Lane | None = None
    """What goes on; missing when the session is idle."""
    archived_at: int | None = None
    """The time since when it can be read and no longer written to."""


class TableResult(Result, frozen=True):
    ts: int
    total: int
    rows: list[TableRow]


class SessionTable:
    def __init__(
        self,
        watching: MonitoringReads,
        resolver: Resolver,
        clock: Clock,
        model_of: Callable[[str, str | None], str],
        is_gone: Callable[[SessionKey], bool],
        guest_is_here: Callable[[SessionKey], bool],
    ) -> None:
        self._guest_is_here = guest_is_here
        self._is_gone = is_gone
        self._watching = watching
        self._resolver = resolver
        self._clock = clock
        self._model_of = model_of

    @method(
        "sessions.table",
        "operator.read",
        "read",
        "Ours: a page of sessions with state, cost and settings, and how many there are.",
    )
    async def table(self, caller: Caller, params: TableParams) -> TableResult:
        page = await self._page(caller, params)
        return TableResult(
            ts=self._clock.now_ms(), total=page.total, rows=await self.rows(page.sessions)
        )

    async def _page(self, caller: Caller, params: TableParams) -> Page:
        if params.key is not None:
            handle = await self._resolver.find(caller.principal, params.key)
            found = [handle.session] if handle and handle.session else []
            return Page(len(found), found)
        return await self._watching.page(
            limit=params.limit,
            offset=params.offset,
            order=params.order,
            agent_id=normalize_agent_id(params.agent_id) if params.agent_id else None,
            sight=self._resolver.sight(caller.principal),
            kinds=_kinds(params.kinds),
            search=params.search,
            updated_after=self._after(params.active_minutes),
            archived=params.archived,
        )

    def _after(self, minutes: int | None) -> int | None:
        return None if minutes is None else self._clock.now_ms() - minutes * 60_000

    async def rows(self, sessions: list[Session]) -> list[TableRow]:
        lanes = await self._watching.lanes([session.key.text for session in sessions])
        titles = await self._titles(sessions)
        return [
            self._row(each, lanes.get(each.key.text), titles.get(each.session_id))
            for each in sessions
        ]

    async def _titles(self, sessions: list[Session]) -> dict[str, str]:
        """Titles of the sessions whose keys were generated and mean nothing to a person."""
        unnamed = [
            each.session_id
            for each in sessions
            if each.key.name.startswith(MADE_UP) and not (each.label or each.display_name)
        ]
        begun = await self._watching.first_words(unnamed) if unnamed else {}
        return {name: title for name, text in begun.items() if (title := title_of(text))}

    def _standing(self, session: Session, lane: Lane | None) -> State:
        if lane is not None:
            return lane_state(
                session.key,
                lane.status,
                behind=lane.queued,
                waits_for=lane.waits_for,
                asks=lane.asks,
                since=lane.since,
                run_id=lane.run_id,
                guest_is_here=self._guest_is_here(session.key),
            )
        if session.last_status is None:
            return IDLE
        return end_state(
            session.last_status,
            session.last_error,
            since=session.updated_at,
            run_id=session.last_run_id,
        )

    def _row(self, session: Session, lane: Lane | None, title: str | None) -> TableRow:
        return TableRow(
            key=shown_key(session.key),
            agent_id=session.key.agent_id,
            kind=CHILD if session.spawned_by else session.key.kind,
            created_at=session.created_at,
            tokens=session.input_tokens + session.output_tokens,
            context_used=session.total_tokens,
            cost_usd=session.cost_usd,
            model=self._model_of(session.key.agent_id, session.model),
            title=title,
            spawned_by=session.spawned_by and self._resolver.shown(session.spawned_by),
            overrides=_overrides(session),
            lane=lane,
            standing=self._standing(session, lane),
            archived_at=session.archived_at,
            **row_basics(
                session,
                channel=channel_field(session),
                context_tokens=session.context_tokens,
                agent_gone=self._is_gone(session.key),
            ),
        )


def _overrides(session: Session) -> dict[str, str]:
    given = {
        "model": session.model,
        "thinkingLevel": session.thinking,
        "verboseLevel": session.verbose,
        "sendPolicy": session.send_policy,
        "queueMode": session.queue_mode,
        "queueDebounceMs": session.queue_debounce_ms,
        "queueCap": session.queue_cap,
        "queueDrop": session.queue_drop,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def _kinds(wanted: list[str] | None) -> list[str] | None:
    """The kinds to select: those of keys, and children."""
    if wanted is None or CHILD not in wanted:
        return known_kinds(wanted)
    return [CHILD, *(known_kinds([each for each in wanted if each != CHILD]) or ())]
