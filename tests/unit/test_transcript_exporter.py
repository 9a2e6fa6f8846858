"""The exporter: whatever happens to the files, they come to tell what the ledger tells."""

import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import apsw
import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, Usage, UserMessage
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import EnsureSession, Export, Inject, Op
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.testing import VirtualClock
from crossclaw.transcripts import copies
from crossclaw.transcripts.copies import STRIDE_FIRST
from crossclaw.transcripts.exporter import RETRY_FIRST_S, STEP_SESSIONS, Exporter
from crossclaw.transcripts.jsonl import entry_line, entry_lines, header_line

ANA = SessionKey.named("main", "ana")
BEN = SessionKey.named("ops", "ben")


def id_of(key: SessionKey) -> str:
    return f"id-of-{key.name}"


def speak(key: SessionKey, *texts: str) -> list[Op[Any]]:
    """The steps that make a session and let it have some entries."""
    entries = [
        NewEntry(
            entry_id=f"e-{text[:8]}",
            message=AssistantMessage([Text(text)], usage=Usage(3, 4), stop_reason="end_turn")
            if number % 2
            else UserMessage(text),
        )
        for number, text in enumerate(texts)
    ]
    new = NewSession(key=key, session_id=id_of(key))
    return [EnsureSession(new=new, at=1), Inject(key=key, entries=entries, at=1_767_268_800_000)]


async def rendered(ledger: Ledger, session_id: str) -> bytes:
    """What a file should hold, made without any of the code that keeps files up to date."""
    export = await ledger.find_export(session_id)
    assert export is not None
    entries = await ledger.list_entries(session_id, limit=1_000_000)
    return header_line(export) + entry_lines(entries, None)


async def export_of(ledger: Ledger, key: SessionKey) -> Export:
    export = await ledger.find_export(id_of(key))
    assert export is not None
    return export


def path_of(exporter: Exporter, key: SessionKey) -> Path:
    return exporter.path_of(key.agent_id, id_of(key))


def damaged_beside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.damaged-*"))


def change(ledger: Ledger, sql: str, values: tuple[Any, ...] = ()) -> None:
    """What no operation does: somebody has worked on the store itself."""
    assert isinstance(ledger, SqliteLedger)
    with apsw.Connection(str(ledger._reader.filename)) as db:
        db.execute(sql, values)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncGenerator[Ledger]:
    opened = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    yield opened
    await opened.close()


Open = Callable[[], Exporter]


@pytest.fixture
async def open_exporter(ledger: Ledger, tmp_path: Path) -> AsyncGenerator[Open]:
    opened: list[Exporter] = []

    def open_one() -> Exporter:
        opened.append(Exporter(ledger, tmp_path / "sessions", VirtualClock(), inline=True))
        return opened[-1]

    yield open_one
    for exporter in opened:
        exporter.files.close()


# ── the ordinary way ───────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("M4")
async def test_entries_reach_the_file_while_it_serves(ledger: Ledger, open_exporter: Open) -> None:
    exporter = open_exporter()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        await ledger.commit(*speak(ANA, "hello", "good day"))
        await anyio.sleep(0.2)
        first = path_of(exporter, ANA).read_bytes()
        await ledger.commit(*speak(ANA, "and\nmore ✓"), *speak(BEN, "else"))
        await anyio.sleep(5)
        tasks.cancel_scope.cancel()

    assert first.count(b"\n") == 3
    for key in (ANA, BEN):
        written = path_of(exporter, key).read_bytes()
        export = await export_of(ledger, key)
        assert written == await rendered(ledger, id_of(key))
        assert (export.exported_seq, export.exported_bytes) == (export.last_seq, len(written))


