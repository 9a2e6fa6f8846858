"""Which config takes the place of another, and when."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from crossclaw.app import run_gateway
from crossclaw.app.reloading import next_config
from crossclaw.config import Loaded, Paths, load
from crossclaw.testing import VirtualLoop

OLD, NEW = "{agents: {list: [{id: 'ana'}]}}", "{agents: {list: [{id: 'bo'}]}}"
PAUSE_S = 400.0  # longer than runs are waited for


class File:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "openclaw.json"
        self._written = 0

    def write(self, text: str) -> None:
        """Each time a second later, for file systems that count no finer."""
        self.path.write_text(text)
        self._written += 1
        os.utime(self.path, (self._written, self._written))

    def load(self) -> Loaded:
        return load(self.path, {})


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


async def after(
    file: File,
    *texts: str | None,
    at_work: Callable[[], bool] = lambda: False,
    loaded: Loaded | None = None,
    failed: Loaded | None = None,
) -> str | None:
    """The default agent of the next config, when these texts are written one after the other; None when there
    is no next one."""
    found: list[Loaded] = []
    before = loaded or file.load()

    async def look() -> None:
        found.append(await next_config(before, {}, at_work, failed))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        for text in texts:
            await anyio.sleep(PAUSE_S)
            if text is None:
                file.path.unlink()
            else:
                file.write(text)
        await anyio.sleep(PAUSE_S)
        tasks.cancel_scope.cancel()
    return found[0].config.agents.default_id if found else None


async def test_a_good_change_is_taken(file: File) -> None:
    file.write(OLD)
    assert await after(file, NEW) == "bo"


async def test_a_file_that_was_not_there_at_the_start_is_taken(file: File) -> None:
    loaded = file.load()
    assert not loaded.exists
    assert await after(file, NEW, loaded=loaded) == "bo"


@pytest.mark.parametrize("was_there", [False, True])
async def test_only_a_file_that_was_there_is_said_to_be_gone(
    file: File, was_there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if was_there:
        file.write(OLD)
    assert await after(file, *[None] * was_there) is None
    assert ("is gone" in caplog.text) is was_there


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{agents: {list: [{id: 'b", id="half written"),
        pytest.param("{agents: {list: 7}}", id="wrong"),
        pytest.param("{hooks: {enabled: true}}", id="refused at the start as well"),
        pytest.param(OLD + " // a comment", id="the same in other words"),
        pytest.param(None, id="gone"),
    ],
)
async def test_what_is_no_other_good_config_changes_nothing(file: File, text: str | None) -> None:
    file.write(OLD)
    assert await after(file, text) is None
    file.write(OLD)
    assert await after(file, text, NEW) == "bo", "and the next good one is taken"


async def test_with_reloading_off_nothing_is_taken(file: File) -> None:
    file.write("{gateway: {reload: {mode: 'off'}}}")
    assert await after(file, NEW) is None


async def test_an_included_file_counts_as_well(file: File) -> None:
    part = file.path.with_name("agents.json5")
    part.write_text("{list: [{id: 'ana'}]}")
    file.write("{agents: {$include: './agents.json5'}}")
    loaded = file.load()

    async def change() -> None:
        await anyio.sleep(PAUSE_S / 2)
        part.write_text("{list: [{id: 'bo'}, {id: 'cy'}]}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(change)
        assert await after(file, loaded=loaded) == "bo"


async def test_it_waits_for_the_end_of_the_runs(file: File) -> None:
    file.write(OLD)
    busy, looks = True, 0

    def at_work() -> bool:
        nonlocal looks
        looks += 1
        return busy

    async def end() -> None:
        nonlocal busy
        await anyio.sleep(PAUSE_S + 100)
        assert looks > 10
        busy = False

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end)
        assert await after(file, NEW, at_work=at_work) == "bo"
    assert not busy


async def test_it_does_not_wait_for_ever(file: File) -> None:
    file.write(OLD)
    assert await after(file, NEW, at_work=lambda: True) == "bo"


async def test_what_is_taken_back_before_the_runs_end_was_never_there(file: File) -> None:
    file.write("{gateway: {reload: {deferralTimeoutMs: 900000}}}")
    before = file.path.read_text()
    assert await after(file, NEW, before, at_work=lambda: True) is None


async def test_rules_do_not_wait_for_the_end_of_the_runs(file: File) -> None:
    """Nor do those that are written while others wait, nor those that are taken back."""
    file.write("{gateway: {reload: {deferralTimeoutMs: 9000000}}}")
    before, denied = file.load(), list[tuple[str, ...]]()

    async def take(fresh: Loaded) -> None:
        denied.append(fresh.config.tools.deny)

    async def look() -> None:
        await next_config(before, {}, lambda: True, None, take)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        for text in ("{tools: {deny: ['exec']}}", "{tools: {deny: ['read']}}", "{"):
            await anyio.sleep(PAUSE_S)
            file.write(text)
        await anyio.sleep(PAUSE_S)
        file.write("{gateway: {reload: {deferralTimeoutMs: 9000000}}}")
        await anyio.sleep(PAUSE_S)
        tasks.cancel_scope.cancel()
    assert denied == [(), ("exec",), ("read",), ()]


async def test_changed_chat_accounts_need_no_gateway_that_opens_anew(file: File) -> None:
    file.write("{}")
    before, taken = file.load(), list[list[str]]()

    async def take(fresh: Loaded) -> None:
        taken.append(list(fresh.config.channels))

    found: list[Loaded] = []

    async def look() -> None:
        found.append(await next_config(before, {}, lambda: False, None, take))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await anyio.sleep(PAUSE_S)
        file.write("{channels: {elsewhere: {}}}")
        await anyio.sleep(PAUSE_S)
        assert (taken[-1], found) == (["elsewhere"], [])
        file.write("{channels: {}, cron: {enabled: false}}")
        await anyio.sleep(PAUSE_S)
        tasks.cancel_scope.cancel()
    assert not found[0].config.cron.enabled


async def test_what_was_written_while_the_gateway_opened_is_taken(file: File) -> None:
    file.write(OLD)
    loaded = file.load()
    file.write(NEW)
    assert await after(file, loaded=loaded) == "bo"


async def test_what_failed_is_tried_again_when_somebody_touches_it(file: File) -> None:
    file.write(OLD)
    loaded = file.load()
    file.write(NEW)
    failed = file.load()
    assert await after(file, loaded=loaded, failed=failed) is None
    assert await after(file, NEW, loaded=loaded, failed=failed) == "bo"


async def _logged(caplog: pytest.LogCaptureFixture, words: str, times: int = 1) -> None:
    """Patient in real time: the clock of the loop does not wait for threads of the ledger."""
    deadline = time.monotonic() + 30
    while caplog.text.count(words) < times:
        assert time.monotonic() < deadline, f"{words!r} was not logged: {caplog.text}"
        await anyio.sleep(0.01)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"loop_factory": VirtualLoop})])
async def test_a_config_with_which_the_gateway_did_not_open_is_not_tried_again_and_again(
    file: File, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file.write(OLD)
    paths = Paths(home=file.path.parent, state_dir=file.path.parent / "s", config_path=file.path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(run_gateway, file.load(), paths, {}, port=0))
        await _logged(caplog, "the gateway listens at")
        file.write("{gateway: {auth: {mode: 'password'}}}")
        await _logged(caplog, "goes on with the old one")
        await _logged(caplog, "the gateway listens at", times=2)
        await anyio.sleep(PAUSE_S)
        assert caplog.text.count("the config has changed") == 1
        tasks.cancel_scope.cancel()
