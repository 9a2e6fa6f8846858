"""The writer thread: many steps, one commit, nobody hurt by a neighbour."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.domain.errors import KeyReused, NotFound, Stopped
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Dedupe, Inject, Submit
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.store import open_writer
from crossclaw.ledger.sqlite.writer import run_batch
from crossclaw.ledger.writing import WriterStep
from tests.ledger.making import ANA, BEN, run, says, session, submit


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Real time: a thread does the writing."""
    return request.param, {}


@pytest.fixture
async def threaded(tmp_path: Path) -> AsyncGenerator[Ledger]:
    opened = open_ledger(tmp_path / "ledger.sqlite")
    yield opened
    await opened.close()


async def test_what_was_committed_is_there_for_every_reader(threaded: Ledger) -> None:
    await submit(threaded, "r1")

    assert (await threaded.find_run("r1")) is not None
    assert (await threaded.search("hello", limit=5, sight=EVERYTHING)) == []


async def test_a_step_that_fails_takes_no_neighbour_with_it(threaded: Ledger) -> None:
    await submit(threaded, "first", dedupe=Dedupe("chat", "k", "one"))
    outcomes: dict[int, object] = {}

    async def one(number: int) -> None:
        bad = number % 3 == 0
        try:
            await submit(threaded, f"r{number}", dedupe=Dedupe("chat", "k", "two") if bad else None)
            outcomes[number] = "stored"
        except KeyReused:
            outcomes[number] = "refused"

    async with anyio.create_task_group() as tasks:
        for number in range(90):
            tasks.start_soon(one, number)

    assert outcomes == {n: "refused" if n % 3 == 0 else "stored" for n in range(90)}
    stored = {each.run_id for each in await threaded.list_open_runs(ANA)}
    assert stored == {"first"} | {f"r{n}" for n in range(90) if n % 3}


def test_words_of_a_step_that_failed_are_not_found_under_its_neighbours(tmp_path: Path) -> None:
    db = open_writer(tmp_path / "l.sqlite")
    steps = [
        WriterStep([session(ANA)], anyio.Event()),
        WriterStep([Inject(key=ANA, entries=[says("void")], at=1), Submit(new=run("r", BEN), at=1)], anyio.Event()),
        WriterStep([Inject(key=ANA, entries=[says("kept")], at=1)], anyio.Event()),
    ]  # fmt: skip

    run_batch(db, HANDLERS, steps)

    assert [type(step.error).__name__ for step in steps] == ["NoneType", "NotFound", "NoneType"]
    found = {
        word: list(db.execute("SELECT rowid FROM entries_words WHERE words MATCH ?", (word,)))
        for word in ("void", "kept")
    }
    assert found == {"void": [], "kept": [(1,)]}
    db.close()


def test_a_fault_in_one_step_is_that_steps_alone(tmp_path: Path) -> None:
    db = open_writer(tmp_path / "l.sqlite")
    broken = Inject(key=ANA, entries=[says("half \ud83d")], at=1)
    good = Inject(key=ANA, entries=[says("whole")], at=1)
    steps = [WriterStep([op], anyio.Event()) for op in (session(ANA), broken, good)]

    run_batch(db, HANDLERS, steps)

    assert [type(step.error).__name__ for step in steps] == [
        "NoneType",
        "UnicodeEncodeError",
        "NoneType",
    ]
    assert list(db.execute("SELECT seq FROM entries")) == [(1,)]
    db.close()


async def test_entries_of_many_sessions_side_by_side_keep_their_order(
    threaded: Ledger,
) -> None:
    keys = [SessionKey.named("main", f"s{number}") for number in range(8)]

    async def talk(key: SessionKey) -> None:
        await threaded.do(session(key))
        for number in range(25):
            await threaded.do(Inject(key=key, entries=[says(f"word{number}")], at=number))

    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(talk, key)

    for key in keys:
        entries = await threaded.list_entries(f"id-of-{key.name}", limit=100)
        assert [entry.seq for entry in entries] == list(range(1, 26))
        assert [entry.message.text for entry in entries] == [f"word{n}" for n in range(25)]  # type: ignore[union-attr]
    assert len(await threaded.search("word7", limit=100, sight=EVERYTHING)) == 8


async def test_listeners_hear_of_new_entries_after_they_are_durable(threaded: Ledger) -> None:
    heard: list[set[str]] = []
    threaded.on_append(heard.append)
    await threaded.do(session(ANA))
    await threaded.do(Inject(key=ANA, entries=[says("news")], at=1))
    await anyio.wait_all_tasks_blocked()

    assert heard == [{"id-of-ana"}]


async def test_an_error_reaches_the_one_who_asked(threaded: Ledger) -> None:
    with pytest.raises(NotFound):
        await threaded.do(Submit(new=run("r1"), at=1))


async def test_a_closed_ledger_takes_nothing_more_but_keeps_what_it_took(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite")
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(submit, ledger, f"r{number}", SessionKey.named("main", f"s{number}"))
    await ledger.close()
    with pytest.raises(Stopped):
        await submit(ledger, "late")

    again = open_ledger(tmp_path / "l.sqlite")
    assert len(await again.lanes_with_work()) == 50
    await again.close()


FULL_DISK = """
import sys, anyio
from pathlib import Path
from crossclaw.domain.errors import StoreError
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.sqlite.ledger import HANDLERS
from crossclaw.ledger.sqlite.store import open_writer
from crossclaw.ledger.sqlite.writer import run_batch
from crossclaw.ledger.writing import WriterStep
from tests.ledger.making import ANA, says, session
from crossclaw.ledger.operations import Inject

async def main():
    folder = Path(sys.argv[1])
    ledger = open_ledger(folder / "l.sqlite")
    await ledger.do(session(ANA))
    stored = 0
    try:
        while True:
            await ledger.do(Inject(key=ANA, entries=[says("x" * 20_000)], at=1))
            stored += 1
    except StoreError as error:
        assert "nothing was stored" in str(error), error
    assert await ledger.last_seq("id-of-ana") == stored
    (folder / "ballast").unlink()
    await ledger.do(Inject(key=ANA, entries=[says("space again")], at=2))
    assert await ledger.last_seq("id-of-ana") == stored + 1
    await ledger.close()
    print("stored", stored)

anyio.run(main)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_refuses_loses_nothing_and_recovers_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        (folder / "ballast").write_bytes(b"\0" * 3_000_000)
        done = subprocess.run(
            [sys.executable, "-c", FULL_DISK, str(folder)],
            capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert int(done.stdout.split()[1]) > 10
    finally:
        subprocess.run(["umount", str(folder)], check=True)
