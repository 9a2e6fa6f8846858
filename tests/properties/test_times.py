"""Laws of schedules: ticks go forward, are the same from wherever they are looked at, and none is lost."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossclaw.domain.jobs import CronSchedule, Every, JobSchedule
from crossclaw.schedule.times import MISSED_ROWS_MAX, due_since, next_after
from tests.proof.size import examples

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
BEGIN = 1_767_225_600_000  # 2026-01-01
ZONES = [UTC, *map(ZoneInfo, ["America/New_York", "Europe/Vienna", "Australia/Lord_Howe"])]
EXPRESSIONS = [
    "30 2 * * *",
    "30 1 * * *",
    "*/20 * * * *",
    "0 */6 * * *",
    "0 0 1 * *",
    "15 9 * * 1-5",
]

schedules = st.one_of(
    st.builds(CronSchedule, expr=st.sampled_from(EXPRESSIONS)),
    st.builds(Every, every_ms=st.integers(MINUTE, 40 * DAY)),
)
moments = st.integers(BEGIN, BEGIN + 400 * DAY)
zones = st.sampled_from(ZONES)


@pytest.mark.spec("K3")
@settings(max_examples=examples(100, 300), deadline=None)
@given(schedules, moments, zones)
def test_the_next_tick_is_later_and_nothing_lies_between(
    schedule: JobSchedule, after: int, zone: ZoneInfo
) -> None:
    tick = next_after(schedule, after, BEGIN, zone)
    assert tick is not None
    assert tick > after
    assert next_after(schedule, tick - 1, BEGIN, zone) == tick
    assert next_after(schedule, (after + tick - 1) // 2, BEGIN, zone) == tick


@pytest.mark.spec("K3")
@settings(max_examples=examples(66, 200), deadline=None)
@given(schedules, moments, st.integers(0, 60 * DAY), zones)
def test_what_is_due_after_a_gap_is_every_tick_of_it_once(
    schedule: JobSchedule, begin: int, gap: int, zone: ZoneInfo
) -> None:
    first = next_after(schedule, begin, BEGIN, zone)
    assert first is not None
    now = first + gap
    due = due_since(schedule, first, now, BEGIN, zone)
    assert first <= due.latest <= now
    following = next_after(schedule, due.latest, BEGIN, zone)
    assert following is None or following > now  # it is the latest
    walk = [*due.missed, due.latest] if due.missed else [due.latest]
    assert walk[0] == first
    assert all(one < other for one, other in pairwise(walk))
    if not due.uncounted:
        assert len(walk) <= MISSED_ROWS_MAX + 1
        assert all(next_after(schedule, a, BEGIN, zone) == b for a, b in pairwise(walk))


def at(text: str) -> int:
    zone = ZoneInfo("America/New_York")
    return round(datetime.fromisoformat(text).astimezone(zone).timestamp() * 1000)


@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("expr", "after", "ticks"),
    [
        # 8 March 2026: after 01:59 comes 03:00. What falls into the hour that is not there is due
        # when it would have ended; hourly work goes on by the hour.
        (
            "30 2 * * *",
            "2026-03-07T12:00-05:00",
            ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
        ),
        (
            "0 * * * *",
            "2026-03-08T00:30-05:00",
            ["2026-03-08T01:00-05:00", "2026-03-08T03:00-04:00"],
        ),
        # 1 November 2026: 01:00 to 01:59 comes twice. A fixed time is due once, hourly work twice.
        (
            "30 1 * * *",
            "2026-11-01T00:00-04:00",
            ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
        ),
        ("30 1 * * *", "2026-11-01T01:10-05:00", ["2026-11-02T01:30-05:00"]),
        (
            "0 * * * *",
            "2026-11-01T00:30-04:00",
            ["2026-11-01T01:00-04:00", "2026-11-01T01:00-05:00"],
        ),
    ],
)
def test_days_on_which_the_clocks_change(expr: str, after: str, ticks: list[str]) -> None:
    schedule, moment = CronSchedule(expr=expr, tz="America/New_York"), at(after)
    for expected in ticks:
        moment = next_after(schedule, moment, 0, UTC) or 0
        assert moment == at(expected)
