"""Figures: turns, failures, tokens, cost and time, counted by agent, model and channel. No I/O."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

SLOT_MS = 5 * 60_000
HOUR_MS = 3_600_000
LATENCY_MS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
"""The upper bounds of the classes in which turns are counted by their time, and one class beyond. A factor of
about three apart, so that a median or a 95 % that is read from the classes is true to within half of it."""

Dimension = Literal["agent", "model", "channel"]


class Figures(NamedTuple):
    """Sums over some time."""

    turns: int = 0
    """Runs that have ended, without commands."""
    failed: int = 0
    """The turns among these that failed or timed out."""
    stopped: int = 0
    calls: int = 0
    """Answers of models."""
    input: int = 0
    """Tokens that were read anew; those that were read from a cache are `cached`."""
    cached: int = 0
    output: int = 0
    cost_usd: float = 0.0
    took_ms: int = 0
    t0: int = 0
    """How many turns took up to LATENCY_MS[0], and so on; the last is for those beyond."""
    t1: int = 0
    t2: int = 0
    t3: int = 0
    t4: int = 0
    t5: int = 0
    t6: int = 0
    t7: int = 0

    @property
    def tokens(self) -> int:
        return self.input + self.cached + self.output

    @property
    def timed(self) -> tuple[int, ...]:
        return self.t0, self.t1, self.t2, self.t3, self.t4, self.t5, self.t6, self.t7

    def took(self, share: float) -> int | None:
        """How long the given share of the turns took at most, in ms, read from the classes; None without turns."""
        return quantile(self.timed, share)

    def plus(self, other: "Figures") -> "Figures":
        sums: tuple[Any, ...] = tuple(a + b for a, b in zip(self, other, strict=True))
        return Figures(*sums)


_BEYOND_MS = LATENCY_MS[-1] * 3


def quantile(counts: Sequence[int], share: float) -> int | None:
    """A quantile of the classes; turns are taken to be spread evenly within a class."""
    wanted, before = sum(counts) * share, 0.0
    if not wanted:
        return None
    for number, count in enumerate(counts):
        if before + count >= wanted:
            low = LATENCY_MS[number - 1] if number else 0
            high = LATENCY_MS[number] if number < len(LATENCY_MS) else _BEYOND_MS
            return round(low + (high - low) * (wanted - before) / count)
        before += count
    return _BEYOND_MS


class FigureKey(NamedTuple):
    """The slot, agent, model and channel that figures are counted under."""

    at: int
    """The time at which the slot began."""
    agent_id: str
    model: str
    channel: str
