"""What waits for a time waits for that time, whatever the wall clock is set to."""

from pathlib import Path

import anyio
import pytest

from crossclaw.app import House
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.testing import VirtualClock, open_house
from crossclaw.testing.time import NOON_MS
from tests.flows.spawning import family, reported
from tests.flows.talking import say

YEAR_MS = 365 * 24 * 3600 * 1000


class SetClock(VirtualClock):
    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


async def child_of(house: House) -> Session:
    spawn = await reported(house)
    found = await house.ledger.find_session(SessionKey.stored(spawn.child_key))
    assert found is not None
    return found


@pytest.mark.spec("P7")
@pytest.mark.parametrize("ahead_ms", [YEAR_MS, -YEAR_MS])
async def test_a_clock_set_ahead_or_back_archives_nothing_and_keeps_nothing(
    tmp_path: Path, ahead_ms: int
) -> None:
    clock = SetClock()
    async with open_house(tmp_path, family(), clock=clock) as house:
        await say(house, "main", "go", "r1")
        await reported(house)
        await anyio.sleep(10 * 60)
        clock.ahead_ms = ahead_ms
        await anyio.sleep(45 * 60)
        assert (await child_of(house)).archived_at is None
        await anyio.sleep(10 * 60)
        assert (await child_of(house)).archived_at is not None


@pytest.mark.spec("P7")
async def test_a_gateway_that_starts_with_a_clock_set_ahead_archives_nothing(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path, family()) as house:
        await say(house, "main", "go", "r1")
        await reported(house)
        await anyio.sleep(10 * 60)
    began = round(anyio.current_time() * 1000)
    later = VirtualClock(NOON_MS + YEAR_MS - began)
    async with open_house(tmp_path, family(), clock=later) as house:
        await anyio.sleep(45 * 60)
        assert (await child_of(house)).archived_at is None
        await anyio.sleep(10 * 60)
        assert (await child_of(house)).archived_at is not None
