"""A ledger moves into PostgreSQL and back, and is the same: also when the move is killed again and again."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import Media
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.media import KeepMedia
from crossclaw.ledger.moving import MovableStore, Move, digest_of
from crossclaw.ledger.opening import is_url, open_ledger, open_movable
from crossclaw.ledger.operations import Append, ArmTimer, Timer
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from tests.databases import databases
from tests.ledger.making import begun, end, says

KILLS = 20


async def fill(path: Path, sessions: int, entries: int) -> None:
    ledger = SqliteLedger(path, inline=True)
    for number in range(sessions):
        key = SessionKey.named("main", f"s{number}")
        run = await begun(ledger, f"r{number}", key)
        said = [says(f"word{number} nul \0 \uffff {n}", f"e{n}") for n in range(entries)]
        await ledger.do(Append(fence=run.fence, entries=said, at=number))
        if number % 2:
            await end(ledger, run)
        picture = Media("image/png", bytes([number % 256]) * 10_000)
        await ledger.do(KeepMedia(media=picture, agent_id="main", at=1, holder=f"outbox:{number}"))
        timer = Timer(timer_key=f"t{number}", agent_id="main", kind="k", due_at=number)
        await ledger.do(ArmTimer(timer=timer))
    await ledger.close()


def digests(store: MovableStore) -> dict[str, tuple[int, str]]:
    try:
        return {table.name: digest_of(store, table) for table in store.tables()}
    finally:
        store.close()


def move(source: str, target: str) -> bool:
    """Whether one that had begun went on."""
    one = open_movable(source)
    try:
        other = open_movable(target)
        try:
            return Move(one, other).run().resumed
        finally:
            other.close()
    finally:
        one.close()


@pytest.mark.spec("B6")
def test_into_postgresql_and_back_every_row_is_the_same(tmp_path: Path) -> None:
    file, back = tmp_path / "a" / "l.sqlite", tmp_path / "b" / "l.sqlite"
    url = databases().url(tmp_path / "there")
    anyio.run(fill, file, 12, 90)

    assert not move(str(file), url)
    assert not move(url, str(back))

    there = digests(open_movable(url))
    assert there == digests(open_movable(str(file))) == digests(open_movable(str(back)))
    assert there["entries"][0] == 12 * 91
    anyio.run(use, back, None)
    anyio.run(use, tmp_path / "c" / "l.sqlite", url)


async def use(path: Path, url: str | None) -> None:
    """It can be searched and written on, behind the highest numbers."""
    ledger = open_ledger(path, url=url, inline=True) if url else SqliteLedger(path, inline=True)
    assert len(await ledger.search("word7", limit=200, sight=EVERYTHING)) == 90
    await begun(ledger, "new", SessionKey.named("main", "new"))
    assert len(await ledger.lanes_with_work()) == 7
    await ledger.close()


@pytest.mark.spec("B6")
@pytest.mark.parametrize("into", ["server", "file"])
def test_a_move_that_is_killed_goes_on_where_it_stopped(tmp_path: Path, into: str) -> None:
    file, url = tmp_path / "a" / "l.sqlite", databases().url(tmp_path / "there")
    anyio.run(fill, file, 60, 60)
    source, target = str(file), url
    if into == "file":
        move(source, target)
        source, target = url, str(tmp_path / "b" / "l.sqlite")
    chance, kills, done = random.Random(into), 0, False
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", SLOWLY, source, target], stdout=subprocess.PIPE, env=os.environ
        )
        assert process.stdout is not None
        process.stdout.readline()  # the first chunk is stored
        time.sleep(chance.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        done = process.wait() == 0
        process.stdout.close()
        kills += not done
        if done:
            break
    with pytest.raises(StoreError, match="half of a ledger"):
        anyio.run(open_half, target, tmp_path)

    assert kills == KILLS
    assert move(source, target)
    assert digests(open_movable(source)) == digests(open_movable(target))


async def open_half(target: str, folder: Path) -> None:
    if is_url(target):
        open_ledger(folder / "c" / "l.sqlite", url=target, inline=True)
    else:
        SqliteLedger(Path(target), inline=True)


# Small chunks and a pause after each, so that a kill comes in the middle.
SLOWLY = """
import sys, time
from crossclaw.ledger import moving
from crossclaw.ledger.opening import open_movable
moving.ROWS_AT_ONCE = 20
source, target = map(open_movable, sys.argv[1:3])
def told(done, of):
    print(done, flush=True)
    time.sleep(0.02)
moving.Move(source, target, told).run()
"""


def test_a_target_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    file, url = tmp_path / "a" / "l.sqlite", databases().url(tmp_path / "there")
    other = tmp_path / "b" / "l.sqlite"
    anyio.run(fill, file, 2, 2)
    anyio.run(fill, other, 1, 1)
    move(str(file), url)
    before = digests(open_movable(url))

    with pytest.raises(StoreError, match="is not empty"):
        move(str(other), url)

    assert digests(open_movable(url)) == before
