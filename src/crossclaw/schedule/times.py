"""Times: when a schedule is due. Ticks are instants; a zone only says which instants they are.

A tick's name is its instant, so setting the clock back or a repeated hour never makes a second one of
it. Daylight saving follows Debian's cron: a fixed time that falls into the skipped hour is due when
that hour ends, one in the repeated hour is due once, and `*` hours go on by the hour.
"""

from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from crossclaw.domain.errors import Invalid
from crossclaw.domain.jobs import At, CronSchedule, Every, JobSchedule
from crossclaw.domain.texts import with_ellipsis
from crossclaw.schedule.lengths import EXPRESSION_CHARS_MAX

if TYPE_CHECKING:
    from cronsim import CronSim

EVERY_MS_MIN = 100  # faster than this is a loop, not a schedule
MISSED_ROWS_MAX = 500  # ticks of one gap that are told one by one; a person reads no more
YEARS_AHEAD = 8  # 29 February comes within them; what is not due by then never is
EXPRESSIONS_MAX = 2_048  # kept parsed, a few kilobytes each; more jobs than people have
_MINUTE_MS = 60_000
# How far back the latest tick is looked for when there are too many to walk through.
_SPANS_MS = tuple(_MINUTE_MS * n for n in (1, 60, 24 * 60, 31 * 24 * 60, 366 * 24 * 60))


class DueTicks(NamedTuple):
    """The ticks from `first` until now: the latest one, and those before it."""

    latest: int
    missed: tuple[int, ...]
    uncounted: bool = False
    """Whether there were more than are listed one by one; the first of `missed` stands for them."""


def parse_at(text: str) -> int:
    """An ISO time, without a zone in UTC, or milliseconds since 1970."""
    trimmed = text.strip()
    try:
        if trimmed.isdecimal():
            # Through a date, so that a number and a date have the same last year.
            return _ms(datetime.fromtimestamp(int(trimmed) / 1000, UTC))
        moment = datetime.fromisoformat(trimmed)
        return _ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError, OSError):
        raise Invalid(
            f"{with_ellipsis(text, 100)!r} is no time; write it like 2026-12-24T18:00:00Z"
        ) from None


def check(schedule: JobSchedule, local: tzinfo) -> None:
    """Refuses a schedule that can never be due; the error says what would work."""
    match schedule:
        case At(at=at):
            parse_at(at)
        case Every(every_ms=every_ms):
            if every_ms < EVERY_MS_MIN:
                raise Invalid(f"everyMs must be at least {EVERY_MS_MIN}")
        case CronSchedule():
            next(_cron_ticks(schedule, 0, local), None)


def next_after(schedule: JobSchedule, after: int, made_at: int, local: tzinfo) -> int | None:
    """The first tick later than `after`; None when there is none."""
    match schedule:
        case At(at=at):
            due = parse_at(at)
            return due if due > after else None
        case Every(every_ms=every_ms, anchor_ms=anchor_ms):
            if anchor_ms is not None and after < anchor_ms:
                return anchor_ms
            anchor = made_at if anchor_ms is None else anchor_ms
            return anchor + every_ms * ((after - anchor) // every_ms + 1)
        case CronSchedule():
            return next(_cron_ticks(schedule, after, local), None)


def due_since(schedule: JobSchedule, first: int, now: int, made_at: int, local: tzinfo) -> DueTicks:
    """Everything that is due from `first`, a tick itself, until `now`."""
    ticks = [first]
    for following in _after(schedule, first, made_at, local):
        if following > now:
            break
        ticks.append(following)
        if len(ticks) > MISSED_ROWS_MAX:
            break
    if len(ticks) <= MISSED_ROWS_MAX:
        return DueTicks(ticks[-1], tuple(ticks[:-1]))
    return DueTicks(_latest(schedule, first, now, made_at, local), (first,), uncounted=True)


def _after(schedule: JobSchedule, after: int, made_at: int, local: tzinfo) -> Iterator[int]:
    """All ticks later than `after`. An expression is parsed once for all of them."""
    if isinstance(schedule, CronSchedule):
        yield from _cron_ticks(schedule, after, local)
        return
    while (tick := next_after(schedule, after, made_at, local)) is not None:
        yield tick
        after = tick


def _latest(schedule: JobSchedule, first: int, now: int, made_at: int, local: tzinfo) -> int:
    if isinstance(schedule, Every):
        return first + (now - first) // schedule.every_ms * schedule.every_ms
    latest = first
    for span_ms in _SPANS_MS:
        for tick in _after(schedule, max(first, now - span_ms) - 1, made_at, local):
            if tick > now:
                break
            latest = tick
        if latest > first:
            break
    return latest


def find_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name.strip())
    except (KeyError, ValueError, OSError):
        raise Invalid(
            f"there is no time zone {name!r} here; use a name like Europe/Vienna"
        ) from None


def _cron_ticks(schedule: CronSchedule, after: int, local: tzinfo) -> Iterator[int]:
    try:
        yield from _walked(schedule, after, local)
    except (OverflowError, ValueError):
        return  # the calendar ends with the year 9999


def _walked(schedule: CronSchedule, after: int, local: tzinfo) -> Iterator[int]:
    if len(schedule.expr) > EXPRESSION_CHARS_MAX:
        raise Invalid(f"a cron expression has at most {EXPRESSION_CHARS_MAX} characters")
    zone = find_zone(schedule.tz) if schedule.tz else local
    begin = datetime.fromtimestamp(after / 1000, zone).replace(microsecond=0)
    ticks = copy(_parsed(schedule.expr, zone))
    ticks.dt = begin if ticks.fixup_tz is None else begin.replace(tzinfo=None)
    until = after + YEARS_AHEAD * 366 * 24 * 3600 * 1000
    for moment in ticks:
        tick = _ms(moment)
        if tick > until:
            return
        # In the hour that is repeated the walk by the wall begins before `after`.
        if tick > after:
            yield tick


@lru_cache(EXPRESSIONS_MAX)
def _parsed(expr: str, zone: tzinfo) -> "CronSim":
    """The parsed expression, parsed once, however often its job is due. Users take a copy and set where it begins."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415  only who has such a job needs it

    try:
        return CronSim(expr, datetime.fromtimestamp(0, zone))
    except CronSimError as error:
        raise Invalid(
            f"{expr!r} is no cron expression ({error}); for example 0 7 * * 1-5"
        ) from None


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
