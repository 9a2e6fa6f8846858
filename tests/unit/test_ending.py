"""A test in real time that would hang is cancelled, and shown with the line where it waited."""

import inspect
import traceback
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from threading import Event

import anyio
import anyio.lowlevel
import pytest

from crossclaw.testing import VirtualLoop
from tests.ending import _ended, _is_real, beside

LIMIT_S = 300  # of pytest-timeout, which comes later and from outside


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_test_that_waits_for_what_never_comes_ends_and_says_where_it_waited() -> None:
    closed: list[str] = []

    async def hangs(never: anyio.Event) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep_forever)
                await never.wait()  # here
        finally:
            closed.append("what it had opened")

    with pytest.raises(TimeoutError, match="not over after") as ended:
        await _ended(hangs, 0.01)(never=anyio.Event())
    assert "await never.wait()  # here" in "".join(traceback.format_exception(ended.value))
    assert closed == ["what it had opened"]


async def test_every_test_in_real_time_has_an_end(request: pytest.FixtureRequest) -> None:
    """This one too."""
    assert 0 < inspect.getclosurevars(request.node.obj).nonlocals["limit_s"] < LIMIT_S
    assert _is_real("asyncio")
    assert not _is_real(("asyncio", {"loop_factory": VirtualLoop})), "its waits end by themselves"


@pytest.fixture
async def opened() -> AsyncGenerator[tuple[AsyncExitStack, anyio.Event]]:
    ended = anyio.Event()
    async with AsyncExitStack() as closing:
        yield closing, ended
    assert ended.is_set(), "what the test has opened ends with it"


async def test_a_test_may_open_what_its_fixture_closes(
    opened: tuple[AsyncExitStack, anyio.Event],
) -> None:
    closing, ended = opened

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        ended.set()

    tasks = await closing.enter_async_context(anyio.create_task_group())
    tasks.start_soon(work)
    assert not ended.is_set()


def test_what_runs_beside_a_test_has_ended_also_when_the_test_has_failed() -> None:
    failed, ended = Event(), list[str]()

    class Failed(Exception):
        def __init__(self) -> None:
            failed.set()

    def work() -> None:
        failed.wait()
        Event().wait(0.05)  # it takes a while; whoever does not wait for it is through by then
        ended.append("work")

    with pytest.raises(Failed), beside(work):
        raise Failed
    assert ended == ["work"]
