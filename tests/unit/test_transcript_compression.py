"""Old transcripts are compressed; whoever reads them does not notice."""

from pathlib import Path

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import Ledger
from crossclaw.testing import open_gateway
from crossclaw.testing.scripted import ScriptedProvider
from crossclaw.transcripts.exporter import Exporter
from crossclaw.transcripts.files import CopyName
from crossclaw.transcripts.jsonl import Damage, read_lines
from tests.flows.talking import call, say
from tests.unit.test_transcript_exporter import (
    ANA,
    BEN,
    Open,
    export_of,
    id_of,
    ledger,
    open_exporter,
    path_of,
    rendered,
    speak,
)
from tests.unzipping import transcript_lines

__all__ = ["ledger", "open_exporter"]

MINUTE_S = 60


def packed(exporter: Exporter, key: SessionKey) -> Path:
    return exporter.path_of(key.agent_id, id_of(key), compressed=True)


@pytest.mark.spec("M9")
async def test_a_compressed_transcript_has_every_line_of_the_plain_one(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "hello", "good morning " * 1000))
    await exporter.flush()
    plain = path_of(exporter, ANA).read_bytes()

    assert await exporter.compress(id_of(ANA))

    assert not path_of(exporter, ANA).exists()
    assert b"".join(transcript_lines(packed(exporter, ANA))) == plain
    assert packed(exporter, ANA).stat().st_size < len(plain) / 5
    assert packed(exporter, ANA).stat().st_mode & 0o077 == 0
    assert not [
        x for x in read_lines(transcript_lines(packed(exporter, ANA))) if isinstance(x, Damage)
    ]
    assert (await export_of(ledger, ANA)).compressed_at is not None
    assert await exporter.compress(id_of(ANA))  # once more changes nothing


@pytest.mark.spec("M9")
async def test_a_compressed_session_that_goes_on_gets_its_plain_file_back(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "hello"))
    await exporter.compress(id_of(ANA))
    await exporter.compress(id_of(ANA))

    await ledger.commit(*speak(ANA, "again"))
    await exporter.flush()
    await ledger.commit(*speak(ANA, "and again"))
    await exporter.flush()

    assert path_of(exporter, ANA).read_bytes() == await rendered(ledger, id_of(ANA))
    assert not packed(exporter, ANA).exists()
    assert (await export_of(ledger, ANA)).compressed_at is None


@pytest.mark.spec("M9")
@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_crash_between_the_mark_and_the_end_of_the_plain_file_heals(
    ledger: Ledger, open_exporter: Open, goes_on: bool
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "hello"))
    await exporter.flush()
    plain = path_of(exporter, ANA).read_bytes()
    await exporter.compress(id_of(ANA))
    path_of(exporter, ANA).write_bytes(plain)  # as if it had not been removed yet
    if goes_on:
        await ledger.commit(*speak(ANA, "again"))

    after = open_exporter()
    await after.repair()
    await after.verify()

    left, gone = (path_of, packed) if goes_on else (packed, path_of)
    assert left(after, ANA).exists()
    assert not gone(after, ANA).exists()
    lines = b"".join(transcript_lines(left(after, ANA)))
    assert lines == await rendered(ledger, id_of(ANA))


@pytest.mark.spec("M9")
async def test_a_compressed_file_that_somebody_removed_comes_back(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "hello"))
    await exporter.compress(id_of(ANA))
    packed(exporter, ANA).unlink()

    await exporter.verify()
    await exporter.flush()

    assert path_of(exporter, ANA).read_bytes() == await rendered(ledger, id_of(ANA))


@pytest.mark.spec("M9")
async def test_a_file_that_is_not_as_it_was_left_is_not_compressed(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "hello"))
    await exporter.flush()
    with path_of(exporter, ANA).open("ab") as file:
        file.write(b"a person's note\n")

    assert not await exporter.compress(id_of(ANA))
    assert b"a person's note" in path_of(exporter, ANA).read_bytes()
    assert not packed(exporter, ANA).exists()
    assert not await exporter.compress("nobody")


@pytest.mark.spec("M9")
async def test_a_deleted_session_leaves_its_compressed_copy_aside(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    await ledger.commit(*speak(ANA, "hello"), *speak(BEN, "hello"))
    await exporter.compress(id_of(ANA))

    kept = await exporter.set_aside("main", id_of(ANA))

    assert kept is not None
    assert ".jsonl.zst.deleted." in kept.name


@pytest.mark.spec("M9", "L3")
async def test_what_is_old_is_compressed_by_itself_and_read_as_before(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda request: "ok")
    config = msgspec.convert({"session": {"compressAfterDays": 1 / 1440}}, Config)
    async with open_gateway(tmp_path, model, config=config) as gateway:
        run = await say(gateway, "main", "long ago", "r1")
        old = run.session_id
        await call(gateway, "sessions.reset", key="main")
        await say(gateway, "main", "newer", "r2")
        await say(gateway, "other", "also long ago", "r3")
        before = await call(gateway, "tool.sessions_list")
        await anyio.sleep(2 * MINUTE_S)
        await say(gateway, "main", "today", "r4")
        await gateway.exporter.compress_old()
        after = await call(gateway, "tool.sessions_list")
        history = await call(gateway, "tool.sessions_history", sessionKey=old)
        other = await call(gateway, "tool.sessions_history", sessionKey="other")
        with pytest.raises(NotFound):
            await call(gateway, "sessions.pin", key=old)

    assert history["messages"][0]["content"] == "long ago"
    assert other["messages"][0]["content"] == "also long ago"
    paths = {row["key"]: row["transcriptPath"] for row in after["sessions"]}
    assert all(row["transcriptPath"].endswith(".jsonl") for row in before["sessions"])
    assert paths["agent:main:other"].endswith(".jsonl.zst")
    assert b"also long ago" in b"".join(transcript_lines(Path(paths["agent:main:other"])))
    assert gateway.exporter.files.path_of(CopyName("main", old).compressed).exists()
    assert not paths["agent:main:main"].endswith(".zst")
