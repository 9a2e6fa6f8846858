"""Traces: all that followed from one root cause, as one tree of spans with times, tokens, cost and outcome.

A span is a run, a call of a model, a call of a tool, a wait, a delivery or a report. Pure: spans go in as they were
read, in any order; they come out depth first, each with its depth, what lies below it, and whether it is on the critical
path: the chain of spans of which a faster one would have made the whole faster.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from crossclaw.domain.states import State

SpanKind = Literal["run", "model", "tool", "wait", "delivery", "report", "compaction"]


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    kind: SpanKind
    name: str
    key: str
    """The session in which it happened."""
    start: int
    end: int | None = None
    """The time at which it ended; None while it is under way."""
    parent: str | None = None
    began: int | None = None
    """The time at which a run that stood in a queue was taken up."""
    standing: State | None = None
    """How it ended; None when it ended well."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    model: str | None = None
    text: str | None = None
    run_id: str | None = None
    call_id: str | None = None
    depth: int = 0
    below: int = 0
    """How many spans lie under it; they come right after it."""
    tokens_below: int = 0
    """The tokens of it and all spans below it."""
    cost_below: float = 0.0
    critical: bool = False


def arranged(spans: Iterable[TraceSpan], now: int) -> list[TraceSpan]:
    """The spans depth first, children by their start; one whose parent is missing stands at the top."""
    known = {span.id: span for span in spans}
    children: dict[str | None, list[TraceSpan]] = {}
    for span in known.values():
        parent = span.parent if span.parent in known and span.parent != span.id else None
        children.setdefault(parent, []).append(span)
    for siblings in children.values():
        siblings.sort(key=lambda each: (each.start, each.began or 0))
    ordered = _depth_first(children)
    totals, ends = _totals(ordered, now)
    path = _critical(children, ends)
    return [
        replace(
            span,
            depth=depth,
            below=totals[span.id][0],
            tokens_below=totals[span.id][1],
            cost_below=totals[span.id][2],
            critical=span.id in path,
        )
        for span, depth in ordered
    ]


Children = dict[str | None, list[TraceSpan]]


def _depth_first(children: Children) -> list[tuple[TraceSpan, int]]:
    ordered: list[tuple[TraceSpan, int]] = []
    to_do = [(span, 0) for span in reversed(children.get(None, []))]
    while to_do:
        span, depth = to_do.pop()
        ordered.append((span, depth))
        to_do += [(child, depth + 1) for child in reversed(children.get(span.id, []))]
    return ordered


def _totals(
    ordered: Sequence[tuple[TraceSpan, int]], now: int
) -> tuple[dict[str, tuple[int, int, float]], dict[str, int]]:
    """Sums by span id, from the leaves up: the number of spans below, tokens and cost with them; and when the
    last of them ended."""
    totals: dict[str, tuple[int, int, float]] = {}
    ends: dict[str, int] = {}
    waiting: list[list[tuple[TraceSpan, tuple[int, int, float], int]]] = [[]]
    for span, depth in reversed(ordered):
        while len(waiting) < depth + 2:
            waiting.append([])
        below, waiting[depth + 1] = waiting[depth + 1], []
        count = sum(1 + each[1][0] for each in below)
        tokens = span.tokens_in + span.tokens_out + sum(each[1][1] for each in below)
        cost = span.cost_usd + sum(each[1][2] for each in below)
        end = max([span.end if span.end is not None else now, *(each[2] for each in below)])
        totals[span.id], ends[span.id] = (count, tokens, cost), end
        waiting[depth].append((span, totals[span.id], end))
    return totals, ends


def _critical(children: Children, ends: dict[str, int]) -> set[str]:
    """The ids on the critical path. Going backwards from the end, the child that ended last before a moment
    is why it was not over sooner; before that child began, the one that ended last then."""
    tops = children.get(None, [])
    path: set[str] = set()
    to_do = [max(tops, key=lambda each: ends[each.id])] if tops else []
    while to_do:
        span = to_do.pop()
        path.add(span.id)
        moment = ends[span.id]
        for child in sorted(children.get(span.id, []), key=lambda each: -ends[each.id]):
            if ends[child.id] <= moment and child.start < moment:
                to_do.append(child)
                moment = child.start
    return path
