"""Figures over time: what is counted, and how it is queried."""

from bisect import bisect_left

import msgspec

from crossclaw.domain.addresses import WEBCHAT
from crossclaw.domain.figures import LATENCY_MS, SLOT_MS, Dimension, Figures
from crossclaw.domain.runs import RunKind, RunStatus

POINTS_MAX = 1_000  # steps of one look
NAMES_MAX = 500  # agents, models or channels in it


class FigureQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which figures: from `since` in steps of `step_ms`, up to `until`. With `by` for each agent, model or channel on its own;
    the others narrow it down to one."""

    since: int
    until: int
    step_ms: int
    by: Dimension | None = None
    agent_id: str | None = None
    model: str | None = None
    channel: str | None = None


class FigureRow(msgspec.Struct, frozen=True):
    """One time step of one agent, model or channel; the name is empty if the query did not ask for
    them one by one."""

    name: str
    at: int
    figures: Figures


_INSIDE: dict[RunKind, str] = {
    "send": "agents",
    "round": "agents",
    "announce": "agents",
    "spawn": "agents",
    "cron": "jobs",
    "hook": "hooks",
    "node": "nodes",
    "agent": "api",
}


def channel_of_run(kind: RunKind, replies_on: str | None) -> str:
    """The name that a run is counted under: the chat platform that it answers, or what began it
    inside the gateway."""
    if kind in ("chat", "agent") and replies_on:
        return replies_on
    return _INSIDE.get(kind, WEBCHAT)


def turn_figures(status: RunStatus, took_ms: int | None) -> Figures:
    """The figures of one run that has ended; `took_ms` is None if it never began."""
    classes = [0] * (len(LATENCY_MS) + 1)
    if took_ms is not None:
        classes[bisect_left(LATENCY_MS, took_ms)] = 1
    failed, stopped = status in ("error", "timeout"), status == "aborted"
    return Figures(1, int(failed), int(stopped), 0, 0, 0, 0, 0.0, took_ms or 0, *classes)


def slot_of(at: int) -> int:
    return at - at % SLOT_MS
