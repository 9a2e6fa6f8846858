"""The table on the terminal."""

from bench.record import Kept
from bench.work import Result

LEGEND = """\
wall, CPU   milliseconds of one piece of work; the CPU's of all threads
ratio       the value, and its CPU time, in units of the reference work, which was measured just
            before and after
last        the recorded value; × is how much dearer it is now, by the ratios where there are any
"""
COLUMNS = (46, -8, 8, -7, 4, -7, -7, -7, -7, 12, -8, -6, -6)
TITLES = ("", "value", "", "bar", "", "wall", "CPU", "ratio", "CPU", "to", "last", "×", "CPU")


def title() -> str:
    return _line(TITLES)


def line(result: Result, last: Kept | None) -> str:
    row = result.row
    return _line(
        (
            row.name,
            _number(result.value),
            row.unit,
            _bar(result),
            "" if row.bar is None else "ok" if row.holds(result.value) else "OVER",
            _number(result.wall_ms),
            _number(result.cpu_ms),
            _number(result.ratio),
            _number(result.cpu_ratio),
            result.reference or "",
            _number(None if last is None else last.value),
            _number(None if last is None else factor(result, last)),
            _number(None if last is None else cpu_factor(result, last)),
        )
    )


def factor(result: Result, last: Kept) -> float:
    """The cost relative to the last run: above one it costs more. Ratios are compared, because machines differ."""
    if result.ratio is not None and last.ratio:
        return result.ratio / last.ratio
    return result.row.cost(result.value) / result.row.cost(last.value)


def cpu_factor(result: Result, last: Kept) -> float | None:
    both = result.cpu_ratio is not None and last.cpu_ratio
    return (result.cpu_ratio or 0.0) / last.cpu_ratio if both and last.cpu_ratio else None


def _bar(result: Result) -> str:
    if result.row.bar is None:
        return ""
    return f"{'≥' if result.row.is_rate else '≤'} {result.row.bar:,g}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def _line(cells: tuple[str, ...]) -> str:
    """A negative width stands for a column that is aligned right."""
    parts = [
        cell.rjust(-width) if width < 0 else cell.ljust(width)
        for cell, width in zip(cells, COLUMNS, strict=True)
    ]
    return " ".join(parts).rstrip()
