"""Every test ends, also one that waits for what never comes.

Most have a clock that jumps, and their waits end by themselves. In real time pytest-timeout interrupts a test from
outside, and anyio's runner then waits for that very test before it cleans up its fixtures: for ever. So a test in real time
is cancelled from inside and a while earlier, cleans up as it does after any failure, and is shown with the line
where it waited.
"""

import asyncio  # noqa: TID251  its runner is what hangs, and a scope of anyio would have to end in its order
import inspect
import subprocess
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import wraps
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

SHARE = 2 / 3  # of the time that pytest-timeout gives it with its fixtures
SOON_S = 60.0  # what comes within a second or never: the machine may be busy, and only a test that fails waits as long


def bury(process: "subprocess.Popen[Any]", within_s: float = SOON_S) -> None:
    """Waits for one that was told to end, and kills one that does not."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def beside(work: Callable[[], object]) -> Generator[None]:
    """In a thread, which has ended when this has; one that hangs keeps nobody from ending."""
    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(SOON_S)
    assert not thread.is_alive(), "what runs beside the test has not ended"


def give_an_end(item: "pytest.Function") -> None:
    """Before it is run."""
    limit_s = _limit_s(item) * SHARE
    real = _is_real(item.funcargs.get("anyio_backend"))
    if real and limit_s and inspect.iscoroutinefunction(item.obj):
        item.obj = _ended(item.obj, limit_s)


def _is_real(backend: object) -> bool:
    """Its clock: an option would be a loop with one that jumps. In real time hardly anything runs on trio."""
    return backend in ("asyncio", ("asyncio", {}))


def _limit_s(item: "pytest.Function") -> float:
    """As pytest-timeout reads it; 0: none."""
    marker = item.get_closest_marker("timeout")
    given = marker.args[0] if marker else item.config.getoption("timeout")
    return float(item.config.getini("timeout") or 0 if given is None else given)


def _ended(test: Callable[..., Awaitable[None]], limit_s: float) -> Callable[..., Awaitable[None]]:
    """Not by a scope of anyio: a test may open what its fixture closes, and scopes must be closed in their order."""

    @wraps(test)
    async def ended(**given: Any) -> None:
        try:
            async with asyncio.timeout(limit_s) as end:
                await test(**given)
        except TimeoutError as where:
            if not end.expired():
                raise
            raise TimeoutError(f"this test was not over after {limit_s:.0f} s") from where

    return ended
