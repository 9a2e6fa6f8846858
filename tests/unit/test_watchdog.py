"""The watchdog: a turn of the loop in which everybody waited is counted, and told."""

import logging
import time

import anyio
import anyio.lowlevel
import pytest

from crossclaw.gateway.watchdog import STALL_S, Watchdog


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


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
    assert caplog.text.count("everybody waited") == 1  # the others are counted in the next line


async def test_what_waits_for_a_file_in_the_loop_is_a_stall_too() -> None:
    watchdog = Watchdog()
    with watchdog.watching():
        await anyio.lowlevel.checkpoint()
        time.sleep(STALL_S + 0.05)  # noqa: ASYNC251  that is what is counted
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    assert watchdog.stalls == {"busy": 0, "waiting": 1}


async def test_waiting_as_one_should_is_none_and_nothing_is_counted_afterwards() -> None:
    watchdog = Watchdog()
    with watchdog.watching():
        await anyio.sleep(STALL_S + 0.05)
    _work(STALL_S + 0.02)
    await anyio.sleep(0.01)

    assert watchdog.stalls["busy"] == 0


async def test_two_that_watch_one_loop_leave_in_any_order() -> None:
    first, second = Watchdog(), Watchdog()
    one, other = first.watching(), second.watching()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    await anyio.sleep(0.01)
    with Watchdog().watching():
        await anyio.sleep(0.01)
