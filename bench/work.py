"""Work: something to measure, the rows it gives, and the reference work it is compared with.

A machine may be twice as slow today as yesterday, so a time alone says little. Every work is framed
by reference work, done just before and just after it; their ratio is what two runs can be compared by.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from statistics import fmean, quantiles
from typing import NamedTuple

import msgspec

from bench.stores import Stores

MB = 1_000_000


class Spent(msgspec.Struct, frozen=True):
    """The result of a work. Times are those of one piece of it; the CPU's are of all threads."""

    figures: dict[str, float]
    wall_ms: float | None = None
    cpu_ms: float | None = None


class Row(msgspec.Struct, frozen=True):
    """One line of the table. A unit per second should be high, every other one low."""

    name: str
    figure: str
    unit: str
    bar: float | None = None

    @property
    def is_rate(self) -> bool:
        return self.unit.endswith("/s")

    def cost(self, value: float) -> float:
        """The value as something that should be low: a rate becomes milliseconds a piece."""
        return 1_000 / value if self.is_rate else value

    def holds(self, value: float) -> bool:
        return self.bar is None or self.cost(value) <= self.cost(self.bar)


class Base(NamedTuple):
    """The result of one piece of reference work: milliseconds, or megabytes where those are compared."""

    cost: float
    cpu_ms: float | None = None


class Reference(msgspec.Struct, frozen=True):
    """Work without the gateway, that needs nothing but the machine."""

    name: str
    measure: Callable[[Stores], Base]


class Work(msgspec.Struct, frozen=True):
    run: Callable[[Stores], Spent]
    reference: Reference | None
    rows: tuple[Row, ...]


class Stopwatch:
    """Wall and CPU time since it was started; the CPU's of this process, if no other is asked."""

    def __init__(self, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._cpu_s = cpu_s
        self._wall, self._cpu = time.perf_counter(), cpu_s()
        self.each_ms: list[float] = []

    @contextmanager
    def piece(self) -> Generator[None]:
        began = time.perf_counter()
        yield
        self.each_ms.append((time.perf_counter() - began) * 1_000)

    def stop(self, pieces: int | None = None) -> Spent:
        """Stops the watch; by default for as many pieces of work as were timed one by one."""
        wall_s, cpu_s = time.perf_counter() - self._wall, self._cpu_s() - self._cpu
        count = pieces or len(self.each_ms)
        figures = {"rate": count / wall_s, **spread(self.each_ms)}
        return Spent(figures, wall_s * 1_000 / count, cpu_s * 1_000 / count)


def spread(each_ms: Sequence[float]) -> dict[str, float]:
    if len(each_ms) < 2:
        return {}
    cuts = quantiles(each_ms, n=100, method="inclusive")
    return {"median": cuts[49], "p95": cuts[94], "p99": cuts[98]}


def middle(several: Sequence[Spent]) -> Spent:
    """The middle result by time: neither the longest nor the shortest."""
    chosen = sorted(several, key=lambda spent: spent.wall_ms or 0.0)[len(several) // 2]
    return Spent({**chosen.figures, "median": chosen.wall_ms or 0.0}, chosen.wall_ms, chosen.cpu_ms)


def base_of(action: Callable[[], object], times: int, pieces: int = 1) -> Base:
    """The cost of one piece, for an action that does so many at once."""
    action()
    watch = Stopwatch()
    for _ in range(times):
        action()
    spent = watch.stop(times * pieces)
    return Base(spent.wall_ms or 0.0, spent.cpu_ms)


class Result(msgspec.Struct, frozen=True):
    """A row's value, beside the reference's in the same minute."""

    row: Row
    value: float
    wall_ms: float | None
    cpu_ms: float | None
    reference: str | None
    ratio: float | None
    cpu_ratio: float | None


def measure(work: Work, stores: Stores) -> list[Result]:
    if work.reference is None:
        return _results(work, work.run(stores), None)
    before = work.reference.measure(stores)
    spent = work.run(stores)
    after = work.reference.measure(stores)
    return _results(work, spent, _between(before, after))


def _between(before: Base, after: Base) -> Base:
    both = before.cpu_ms is not None and after.cpu_ms is not None
    cpu_ms = fmean((before.cpu_ms or 0.0, after.cpu_ms or 0.0)) if both else None
    return Base(fmean((before.cost, after.cost)), cpu_ms)


def _results(work: Work, spent: Spent, base: Base | None) -> list[Result]:
    return [_result(work, row, spent, base) for row in work.rows]


def _result(work: Work, row: Row, spent: Spent, base: Base | None) -> Result:
    value = spent.figures[row.figure]
    return Result(
        row=row,
        value=value,
        wall_ms=spent.wall_ms,
        cpu_ms=spent.cpu_ms,
        reference=None if work.reference is None else work.reference.name,
        ratio=None if base is None else row.cost(value) / base.cost,
        cpu_ratio=spent.cpu_ms / base.cpu_ms if base and base.cpu_ms and spent.cpu_ms else None,
    )
