"""map.get: who is here, who talked to whom, who waits for whom. Ours: OpenClaw has none.

A client asks once for all and then, after each sign that something happened, for what is numbered
above the `cursor` it has. `open` names every run that has not ended, so a client that missed an end
sees it in the next answer.
"""

from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Forbidden
from crossclaw.domain.figures import HOUR_MS
from crossclaw.domain.keys import SHARED
from crossclaw.domain.sight import EVERYTHING
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.table import SessionTable, TableRow
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.monitoring import RUNS_MAX, RunRow, SpawnRow, WaitRow

SETTLED_MS = 30_000  # longer than a transaction lasts, and than clocks differ
NODES_MAX = 1_000  # what a page draws at thirty frames a second
IDLE_MAX = 400  # of those that took no part: a page folds them, and shows some when asked


class MapParams(Params, frozen=True):
    since_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    """The beginning, in milliseconds since 1970; by default an hour ago."""
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


class MapResult(Result, frozen=True):
    ts: int
    since: int
    cursor: int
    nodes: list[TableRow]
    runs: list[RunRow]
    open: list[RunRow]
    waits: list[WaitRow]
    spawns: list[SpawnRow]
    totals: dict[str, int] | None = None
    """The number of sessions of each agent, those that are not named here included; in the first answer."""
    truncated: bool = False
    """Whether more happened than one answer holds: these are the newest."""


class Map:
    def __init__(
        self, ledger: Ledger, resolver: Resolver, table: SessionTable, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._watching = ledger.monitoring
        self._resolver = resolver
        self._table = table
        self._clock = clock

    @method(
        "map.get",
        "operator.read",
        "read",
        "Ours: the sessions, what passed between them and who waits for whom.",
    )
    async def get(self, caller: Caller, params: MapParams) -> MapResult:
        require_person(self._resolver, caller)
        return await self._look(params)

    async def _look(self, params: MapParams) -> MapResult:
        now = self._clock.now_ms()
        since = now - HOUR_MS if params.since_ms is None else params.since_ms
        runs = await self._watching.runs(since=since, after=params.after)
        still_open = await self._watching.open_runs()
        waits = await self._watching.waits()
        spawns = await self._watching.spawns(since=since)
        keys = _named([*runs, *still_open], waits, spawns)
        return MapResult(
            ts=now,
            since=since,
            cursor=max([params.after, *(run.number for run in runs if self._is_settled(run, now))]),
            nodes=await self._nodes(keys, whole=params.after == 0),
            runs=shown_rows(self._resolver, runs),
            open=shown_rows(self._resolver, still_open),
            waits=shown_rows(self._resolver, waits),
            spawns=shown_rows(self._resolver, spawns),
            totals=await self._ledger.count_sessions_of_agents() if not params.after else None,
            truncated=len(runs) >= RUNS_MAX,
        )

    def _is_settled(self, run: RunRow, now: int) -> bool:
        """Whether no run with a lower number can still turn up: where several gateways write, numbers are
        given before commits, and those of the last moments are sent again."""
        return not self._ledger.shared or run.created_at < now - SETTLED_MS

    async def _nodes(self, keys: list[str], *, whole: bool) -> list[TableRow]:
        """Rows of the sessions that took part, and in the first answer the newest of the others."""
        sessions = {each.key.text: each for each in await self._watching.sessions(keys[:NODES_MAX])}
        if whole and len(sessions) < NODES_MAX:
            room = min(IDLE_MAX, NODES_MAX - len(sessions))
            page = await self._watching.page(limit=room, sight=EVERYTHING)
            sessions = {each.key.text: each for each in page.sessions} | sessions
        return await self._table.rows(list(sessions.values())[-NODES_MAX:])


def require_person(resolver: Resolver, caller: Caller) -> None:
    """Raises unless the caller is a person's client: the whole gateway is shown regardless of visibility."""
    if not resolver.sees_everything(caller.principal):
        raise Forbidden("only a person's client may look at all sessions")


def _named(
    runs: Iterable[RunRow], waits: Iterable[WaitRow], spawns: Iterable[SpawnRow]
) -> list[str]:
    keys: dict[str, None] = {}
    for wait in waits:
        keys |= {wait.key: None, wait.target_key: None}
    for spawn in spawns:
        keys |= {spawn.child_key: None, spawn.parent_key: None}
    for run in sorted(runs, key=lambda each: -each.number):
        keys |= {run.key: None} | ({run.source: None} if run.source else {})
    return list(keys)


_KEYS = ("key", "source", "target_key", "parent_key", "requester", "target")
_R = TypeVar("_R", bound=msgspec.Struct)


def shown_rows(resolver: Resolver, rows: Iterable[_R]) -> list[_R]:
    """The rows with the shared session under the name that people know."""
    return [_shown(resolver, row) for row in rows]


def _shown(resolver: Resolver, row: _R) -> _R:
    stored = [name for name in _KEYS if getattr(row, name, None) == SHARED]
    changes = dict.fromkeys(stored, resolver.shown(SHARED))
    return msgspec.structs.replace(row, **changes) if changes else row
