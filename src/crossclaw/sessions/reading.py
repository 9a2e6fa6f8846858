"""Reading sessions: the list and the history that the session tools answer with."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import known_kinds
from crossclaw.domain.sessions import Entry, Session
from crossclaw.door.registry import Caller, Params, Result
from crossclaw.door.resolver import Resolver
from crossclaw.policy.answering import is_gone
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.budgets import BudgetRow, Budgets
from crossclaw.sessions.fitting import PageWanted, fitting, read_page, shortened, with_small_media
from crossclaw.sessions.rows import Row, stored_message, tool_row

LIST_DEFAULT, LIST_MAX = 100, 200  # rows; a model reads no more with profit
TAIL_MAX = 20  # messages a row; more is what sessions_history is for
MINUTES_MAX = 10_000_000  # nineteen years
HISTORY_DEFAULT, HISTORY_MAX = 200, 1_000
SEQ_MAX = 2**53  # what JSON carries exactly


class SessionsListParams(Params, frozen=True):
    kinds: list[str] | str | None = None
    limit: float | None = None
    active_minutes: float | None = None
    message_limit: float | None = None


class SessionsListResult(Result, frozen=True):
    count: int
    sessions: list[Row]
    clamped: tuple[str, ...] = ()
    """Parameters that asked for more than is allowed."""


class HistoryParams(Params, frozen=True):
    session_key: str
    limit: float | None = None
    include_tools: bool = False
    before: Annotated[int, msgspec.Meta(ge=1, le=SEQ_MAX)] | None = None


class HistoryResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_key: str
    messages: list[dict[str, Any]]
    truncated: bool
    dropped_messages: int
    before: int | None
    """Pass it as `before` to read further back; null at the beginning."""


TranscriptPathOf = Callable[[str, str, bool], Path]
"""Finds the path of a transcript by agent, session id, and whether it is compressed."""


class SessionReading:
    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        model_of: Callable[[str, str | None], str],
        transcript_of: TranscriptPathOf,
        budgets: Budgets | None = None,
    ) -> None:
        self._config = context.config
        self._budgets = budgets
        self._ledger = context.ledger
        self._resolver = resolver
        self._clock = context.clock
        self._model_of = model_of
        self._transcript_of = transcript_of

    @property
    def _history_bytes(self) -> int:
        return self._config.tools.sessions.history_bytes

    async def list(self, caller: Caller, params: SessionsListParams) -> SessionsListResult:
        kinds, clamped = params.kinds, list[str]()
        limit = _clamp("limit", params.limit, LIST_DEFAULT, 1, LIST_MAX, clamped)
        tail = _clamp("messageLimit", params.message_limit, 0, 0, TAIL_MAX, clamped)
        sessions = await self._ledger.list_sessions(
            sight=self._resolver.sight(caller.principal),
            limit=limit,
            kinds=known_kinds([kinds] if isinstance(kinds, str) else kinds),
            updated_after=self._after(params.active_minutes),
        )
        ids = [session.session_id for session in sessions]
        tails = await self._ledger.list_tails(ids, limit=tail, tool_results=False) if tail else {}
        tails = {
            session_id: await with_small_media(self._ledger, tail, self._history_bytes)
            for session_id, tail in tails.items()
        }
        paths = self._resolver.knows_paths(caller.principal)
        old = await self._ledger.list_compressed(ids) if paths else frozenset()
        keys = [session.key for session in sessions]
        budgets = await self._budgets.of(keys) if self._budgets else {}
        rows = [
            self._row(
                caller,
                session,
                tails.get(session.session_id),
                self._path(session, session.session_id in old) if paths else None,
                budgets.get(session.key),
            )
            for session in sessions
        ]
        return SessionsListResult(count=len(rows), sessions=rows, clamped=tuple(clamped))

    async def history(self, caller: Caller, params: HistoryParams) -> HistoryResult:
        handle = await self._resolver.resolve(caller.principal, params.session_key, "read")
        assert handle.session is not None
        limit = _clamp("limit", params.limit, HISTORY_DEFAULT, 1, HISTORY_MAX, [])
        page = await read_page(
            self._ledger,
            handle.session.session_id,
            stored_message,
            shortened,
            PageWanted(
                limit=limit,
                bytes_max=self._history_bytes,
                before=params.before,
                tool_results=params.include_tools,
            ),
        )
        return HistoryResult(
            session_key=handle.key.display(caller.principal.agent_id),
            messages=page.shown,
            truncated=page.dropped > 0 or any("omitted" in message for message in page.shown),
            dropped_messages=page.dropped,
            before=page.first if page.first > 1 else None,
        )

    def _alone(self, entry: Entry) -> dict[str, Any]:
        return fitting([entry], self._history_bytes, stored_message, shortened)[0]

    def _after(self, minutes: float | None) -> int | None:
        if minutes is None:
            return None
        if not 0 < minutes <= MINUTES_MAX:
            raise Invalid(f"activeMinutes must be more than 0 and at most {MINUTES_MAX}")
        return self._clock.now_ms() - int(minutes * 60_000)

    def _path(self, session: Session, compressed: bool) -> Path:
        return self._transcript_of(session.key.agent_id, session.session_id, compressed)

    def _row(
        self,
        caller: Caller,
        session: Session,
        tail: Sequence[Entry] | None,
        path: Path | None,
        budget: BudgetRow | None,
    ) -> Row:
        agent_id = session.key.agent_id
        model = self._model_of(agent_id, session.model)
        messages = None if tail is None else [self._alone(entry) for entry in tail]
        return tool_row(
            session,
            caller_agent_id=caller.principal.agent_id,
            model=model,
            window=self._config.window_for(agent_id, model),
            transcript=path,
            messages=messages,
            budget=budget,
            agent_gone=is_gone(self._config.agents, session.key),
        )


def _clamp(
    name: str, value: float | None, default: int, least: int, most: int, clamped: list[str]
) -> int:
    if value is None:
        return default
    if value != value or value < least:
        raise Invalid(f"{name} must be a number from {least} to {most}")
    if value > most:
        clamped.append(f"{name} is at most {most}")
    return int(min(value, most))