async def test_the_ledger_hears_of_progress_only_now_and_then(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        await anyio.sleep(1)
        for number in range(100):
            await ledger.commit(*speak(ANA, f"no {number}"))
            await anyio.sleep(0.015)
        tasks.cancel_scope.cancel()

    export = await export_of(ledger, ANA)
    assert 0 < export.exported_seq < 100
    await exporter.flush()
    assert (await export_of(ledger, ANA)).exported_seq == 100


async def test_a_long_transcript_is_written_in_bounded_chunks(
    ledger: Ledger, open_exporter: Open
) -> None:
    await ledger.commit(*speak(ANA, *(f"number {n}" for n in range(1_234))))
    await ledger.commit(*speak(BEN, *("x" * 700_000 for _ in range(20))))
    exporter = open_exporter()

    await exporter.repair()

    for key in (ANA, BEN):
        assert path_of(exporter, key).read_bytes() == await rendered(ledger, id_of(key))


async def test_a_session_without_entries_has_no_file(ledger: Ledger, open_exporter: Open) -> None:
    await ledger.commit(speak(ANA)[0])
    exporter = open_exporter()

    await exporter.repair()
    await exporter.verify()
    await exporter.flush()

    assert not path_of(exporter, ANA).exists()


async def test_a_file_goes_on_where_it_was_closed(ledger: Ledger, open_exporter: Open) -> None:
    await ledger.commit(*speak(ANA, "one", "two"))
    first = open_exporter()
    await first.repair()
    await first.close()
    second = open_exporter()
    await ledger.commit(*speak(ANA, "three"))
    await second.flush()

    assert path_of(second, ANA).read_bytes() == await rendered(ledger, id_of(ANA))
    assert damaged_beside(path_of(second, ANA)) == []


@pytest.mark.parametrize("steps", range(8))
async def test_what_was_cut_off_while_serving_is_written_when_closing(
    ledger: Ledger, open_exporter: Open, steps: int
) -> None:
    keys = [SessionKey.named("main", f"s{n}") for n in range(STEP_SESSIONS + 6)]
    texts = [f"no {n}" for n in range(STRIDE_FIRST + 1)]
    exporter = open_exporter()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        await ledger.commit(*(op for key in keys for op in speak(key, *texts)))
        await anyio.sleep(0.1)
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    await exporter.close()

    for key in keys:
        assert path_of(exporter, key).read_bytes() == await rendered(ledger, id_of(key))


async def test_a_missed_hint_is_found_by_the_sweep(ledger: Ledger, open_exporter: Open) -> None:
    await ledger.commit(*speak(ANA, "written before anybody listened"))
    exporter = open_exporter()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        await anyio.sleep(90)
        tasks.cancel_scope.cancel()

    assert path_of(exporter, ANA).read_bytes() == await rendered(ledger, id_of(ANA))


async def test_more_sessions_than_memory_holds_are_still_right(
    ledger: Ledger, open_exporter: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "COPIES_MAX", 3)
    keys = [SessionKey.named("main", f"s{n}") for n in range(10)]
    exporter = open_exporter()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        for number in range(3):
            await ledger.commit(*(op for key in keys for op in speak(key, f"{number}")))
            await anyio.sleep(0.2)
        tasks.cancel_scope.cancel()

    for key in keys:
        assert path_of(exporter, key).read_bytes() == await rendered(ledger, id_of(key))
        assert damaged_beside(path_of(exporter, key)) == []


async def test_a_start_leaves_clean_sessions_alone_and_looks_at_them_later(
    ledger: Ledger, open_exporter: Open
) -> None:
    keys = [SessionKey.named("main", f"s{n}") for n in range(2_000)]
    await ledger.commit(*(op for key in keys for op in speak(key, "hello")))
    before = open_exporter()
    await before.repair()
    await before.close()
    await ledger.commit(*speak(keys[7], "behind"))

    exporter = open_exporter()
    await exporter.repair()
    assert exporter.files.looks + exporter.files.opens == 1
    path_of(exporter, keys[1_500]).unlink()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        assert exporter.files.looks + exporter.files.opens == 1
        await anyio.sleep(30)
        tasks.cancel_scope.cancel()

    assert exporter.files.looks >= 2_000
    assert exporter.files.opens < 10
    assert path_of(exporter, keys[1_500]).read_bytes() == await rendered(ledger, id_of(keys[1_500]))


# ── damage ─────────────────────────────────────────────────────────────────────────────────────

Lines = list[bytes]


def garbage(lines: Lines) -> Lines:
    return [*lines, b"\x00\xff not ours \n", b"{}\n"]


def from_the_future(lines: Lines) -> Lines:
    return [*lines, lines[-1].replace(b'"seq":6', b'"seq":7')]


def in_a_character(lines: Lines) -> Lines:
    whole = b"".join(lines)
    return [whole[: whole.rindex("✓".encode()) + 1]]


DAMAGE: dict[str, Callable[[Lines], Lines]] = {
    "torn tail": lambda lines: [*lines[:-1], lines[-1][:-5]],
    "line end lost": lambda lines: [*lines[:-1], lines[-1][:-1]],
    "cut in a character": in_a_character,
    "missing rows": lambda lines: lines[:-3],
    "only half a header": lambda lines: [lines[0][:9]],
    "empty": lambda lines: [],
    "hole": lambda lines: [*lines[:3], *lines[4:]],
    "no header": lambda lines: lines[1:],
    "line twice": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "last line twice": lambda lines: [*lines, lines[-1]],
    "whole file twice": lambda lines: lines + lines,
    "garbage behind": garbage,
    "garbage between": lambda lines: [*lines[:2], b"{}\n", *lines[2:]],
    "zeros behind": lambda lines: [*lines, b"\x00" * 4096],
    "zeros instead of the end": lambda lines: [*lines[:-2], b"\x00" * 9],
    "from the future": from_the_future,
    "changed line": lambda lines: [*lines[:2], lines[2].replace(b"say 1", b"say one"), *lines[3:]],
}
HARMLESS = {
    "torn tail",
    "line end lost",
    "cut in a character",
    "missing rows",
    "only half a header",
    "empty",
}


@pytest.fixture(params=DAMAGE)
def damage(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def hurt(path: Path, damage: str) -> bytes:
    before = path.read_bytes()
    after = b"".join(DAMAGE[damage](before.splitlines(keepends=True)))
    assert after != before
    path.write_bytes(after)
    return after


async def six_entries(ledger: Ledger) -> None:
    await ledger.commit(*speak(ANA, *(f"say {n} ✓ done" for n in range(6))))


async def expect_repaired(ledger: Ledger, path: Path, damage: str, was: bytes) -> None:
    written, truth = path.read_bytes(), await rendered(ledger, id_of(ANA))  # noqa: ASYNC240
    assert written == truth
    # What only stops too early has nothing that the ledger lacks; the rest is kept for its owner.
    kept = [each.read_bytes() for each in damaged_beside(path)]
    assert kept == ([] if damage in HARMLESS else [was])


@pytest.mark.spec("M4")
async def test_damage_is_found_by_the_verification(
    ledger: Ledger, open_exporter: Open, damage: str
) -> None:
    await six_entries(ledger)
    before = open_exporter()
    await before.repair()
    await before.close()
    was = hurt(path_of(before, ANA), damage)

    after = open_exporter()
    await after.repair()
    await after.verify()

    await expect_repaired(ledger, path_of(after, ANA), damage, was)
    await after.close()
    export = await export_of(ledger, ANA)
    assert (export.exported_seq, export.exported_bytes) == (
        6,
        path_of(after, ANA).stat().st_size,
    )


async def test_damage_is_found_by_the_next_append(
    ledger: Ledger, open_exporter: Open, damage: str
) -> None:
    await six_entries(ledger)
    exporter = open_exporter()
    await exporter.repair()
    was = hurt(path_of(exporter, ANA), damage)

    await ledger.commit(*speak(ANA, "go on"))
    await exporter.flush()

    await expect_repaired(ledger, path_of(exporter, ANA), damage, was)


async def test_damage_after_a_crash_is_found_by_the_repair(
    ledger: Ledger, open_exporter: Open, damage: str
) -> None:
    await ledger.commit(*speak(ANA, "say 0 ✓ done", "say 1 ✓ done"))
    crashed = open_exporter()
    await crashed.repair()
    async with anyio.create_task_group() as tasks:
        await tasks.start(crashed.serve)
        await ledger.commit(*speak(ANA, *(f"say {n} ✓ done" for n in range(2, 6))))
        await anyio.sleep(0.5)
        tasks.cancel_scope.cancel()
    assert (await export_of(ledger, ANA)).exported_seq == 2
    assert path_of(crashed, ANA).read_bytes() == await rendered(ledger, id_of(ANA))
    was = hurt(path_of(crashed, ANA), damage)

    after = open_exporter()
    await after.repair()
    if damage == "changed line":  # it lies before the mark, and so does not stop the repair
        await after.verify(deep=True)

    await expect_repaired(ledger, path_of(after, ANA), damage, was)


async def test_a_file_ahead_of_its_mark_is_taken_as_it_is(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        await six_entries(ledger)
        await anyio.sleep(0.5)
        tasks.cancel_scope.cancel()
    path = path_of(exporter, ANA)
    before = path.stat()

    await open_exporter().repair()

    assert (await export_of(ledger, ANA)).exported_seq == 6
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_a_deleted_file_or_folder_comes_back(ledger: Ledger, open_exporter: Open) -> None:
    await six_entries(ledger)
    exporter = open_exporter()
    await exporter.repair()
    path = path_of(exporter, ANA)
    path.unlink()
    await exporter.verify()
    again = path.read_bytes()
    path.unlink()
    path.parent.rmdir()
    await ledger.commit(*speak(ANA, "go on"))
    await exporter.flush()

    assert path.read_bytes() == await rendered(ledger, id_of(ANA))
    assert path.read_bytes().startswith(again)


async def test_a_hole_as_long_as_the_unmarked_rest_does_not_pass_for_whole(
    ledger: Ledger, open_exporter: Open
) -> None:
    await ledger.commit(*speak(ANA, "aaa", "bbb", "ccc"))
    crashed = open_exporter()
    await crashed.repair()
    marked = path_of(crashed, ANA).stat().st_size
    async with anyio.create_task_group() as tasks:
        await tasks.start(crashed.serve)
        await ledger.commit(*speak(ANA, "ddd"))
        await anyio.sleep(0.5)
        tasks.cancel_scope.cancel()
    path = path_of(crashed, ANA)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    assert path.stat().st_size == marked

    await open_exporter().repair()

    assert path.read_bytes() == await rendered(ledger, id_of(ANA))


async def test_a_file_of_a_session_that_has_no_entries_is_put_aside(
    ledger: Ledger, open_exporter: Open
) -> None:
    await ledger.commit(speak(ANA)[0])
    exporter = open_exporter()
    path = path_of(exporter, ANA)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"what is this\n")

    await exporter.verify()
    assert path.read_bytes() == await rendered(ledger, id_of(ANA))
    await ledger.commit(*speak(ANA, "first"))
    await exporter.flush()

    assert path.read_bytes() == await rendered(ledger, id_of(ANA))
    assert [kept.read_bytes() for kept in damaged_beside(path)] == [b"what is this\n"]


async def test_a_change_that_keeps_the_size_is_found_by_a_deep_verification(
    ledger: Ledger, open_exporter: Open
) -> None:
    await six_entries(ledger)
    exporter = open_exporter()
    await exporter.repair()
    path = path_of(exporter, ANA)
    path.write_bytes(path.read_bytes().replace(b"say 2", b"say 9"))

    await exporter.verify()
    assert b"say 9" in path.read_bytes()
    await exporter.verify(deep=True)

    assert path.read_bytes() == await rendered(ledger, id_of(ANA))


async def test_a_mark_beyond_the_ledger_tells_nothing(ledger: Ledger, open_exporter: Open) -> None:
    await six_entries(ledger)
    exporter = open_exporter()
    export = await export_of(ledger, ANA)
    later = entry_line((await ledger.list_entries(id_of(ANA), limit=1))[0], None)
    path = path_of(exporter, ANA)
    path.parent.mkdir(parents=True)
    path.write_bytes(await rendered(ledger, id_of(ANA)) + later)
    change(  # a ledger restored from yesterday's backup
        ledger,
        "UPDATE transcripts SET exported_seq = 9, exported_bytes = ?",
        (path.stat().st_size - 1,),
    )
    await exporter.verify()

    assert path.read_bytes() == await rendered(ledger, export.session_id)


# ── trouble ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("obstacle", ["directory", "link"])
async def test_a_file_that_cannot_be_written_hurts_nobody_else_and_is_repaired_later(
    ledger: Ledger,
    open_exporter: Open,
    obstacle: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter = open_exporter()
    path = path_of(exporter, ANA)
    path.parent.mkdir(parents=True)
    if obstacle == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nowhere")
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        for number in range(20):
            await ledger.commit(*speak(ANA, f"no {number}"), *speak(BEN, f"no {number}"))
            await anyio.sleep(0.2)
        other = path_of(exporter, BEN).read_bytes()
        path.rmdir() if obstacle == "directory" else path.unlink()
        await anyio.sleep(RETRY_FIRST_S * 8)
        tasks.cancel_scope.cancel()

    assert other == await rendered(ledger, id_of(BEN))
    assert path.read_bytes() == await rendered(ledger, id_of(ANA))
    assert not (tmp_path / "nowhere").exists()
    told = [each.getMessage() for each in caplog.records if "cannot be" in each.getMessage()]
    assert len(told) == 1
    assert "no 1" not in caplog.text


async def test_an_obstacle_that_the_verification_meets_is_waited_out(
    ledger: Ledger, open_exporter: Open
) -> None:
    await six_entries(ledger)
    exporter = open_exporter()
    await exporter.repair()
    path = path_of(exporter, ANA)
    path.unlink()
    path.mkdir()
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        await anyio.sleep(30)
        path.rmdir()
        await anyio.sleep(60)
        tasks.cancel_scope.cancel()

    assert path.read_bytes() == await rendered(ledger, id_of(ANA))


async def test_an_obstacle_in_place_of_the_folder_is_waited_out(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    path = path_of(exporter, ANA)
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("a file")
    await six_entries(ledger)
    await exporter.repair()
    await exporter.verify()
    path.parent.unlink()
    await exporter.flush()

    assert path.read_bytes() == await rendered(ledger, id_of(ANA))


async def test_a_session_id_that_is_no_file_name_never_becomes_one(
    ledger: Ledger, open_exporter: Open, tmp_path: Path
) -> None:
    bad = NewSession(key=BEN, session_id="../../escape")
    said = NewEntry(entry_id="e", message=UserMessage("x"))
    await ledger.commit(
        EnsureSession(new=bad, at=1), Inject(key=BEN, entries=[said], at=1), *speak(ANA, "hi")
    )
    exporter = open_exporter()

    await exporter.repair()
    await exporter.verify()

    assert path_of(exporter, ANA).read_bytes() == await rendered(ledger, id_of(ANA))
    assert [name for _, _, names in os.walk(tmp_path) for name in names if "esc" in name] == []


async def test_an_entry_that_cannot_be_read_stands_in_its_place_as_such(
    ledger: Ledger, open_exporter: Open
) -> None:
    await ledger.commit(*speak(ANA, "hi"), *speak(BEN, "hi"))
    change(ledger, "UPDATE entries SET body = '{' WHERE agent_id = 'ops'")
    exporter = open_exporter()

    await exporter.repair()
    await exporter.verify(deep=True)

    assert path_of(exporter, ANA).read_bytes() == await rendered(ledger, id_of(ANA))
    lines = path_of(exporter, BEN).read_text().splitlines()
    head, note = map(json.loads, lines)
    assert (head["type"], note["type"]) == ("session", "note")
    assert "unreadable" in json.dumps(note)


async def test_a_program_that_keeps_writing_into_a_file_is_not_fought(
    ledger: Ledger, open_exporter: Open
) -> None:
    exporter = open_exporter()
    path = path_of(exporter, ANA)
    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        for number in range(40):
            await ledger.commit(*speak(ANA, f"no {number}"))
            await anyio.sleep(0.5)
            with path.open("ab") as file:
                file.write(b"me too\n")
        kept = damaged_beside(path)
        await anyio.sleep(200)
        tasks.cancel_scope.cancel()

    assert len(kept) == 2  # one by the append, one by the verification, which comes once
    assert path.read_bytes() == await rendered(ledger, id_of(ANA))


# ── with threads and real time ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_busy_sessions_side_by_side_lose_nothing(tmp_path: Path) -> None:
    keys = [SessionKey.named(f"agent-{n % 3}", f"s{n}") for n in range(24)]
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    exporter = Exporter(ledger, tmp_path / "sessions", VirtualClock())

    async def talk(key: SessionKey) -> None:
        for number in range(20):
            await ledger.commit(*speak(key, f"no {number}", "yes"))

    async with anyio.create_task_group() as tasks:
        await tasks.start(exporter.serve)
        async with anyio.create_task_group() as talking:
            for key in keys:
                talking.start_soon(talk, key)
        await exporter.flush()
        exports: Sequence[Export] = await ledger.list_exports(behind=True, limit=99)
        tasks.cancel_scope.cancel()
    await exporter.close()

    assert list(exports) == []
    for key in keys:
        assert path_of(exporter, key).read_bytes() == await rendered(ledger, id_of(key))
    assert len(os.listdir(tmp_path / "sessions")) == 3
    await ledger.close()
