"""The watchdog: a turn of the loop that blocks everybody is counted, and told."""

import logging
import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from crossclaw.gateway.watchdog import READ_EVERY_S, STALL_S, Watchdog


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def _block() -> None:
    """One turn of the loop that waits, and one to count it."""
    await anyio.lowlevel.checkpoint()
    time.sleep(STALL_S + 0.05)  # noqa: ASYNC251  that is what is counted
    await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()


async def test_what_keeps_the_loop_busy_is_a_stall(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog()
    with caplog.at_level(logging.WARNING), watchdog.watching():
        await anyio.lowlevel.checkpoint()
        for _ in range(3):
            _work(STALL_S + 0.02)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()

    assert watchdog.stalls["busy"] == 3
    assert watchdog.longest_s > STALL_S
    assert watchdog.stalled_s > 3 * STALL_S
    assert (
        caplog.text.count("the event loop was blocked for 0.") == 1
    )  # the others are in the next line


async def test_what_waits_for_a_file_in_the_loop_is_a_stall_too() -> None:
    watchdog = Watchdog()
    with watchdog.watching():
        await _block()

    assert watchdog.stalls == {"busy": 0, "waiting": 1}


async def test_waiting_as_one_should_is_none_and_nothing_is_counted_afterwards() -> None:
    watchdog = Watchdog()
    with watchdog.watching():
        await anyio.sleep(STALL_S + 0.05)
    _work(STALL_S + 0.02)
    await anyio.sleep(0.01)

    assert watchdog.stalls["busy"] == 0


@pytest.mark.parametrize("first_in_first_out", [True, False])
async def test_two_that_watch_one_loop_leave_in_any_order(first_in_first_out: bool) -> None:
    loop: Any = anyio.lowlevel.current_token().native_token
    selector = loop._selector
    before = selector.select
    watchdogs = [Watchdog(), Watchdog()]
    watching = [each.watching() for each in watchdogs]
    for each in watching:
        each.__enter__()
    await _block()
    stays = watchdogs[1] if first_in_first_out else watchdogs[0]
    leaving = watching if first_in_first_out else watching[::-1]
    leaving[0].__exit__(None, None, None)
    await _block()

    counted = {each: each.stalls.total() for each in watchdogs}
    assert counted == {each: 2 if each is stays else 1 for each in watchdogs}

    leaving[1].__exit__(None, None, None)
    await _block()

    assert {each: each.stalls.total() for each in watchdogs} == counted
    assert selector.select == before


async def test_the_processor_time_is_read_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[float] = []
    read = time.thread_time

    def counted() -> float:
        readings.append(read())
        return readings[-1]

    monkeypatch.setattr(time, "thread_time", counted)
    began_s, turns = time.monotonic(), 500
    with Watchdog().watching():
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
    took_s = time.monotonic() - began_s

    assert 1 <= len(readings) <= min(took_s / READ_EVERY_S + 1, turns / 2)


async def test_work_of_earlier_turns_is_none_of_the_one_that_waited() -> None:
    watchdog = Watchdog()
    with watchdog.watching():
        for _ in range(30):
            _work(STALL_S / 10)
            await anyio.lowlevel.checkpoint()
        await _block()

    assert watchdog.stalls["busy"] == 0
