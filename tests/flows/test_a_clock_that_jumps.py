"""What waits for a time waits for that time, whatever the wall clock is set to."""

from pathlib import Path

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.events import FeedEvent, RunStarted
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import VirtualClock, open_gateway, submit
from crossclaw.testing.time import NOON_MS
from tests.flows.spawning import family, reported
from tests.flows.talking import call, say, two_agents

YEAR_MS = 365 * 24 * 3600 * 1000


class SetClock(VirtualClock):
    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


async def child_of(gateway: Gateway) -> Session:
    spawn = await reported(gateway)
    found = await gateway.ledger.find_session(SessionKey.stored(spawn.child_key))
    assert found is not None
    return found


@pytest.mark.spec("P7")
@pytest.mark.parametrize("ahead_ms", [YEAR_MS, -YEAR_MS])
async def test_a_clock_set_ahead_or_back_archives_nothing_and_keeps_nothing(
    tmp_path: Path, ahead_ms: int
) -> None:
    clock = SetClock()
    async with open_gateway(tmp_path, family(), clock=clock) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        await anyio.sleep(10 * 60)
        clock.ahead_ms = ahead_ms
        await anyio.sleep(45 * 60)
        assert (await child_of(gateway)).archived_at is None
        await anyio.sleep(10 * 60)
        assert (await child_of(gateway)).archived_at is not None


@pytest.mark.spec("P7")
async def test_a_gateway_that_starts_with_a_clock_set_ahead_archives_nothing(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, family()) as gateway:
        await say(gateway, "main", "go", "r1")
        await reported(gateway)
        await anyio.sleep(10 * 60)
    began = round(anyio.current_time() * 1000)
    later = VirtualClock(NOON_MS + YEAR_MS - began)
    async with open_gateway(tmp_path, family(), clock=later) as gateway:
        await anyio.sleep(45 * 60)
        assert (await child_of(gateway)).archived_at is None
        await anyio.sleep(10 * 60)
        assert (await child_of(gateway)).archived_at is not None


async def test_a_clock_set_ahead_between_the_claim_and_the_first_word_takes_no_time_from_the_run(
    tmp_path: Path,
) -> None:
    clock = SetClock()

    def set_ahead(_event: FeedEvent) -> None:
        clock.ahead_ms = YEAR_MS

    async with open_gateway(tmp_path, RehearsalProvider(), clock=clock) as gateway:
        with gateway.run_store.listening_to(set_ahead, RunStarted):
            run_id = (
                await submit(gateway, SessionKey.main("main"), "wait: 5\nsay: hi", timeout_s=9)
            ).run_id
            run = await gateway.run_store.wait(run_id)
    assert clock.ahead_ms == YEAR_MS
    assert run is not None
    assert (run.status, run.reply) == ("ok", "hi")


@pytest.mark.spec("P7")
@pytest.mark.parametrize("restart", [False, True])
async def test_a_clock_set_ahead_puts_no_old_session_away_and_deletes_none(
    tmp_path: Path, restart: bool
) -> None:
    maintenance = {"mode": "enforce", "pruneAfter": "5m", "resetArchiveRetention": "5m"}
    config, clock, model = two_agents(maintenance=maintenance), SetClock(), RehearsalProvider()

    async def there(gateway: Gateway) -> tuple[bool, bool]:
        keys = [row["key"] for row in (await call(gateway, "sessions.list", limit=9))["sessions"]]
        kept = await gateway.ledger.list_archived(before=2**60, limit=9)
        return "agent:main:quiet" in keys, "agent:main:away" in [each.key.text for each in kept]

    async def look(gateway: Gateway) -> None:
        await anyio.sleep(3 * 60)  # the first look is after a minute
        assert await there(gateway) == (True, True)
        await anyio.sleep(2 * 60)
        await gateway.retention.once()
        assert await there(gateway) == (False, False)

    async with open_gateway(tmp_path, model, config=config, clock=clock) as gateway:
        for name in ("main", "quiet", "away"):
            await say(gateway, name, "say: hi", f"r-{name}")
        await call(gateway, "sessions.archive", key="agent:main:away")
        await anyio.sleep(40)
        clock.ahead_ms = YEAR_MS
        if not restart:
            await look(gateway)
    if restart:
        async with open_gateway(tmp_path, model, config=config, clock=clock) as gateway:
            await look(gateway)
