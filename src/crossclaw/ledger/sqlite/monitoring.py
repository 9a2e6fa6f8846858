"""Monitoring reads on SQLite. Every one runs beside the event loop, so that it slows nobody
down."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from crossclaw.domain.messages import UserMessage, decode_message, words_of
from crossclaw.domain.sessions import Entry, Session
from crossclaw.domain.sight import Sight
from crossclaw.domain.states import (
    UNDER_WAY,
    State,
    exchange_state,
    run_state,
)
from crossclaw.ledger.attention import TightBudget, TroubledDelivery
from crossclaw.ledger.database import Database
from crossclaw.ledger.figures import FigureQuery, FigureRow
from crossclaw.ledger.monitoring import (
    CAUSED_WITHIN,
    REQUEST_CHARS,
    RUNS_MAX,
    DeliveryRow,
    ExchangeRow,
    Lane,
    Order,
    Page,
    RunRow,
    SpawnRow,
    TraceRows,
    WaitRow,
)
from crossclaw.ledger.sqlite import attention
from crossclaw.ledger.sqlite.damage import read_rows
from crossclaw.ledger.sqlite.figures import figures_over_time
from crossclaw.ledger.sqlite.rows import (
    SESSION,
    damaged_session,
    session_of,
    to_json,
)
from crossclaw.ledger.sqlite.run_rows import (
    ASKS,
    BEFORE,
    DELIVERY_SEEN,
    SEEN,
    SPAWN_SEEN,
    seen_damaged,
    seen_delivery,
    seen_run,
    seen_spawn,
    unless_ok,
)
from crossclaw.ledger.sqlite.sessions import SessionFilter
from crossclaw.ledger.sqlite.tracing import entries_of_run, trace_rows

T = TypeVar("T")

_ORDERS: dict[Order, str] = {
    "updated": "updated_at DESC",
    "cost": "cost_usd DESC, updated_at DESC",
    "tokens": "input_tokens + output_tokens DESC, updated_at DESC",
}
_SEND = (
    "SELECT x.exchange_id, 'send', x.requester_key, x.target_key, x.state, "
    "substr(x.request, 1, ?1), x.created_at, x.turn, x.ended_at, x.announce"
)
_SPAWN = (
    "SELECT s.child_key, 'spawn', s.parent_key, s.child_key, s.state, substr(s.task, 1, ?1), "
    "s.created_at, 0, s.ended_at, NULL FROM spawns s"
)
_NEWEST = (
    f"{_SEND} FROM runs r JOIN exchanges x ON x.run_id = r.run_id WHERE r.exchange_id IS NOT NULL "
    "AND r.kind = 'send' AND x.requester_key IS NOT NULL ORDER BY r.id DESC LIMIT ?2",
    f"{_SPAWN} ORDER BY s.created_at DESC LIMIT ?2",
)
_NAMED = (
    f"{_SEND} FROM exchanges x WHERE x.requester_key IS NOT NULL "
    "AND x.exchange_id IN (SELECT value FROM json_each(?2))",
    f"{_SPAWN} WHERE s.child_key IN (SELECT value FROM json_each(?2))",
)

# The first run of each lane, and how many there are that answer for themselves.
_LANES = (
    "SELECT key, own, status, run_id, since FROM (SELECT key, status, run_id, "
    "coalesce(started_at, created_at) AS since, "
    "row_number() OVER (PARTITION BY key ORDER BY id) AS place, "
    "sum(CASE WHEN merged_into IS NULL THEN 1 ELSE 0 END) OVER (PARTITION BY key) AS own "
    "FROM runs WHERE ended_at IS NULL AND key IN (SELECT value FROM json_each(?))) l WHERE place = 1"
)


class Scan(Protocol):
    def __call__(self, read: Callable[[Database], T]) -> Awaitable[T]: ...


class SqliteMonitoring:
    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    async def page(
        self,
        *,
        limit: int,
        offset: int = 0,
        order: Order = "updated",
        agent_id: str | None = None,
        sight: Sight,
        kinds: Sequence[str] | None = None,
        search: str | None = None,
        updated_after: int | None = None,
        archived: bool = False,
    ) -> Page:
        only = SessionFilter(agent_id, updated_after, kinds=kinds, search=search, sight=sight)
        return await self._scan(lambda db: _page(db, only, order, archived, limit, offset))

    async def sessions(self, keys: Sequence[str]) -> list[Session]:
        sql = f"SELECT {SESSION} FROM sessions WHERE key IN (SELECT value FROM json_each(?))"
        return await self._all(sql, (_json(keys),), session_of, "sessions", damaged_session)

    async def first_words(self, session_ids: Sequence[str]) -> dict[str, str]:
        # The first entries only: a conversation that begins otherwise has no title by its words.
        sql = (
            "SELECT session_id, body FROM entries WHERE session_id IN (SELECT value FROM json_each(?)) "
            "AND seq <= 3 AND role = 'user' ORDER BY session_id, seq DESC"
        )
        return dict(await self._all(sql, (_json(session_ids),), _words, "entries"))

    async def lanes(self, keys: Sequence[str]) -> dict[str, Lane]:
        return await self._scan(lambda db: _lanes(db, keys))

    async def runs(self, *, since: int, after: int = 0, limit: int = RUNS_MAX) -> list[RunRow]:
        # By number first: the newest are at the end of the table, and an old `since` must not read
        # the whole past.
        sql = (
            f"{SEEN} WHERE r.id > max(?, (SELECT max(id) FROM runs) - ?) AND r.created_at >= ? "
            "ORDER BY r.id"
        )
        return await self._all(sql, (after, limit, since), seen_run, damaged=seen_damaged)

    async def open_runs(self, *, limit: int = RUNS_MAX) -> list[RunRow]:
        return await self._all(
            f"{SEEN} WHERE r.ended_at IS NULL LIMIT ?", (limit,), seen_run, damaged=seen_damaged
        )

    async def runs_by_id(self, run_ids: Sequence[str]) -> list[RunRow]:
        sql = f"{SEEN} WHERE r.run_id IN (SELECT value FROM json_each(?))"
        found = {run.run_id: run for run in await self._all(sql, (_json(run_ids),), seen_run)}
        return [found[run_id] for run_id in run_ids if run_id in found]

    async def caused_by(self, run: RunRow) -> list[RunRow]:
        sql = f"{SEEN} WHERE r.id > ? AND r.id <= ? AND {BEFORE} = ? ORDER BY r.id"
        return await self._all(
            sql,
            (run.number, run.number + CAUSED_WITHIN, run.run_id),
            seen_run,
            damaged=seen_damaged,
        )

    async def of_exchange(self, exchange_id: str) -> list[RunRow]:
        return await self._all(
            f"{SEEN} WHERE r.exchange_id = ? ORDER BY r.id",
            (exchange_id,),
            seen_run,
            damaged=seen_damaged,
        )

    async def exchanges(self, *, limit: int) -> list[ExchangeRow]:
        return await self._scan(lambda db: _newest_exchanges(db, limit))

    async def exchanges_by_id(self, ids: Sequence[str]) -> list[ExchangeRow]:
        return await self._scan(lambda db: _exchanges(db, _NAMED, _json(ids)))

    async def waits(self, *, limit: int = RUNS_MAX) -> list[WaitRow]:
        sql = (
            "SELECT run_id, key, target_run_id, target_key, begun_at FROM waits "
            "ORDER BY begun_at LIMIT ?"
        )
        return await self._all(sql, (limit,), lambda row: WaitRow(*row))

    async def spawns(self, *, since: int, limit: int = RUNS_MAX) -> list[SpawnRow]:
        sql = (
            f"{SPAWN_SEEN} WHERE ended_at IS NULL OR ended_at >= ?1 OR created_at >= ?1 "
            "ORDER BY created_at DESC LIMIT ?2"
        )
        return await self._all(sql, (since, limit), seen_spawn)

    async def find_spawn(self, name: str) -> SpawnRow | None:
        sql = f"{SPAWN_SEEN} WHERE child_key = ?1 OR run_id = ?1"
        found = await self._all(sql, (name,), seen_spawn)
        return found[0] if found else None

    async def trace(self, root: str, *, limit: int) -> TraceRows:
        return await self._scan(lambda db: trace_rows(db, root, limit))

    async def troubled_sessions(self, *, limit: int) -> list[Session]:
        return await self._scan(lambda db: attention.troubled_sessions(db, limit))

    async def troubled_deliveries(self, *, since: int, limit: int) -> list[TroubledDelivery]:
        return await self._scan(lambda db: attention.troubled_deliveries(db, since, limit))

    async def tight_budgets(self, *, share: float, limit: int) -> list[TightBudget]:
        return await self._scan(lambda db: attention.tight_budgets(db, share, limit))

    async def figures(self, query: FigureQuery) -> list[FigureRow]:
        return await self._scan(lambda db: figures_over_time(db, query))

    async def dismissed(self, names: Sequence[str]) -> set[str]:
        return await self._scan(lambda db: attention.dismissed(db, names))

    async def entries_of_run(self, run_id: str, *, limit: int) -> list[Entry]:
        return await self._scan(lambda db: entries_of_run(db, run_id, limit))

    async def deliveries_of_run(self, key: str, run_id: str) -> list[DeliveryRow]:
        sql = f"{DELIVERY_SEEN} WHERE key = ? AND run_id = ? ORDER BY id"
        return await self._all(sql, (key, run_id), seen_delivery)

    async def _all(
        self,
        sql: str,
        values: tuple[Any, ...],
        make: Callable[[tuple[Any, ...]], T],
        table: str = "runs",
        damaged: Callable[[tuple[Any, ...]], T] | None = None,
    ) -> list[T]:
        return await self._scan(lambda db: read_rows(db, table, sql, values, make, damaged))


def _words(row: tuple[Any, ...]) -> tuple[str, str]:
    message = decode_message(row[1])
    return row[0], words_of(message) if isinstance(message, UserMessage) else ""


def _json(values: Sequence[str]) -> str:
    return to_json(list(values))


def _newest_exchanges(db: Database, limit: int) -> list[ExchangeRow]:
    # By the numbers of their first runs: those are in the order of time, ids are not.
    newest = _exchanges(db, _NEWEST, limit)
    return sorted(newest, key=lambda each: -each.created_at)[:limit]


def _exchanges(db: Database, reads: tuple[str, str], which: int | str) -> list[ExchangeRow]:
    found: list[ExchangeRow] = []
    for sql in reads:
        found += read_rows(db, "runs", sql, (REQUEST_CHARS, which), lambda row: ExchangeRow(*row))
    runs = _runs_of(db, found)
    return [replace(each, standing=_standing(each, runs.get(each.id, []))) for each in found]


def _runs_of(db: Database, exchanges: list[ExchangeRow]) -> dict[str, list[Any]]:
    """The status, reason and id of the runs of exchanges, and what those wait for."""
    ids = (_json([each.id for each in exchanges]),)
    runs: dict[str, list[Any]] = {}
    for name, *run in db.execute(
        "SELECT coalesce(s.child_key, r.exchange_id), r.status, r.error, r.run_id, "
        "(SELECT json_group_array(target_key) FROM waits w WHERE w.run_id = r.run_id), "
        f"{ASKS} FROM json_each(?) e LEFT JOIN spawns s ON s.child_key = e.value "
        "JOIN runs r ON r.exchange_id = e.value OR r.run_id = s.run_id ORDER BY r.id",
        ids,
    ):
        runs.setdefault(str(name), []).append(run)
    return runs


def _standing(exchange: ExchangeRow, runs: list[Any]) -> State | None:
    states = [
        run_state(status, error, waits_for=msgspec.json.decode(waits), asks=asks, run_id=run_id)
        for status, error, run_id, waits, asks in runs
    ]
    bad = [each for each in states if each.is_bad or each.name == "stopped"]
    current = [each for each in states if each.name in UNDER_WAY]
    return unless_ok(
        exchange_state(
            over=exchange.state == "over",
            worst=bad[0] if bad else None,
            current=current[-1] if current else None,
            announce=exchange.announce,
        )
    )


def _page(
    db: Database, only: SessionFilter, order: Order, archived: bool, limit: int, offset: int
) -> Page:
    clauses, values = only.clauses()
    where = f"archived_at IS {'NOT NULL' if archived else 'NULL'}{clauses}"
    by = _ORDERS[order]
    counted = db.execute(f"SELECT count(*) FROM sessions WHERE {where}", tuple(values)).fetchone()
    total = int(counted[0]) if counted else 0
    found = read_rows(
        db,
        "sessions",
        f"SELECT {SESSION} FROM sessions WHERE {where} ORDER BY {by} LIMIT ? OFFSET ?",
        (*values, limit, offset),
        session_of,
        damaged_session,
    )
    return Page(total, found)


def _lanes(db: Database, keys: Sequence[str]) -> dict[str, Lane]:
    wanted = (_json(keys),)
    waits: dict[Any, list[Any]] = {}
    for key, target in db.execute(
        "SELECT key, target_key FROM waits WHERE key IN (SELECT value FROM json_each(?))", wanted
    ):
        waits.setdefault(key, []).append(target)
    asked = dict(
        db.execute(
            "SELECT key, wish ->> '$.shown' FROM approvals WHERE status = 'waiting' "
            "AND key IN (SELECT value FROM json_each(?))",
            wanted,
        )
    )
    rows: Iterable[Any] = db.execute(_LANES, wanted)
    return {
        key: Lane(
            status,
            run_id,
            since,
            count - (status != "queued"),
            tuple(waits.get(key, ())),
            asked.get(key),
        )
        for key, count, status, run_id, since in rows
    }
