"""An expression is parsed once a job, and the walk from there is the same as from a fresh one."""

from datetime import UTC, datetime, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

import cronsim
import pytest

from crossclaw.domain.jobs import CronSchedule
from crossclaw.schedule import times

pytestmark = pytest.mark.spec("K1")

BEGIN = int(datetime(2026, 3, 27, 22, 10, 5, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 24 * 3600 * 1000


def test_an_expression_is_parsed_once_for_each_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    times._parsed.cache_clear()

    class Counting(cronsim.CronSim):
        def __init__(self, expr: str, dt: datetime) -> None:
            parsed.append(expr)
            super().__init__(expr, dt)

    monkeypatch.setattr(cronsim, "CronSim", Counting)
    daily = CronSchedule(expr="7 6 * * *")
    for number in range(50):
        assert times.next_after(daily, BEGIN + number * DAY_MS, 0, UTC) is not None
        times.check(daily, UTC)
    assert parsed == ["7 6 * * *"]
    for _ in range(3):
        times.next_after(CronSchedule(expr="7 6 * * *", tz="Europe/Vienna"), BEGIN, 0, UTC)
    assert len(parsed) == 2


def test_only_so_many_expressions_are_kept() -> None:
    for number in range(times.EXPRESSIONS_MAX + 10):
        expr = f"{number % 60} {number // 60 % 24} {number // 1440 + 1} * *"
        times.check(CronSchedule(expr=expr), UTC)

    assert times._parsed.cache_info().currsize == times.EXPRESSIONS_MAX


@pytest.mark.parametrize("expr", ["30 2 * * *", "*/20 * * * *", "0 */3 * * 0", "5 0 2 * * *"])
@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Europe/Vienna"), ZoneInfo("Australia/Lord_Howe")])
def test_walks_that_share_what_was_parsed_do_not_meet(expr: str, zone: tzinfo) -> None:
    """Over both changes of the clock, several walks of one expression side by side."""
    begins = [BEGIN + day * DAY_MS for day in (0, 1, 2, 7, 180, 217, 218)]
    walks = [times._cron_ticks(CronSchedule(expr=expr), begin, zone) for begin in begins]
    side_by_side = list(zip(*(islice(walk, 30) for walk in walks), strict=True))
    for begin, found in zip(begins, zip(*side_by_side, strict=True), strict=True):
        fresh = cronsim.CronSim(expr, datetime.fromtimestamp(begin / 1000, zone))
        ticks = (round(moment.timestamp() * 1000) for moment in fresh)
        assert list(found) == list(islice((tick for tick in ticks if tick > begin), 30))
