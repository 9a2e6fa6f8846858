"""Looks at the disk that many want at once: one look serves all who asked before it began, and nobody else."""

from pathlib import Path
from threading import Event

import anyio
import pytest

from crossclaw.agent.workspace import WorkspaceFiles
from crossclaw.disk.threads import Disk
from crossclaw.sandbox.files import names_there


class Look:
    """Counts; in a thread it waits until it may go on."""

    def __init__(self) -> None:
        self.count = 0
        self.begun, self.may_end = Event(), Event()

    def __call__(self) -> int:
        self.count += 1
        self.begun.set()
        assert self.may_end.wait(20)
        return self.count


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_who_asks_before_a_look_begins_shares_it_and_who_asks_later_does_not() -> None:
    disk, look, answers = Disk(inline=False), Look(), list[int]()

    async def ask() -> None:
        answers.append(await disk.look("workspace", look))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(look.begun.wait, 20)
        for _ in range(3):  # the one thread is busy with the first look: these share the next
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        look.may_end.set()

    assert answers == [1, 2, 2, 2]


async def test_a_look_whose_asker_is_stopped_is_done_again_for_the_others() -> None:
    disk, look, answers = Disk(inline=False), Look(), list[int]()
    busy = Look()
    look.may_end.set()

    async def ask(scope: anyio.CancelScope) -> None:
        with scope:
            answers.append(await disk.look("workspace", look))

    first, second = anyio.CancelScope(), anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(disk.run, busy)
        await anyio.to_thread.run_sync(busy.begun.wait, 20)
        tasks.start_soon(ask, first)
        tasks.start_soon(ask, second)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        busy.may_end.set()

    assert answers == [1]


def test_only_names_that_are_there_are_walked_to(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    (tmp_path / "SOUL.md").symlink_to("/etc/passwd")  # also what leads out: the walk refuses it

    assert names_there(tmp_path, ["AGENTS.md", "SOUL.md", "USER.md"]) == {"AGENTS.md", "SOUL.md"}
    assert names_there(tmp_path / "nowhere", ["AGENTS.md"]) == set()

    texts = WorkspaceFiles(1_000, 1_000).read(tmp_path)
    assert texts.owners == [
        ("AGENTS.md", "Be kind."),
        ("SOUL.md", "[SOUL.md is a link that leads out of the workspace; it was not read.]"),
    ]
