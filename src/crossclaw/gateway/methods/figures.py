"""figures.get: turns, failures, tokens, cost and time over time. Ours: OpenClaw has none of this shape."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from crossclaw.domain.aliases import SafeInteger
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Invalid
from crossclaw.domain.figures import HOUR_MS, SLOT_MS, Dimension, Figures
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.map import require_person
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.figures import POINTS_MAX, FigureQuery, FigureRow, slot_of

SERIES_MAX = 20  # the largest; the rest is added up under one name
OTHERS = "others"

Filter = Annotated[str, msgspec.Meta(max_length=300)]


class FiguresParams(Params, frozen=True):
    since_ms: SafeInteger | None = None
    """The beginning, in milliseconds since 1970; by default an hour ago."""
    until_ms: SafeInteger | None = None
    step_ms: Annotated[int, msgspec.Meta(ge=SLOT_MS, le=2**53)] | None = None
    """The length of a point; by default there is one point."""
    by: Dimension | None = None
    agent_id: Filter | None = None
    model: Filter | None = None
    channel: Filter | None = None


class FigurePoint(Result, frozen=True):
    """The figures of one step, or of all of them."""

    at: int
    turns: int
    failed: int
    stopped: int
    calls: int
    tokens: int
    input: int
    cached: int
    output: int
    cost_usd: float
    took_avg_ms: int | None = None
    took_median_ms: int | None = None
    took_95_ms: int | None = None
    """The time in which 95 of 100 turns ended. Read from classes, so approximate."""


class FigureSeries(Result, frozen=True):
    name: str
    total: FigurePoint
    points: list[FigurePoint]
    """The points in which something happened, in order."""


class FiguresResult(Result, frozen=True):
    ts: int
    since: int
    until: int
    step_ms: int
    total: FigurePoint
    series: list[FigureSeries]
    """The series, those with the most tokens first."""


class FigureMethods:
    def __init__(self, ledger: Ledger, resolver: Resolver, clock: Clock) -> None:
        self._ledger = ledger
        self._resolver = resolver
        self._clock = clock

    @method(
        "figures.get",
        "operator.read",
        "read",
        "Ours: turns, failures, tokens, cost and time over time, for each agent, model or channel.",
    )
    async def get(self, caller: Caller, params: FiguresParams) -> FiguresResult:
        require_person(self._resolver, caller)
        now = self._clock.now_ms()
        query = _query(params, now)
        rows = await self._ledger.monitoring.figures(query)
        return FiguresResult(
            ts=now,
            since=query.since,
            until=query.until,
            step_ms=query.step_ms,
            total=_point(query.since, _added([row.figures for row in rows])),
            series=_series(rows, query.since),
        )


def _query(params: FiguresParams, now: int) -> FigureQuery:
    until = now if params.until_ms is None else params.until_ms
    since = slot_of(max(0, until - HOUR_MS if params.since_ms is None else params.since_ms))
    if since > until:
        raise Invalid("sinceMs is after untilMs; give the earlier moment as sinceMs")
    step_ms = params.step_ms or max(SLOT_MS, until - since + 1)
    if (until - since) / step_ms > POINTS_MAX:
        raise Invalid(
            f"this would be more than {POINTS_MAX} points; ask for a longer stepMs or for less time"
        )
    return FigureQuery(
        since=since,
        until=until,
        step_ms=step_ms,
        by=params.by,
        agent_id=params.agent_id,
        model=params.model,
        channel=params.channel,
    )


def _series(rows: Sequence[FigureRow], since: int) -> list[FigureSeries]:
    names: dict[str, dict[int, Figures]] = {}
    for row in rows:
        names.setdefault(row.name, {})[row.at] = row.figures
    sums = {name: _added(points.values()) for name, points in names.items()}
    order = sorted(names, key=lambda name: (-sums[name].tokens, -sums[name].turns, name))
    rest = order[SERIES_MAX:]
    shown = [
        FigureSeries(
            name=name,
            total=_point(since, sums[name]),
            points=[_point(at, figures) for at, figures in sorted(names[name].items())],
        )
        for name in order[:SERIES_MAX]
    ]
    return [*shown, *([_others([names[name] for name in rest], since)] if rest else [])]


def _others(many: Sequence[dict[int, Figures]], since: int) -> FigureSeries:
    steps: dict[int, Figures] = {}
    for points in many:
        for at, figures in points.items():
            steps[at] = steps.get(at, Figures()).plus(figures)
    total = _point(since, _added(steps.values()))
    return FigureSeries(
        name=OTHERS, total=total, points=[_point(at, steps[at]) for at in sorted(steps)]
    )


def _added(many: Iterable[Figures]) -> Figures:
    total = Figures()
    for each in many:
        total = total.plus(each)
    return total


def _point(at: int, figures: Figures) -> FigurePoint:
    timed = sum(figures.timed)
    return FigurePoint(
        at=at,
        turns=figures.turns,
        failed=figures.failed,
        stopped=figures.stopped,
        calls=figures.calls,
        tokens=figures.tokens,
        input=figures.input,
        cached=figures.cached,
        output=figures.output,
        cost_usd=round(figures.cost_usd, 6),
        took_avg_ms=round(figures.took_ms / timed) if timed else None,
        took_median_ms=figures.took(0.5),
        took_95_ms=figures.took(0.95),
    )
