"""Whatever the disk says, the exporter goes on: nobody else is hurt, and in the end the copies are right."""

import errno
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Export
from crossclaw.transcripts import files
from crossclaw.transcripts.exporter import RETRY_MAX_S, SWEEP_EVERY_S
from tests.unit.test_transcript_exporter import (
    ANA,
    BEN,
    Open,
    id_of,
    ledger,
    open_exporter,
    path_of,
    rendered,
    speak,
)
from tests.unzipping import transcript_lines

__all__ = ["ledger", "open_exporter"]

CHO = SessionKey.named("main", "cho")
CALLS = (
    "open",
    "mkdir",
    "stat",
    "fstat",
    "write",
    "pread",
    "ftruncate",
    "unlink",
    "rename",
    "fsync",
)


class FaultyOs:
    """The operating system, with one call that fails while `on` is true."""

    def __init__(self, call: str, number: int) -> None:
        self.on = False
        self._call, self._number = call, number

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name != self._call:
            return real

        def maybe(*args: Any, **named: Any) -> Any:
            if self.on:
                raise OSError(self._number, os.strerror(self._number))
            return real(*args, **named)

        return maybe


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", CALLS)
async def test_a_disk_that_refuses_ends_nobody_and_the_copies_are_right_afterwards(
    ledger: Ledger,
    open_exporter: Open,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
) -> None:
    """One session is compressed, with a plain file that a crash has left; one was torn; one goes on."""
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "one", "two"), *speak(BEN, "three"), *speak(CHO, "four"))
    await exporter.flush()
    plain = path_of(exporter, CHO).read_bytes()
    assert await exporter.compress(id_of(CHO))
    path_of(exporter, CHO).write_bytes(plain)
    os.truncate(path_of(exporter, BEN), 20)
    exporter.files.close()
    faulty = FaultyOs(call, number)
    monkeypatch.setattr(files, "os", faulty)

    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        faulty.on = True
        await anyio.sleep(1)
        await ledger.commit(*speak(ANA, "while it fails"))
        await anyio.sleep(2 * SWEEP_EVERY_S)
        faulty.on = False
        await ledger.commit(*speak(ANA, "and again"))
        await exporter.verify()
        await anyio.sleep(2 * RETRY_MAX_S)
        tasks.cancel_scope.cancel()
    await exporter.close()

    for key in (ANA, BEN):
        assert path_of(exporter, key).read_bytes() == await rendered(ledger, id_of(key))
    packed = exporter.path_of(CHO.agent_id, id_of(CHO), compressed=True)
    assert b"".join(transcript_lines(packed)) == plain
    assert not path_of(exporter, CHO).exists()


async def test_a_ledger_that_cannot_be_read_for_a_while_ends_no_upkeep(
    ledger: Ledger,
    open_exporter: Open,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "one"), *speak(BEN, "two"))
    await exporter.flush()

    async def refuse(**_asked: object) -> list[Export]:
        raise StoreError("the disk does not answer")

    async with anyio.create_task_group() as tasks:
        with monkeypatch.context() as away:
            for name in ("list_exports", "list_old_exports"):
                away.setattr(ledger, name, refuse)
            await tasks.start(exporter.serve)
            await anyio.sleep(2 * SWEEP_EVERY_S)
        await ledger.commit(*speak(ANA, "and again"))
        await anyio.sleep(2 * SWEEP_EVERY_S)
        tasks.cancel_scope.cancel()
    await exporter.close()

    for what in ("verifying", "looking for what is missing"):
        assert f"transcripts: {what} failed and is tried again later" in caplog.text
    assert path_of(exporter, ANA).read_bytes() == await rendered(ledger, id_of(ANA))


async def test_a_folder_where_a_transcript_should_be_hurts_only_that_one(
    ledger: Ledger, open_exporter: Open, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "one"), *speak(BEN, "two"), *speak(CHO, "three"))
    await exporter.flush()
    assert await exporter.compress(id_of(CHO))
    for key in (ANA, CHO):
        _put_folder(path_of(exporter, key))
    exporter.files.close()

    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        await anyio.sleep(3)
        await ledger.commit(*speak(ANA, "more"), *speak(BEN, "more"))
        await anyio.sleep(3 * SWEEP_EVERY_S)
        assert path_of(exporter, BEN).read_bytes() == await rendered(ledger, id_of(BEN))
        for key in (ANA, CHO):
            path_of(exporter, key).rmdir()
        await anyio.sleep(3 * RETRY_MAX_S)
        tasks.cancel_scope.cancel()
    await exporter.close()

    assert path_of(exporter, ANA).read_bytes() == await rendered(ledger, id_of(ANA))
    assert "cannot be written and will be tried again" in caplog.text


def _put_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
