"""A state folder of OpenClaw 2026.9 comes in: what the real program made (tests/conformance/store.py), and what it may hold
beside that."""

import hashlib
import json
import os
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from crossclaw.config import load
from crossclaw.disk.zstd import zstd
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolResultMessage, UserMessage
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.sessions.imported import ImportReport
from crossclaw.sessions.importing import Import
from crossclaw.testing import VirtualClock

DATA = Path(__file__).parents[1] / "data" / "openclaw-2026.9.tar.xz"
MAIN_STORE = "agents/main/agent/openclaw-agent.sqlite"
ATLAS = "agent:main:atlas"

pytestmark = [pytest.mark.anyio, pytest.mark.spec("C1")]


def unpacked(folder: Path) -> Path:
    """OpenClaw's state folder; what it showed of its sessions lies beside."""
    with tarfile.open(DATA) as archive:
        archive.extractall(folder, filter="data")
    return folder / ".openclaw"


def shown_there(folder: Path) -> dict[str, list[tuple[str, str]]]:
    told = json.loads((folder / "shown.json").read_text("utf-8"))
    return {key: [(role, text) for role, text in lines] for key, lines in told.items()}


def change(store: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    with closing(apsw.Connection(str(store))) as db:
        for each in statements:
            sql, values = each if isinstance(each, tuple) else (each, ())
            db.execute(sql, values)


async def bring(folder: Path, ledger: SqliteLedger | None) -> ImportReport:
    return await Import(ledger, VirtualClock(), lambda *_: None).run(folder)


def open_files() -> list[str]:
    held = Path("/proc/self/fd").iterdir()
    return [os.readlink(each) for each in held if each.is_symlink()]


def text_of(message: UserMessage | AssistantMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(block.text for block in message.content if isinstance(block, Text))


async def said(ledger: SqliteLedger, key: str) -> list[tuple[str, str]]:
    """Who said what in a session, with the transcripts before it."""
    found: list[tuple[str, str]] = []
    for transcript in await ledger.list_transcripts(SessionKey.parse(key), limit=9, offset=0):
        for entry in await ledger.list_entries(transcript.session_id, limit=100):
            match entry.message:
                case UserMessage() | AssistantMessage() as message:
                    role = "user" if isinstance(message, UserMessage) else "assistant"
                    found.append((role, text_of(message)))
                case ToolResultMessage():
                    found.append(("toolResult", ""))
    return found


async def check_imported(folder: Path, shown: dict[str, Any], store: Path) -> None:
    """Everything that the real program shows of its sessions is here, and a second import changes nothing."""
    ledger = SqliteLedger(store)

    dry = await bring(folder, None)
    first = await bring(folder, ledger)
    again = await bring(folder, ledger)

    assert len(shown) == 3
    for key, lines in shown.items():
        here = await said(ledger, key)
        spoken = [(role, text) for role, text in lines if role in ("user", "assistant")]
        assert [line for line in spoken if line not in here] == []
        assert len(here) >= len(lines)
    assert first.unreadable == 0
    assert first.messages == dry.messages == sum(map(len, [await said(ledger, k) for k in shown]))
    assert (again.messages, again.notes, again.transcripts_before) == (0, 0, first.sessions)
    labels = {s.key.text: s.label for s in await ledger.list_sessions(limit=9, sight=EVERYTHING)}
    assert labels == {
        "agent:main:main": "The first one",
        ATLAS: "Atlas",
        "agent:librarian:main": None,
    }
    assert first.agents == ["librarian", "main"]
    await ledger.close()


async def test_everything_that_the_real_program_shows_is_there_and_twice_is_once(
    tmp_path: Path,
) -> None:
    folder = unpacked(tmp_path)
    await check_imported(folder, shown_there(tmp_path), tmp_path / "crossclaw.sqlite")


async def test_what_was_said_before_a_reset_is_a_past_transcript(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")
    await bring(folder, ledger)

    session = await ledger.find_session(SessionKey.parse(ATLAS))
    assert session is not None
    entries = await ledger.list_entries(session.session_id, limit=100)
    words = [text_of(e.message) for e in entries if isinstance(e.message, UserMessage)]
    assert words == ["After the reset"]
    assert session.session_id.endswith("-1")
    assert ("user", "Before the reset") in await said(ledger, ATLAS)
    await ledger.close()


def _compressed(folder: Path) -> None:
    """As OpenClaw does with long events."""
    store = folder / MAIN_STORE
    with closing(apsw.Connection(str(store))) as db:
        text = str(
            db.execute(
                "SELECT event_json FROM transcript_events WHERE event_json LIKE '%Good morning%'"
            ).get
        )
    packed = zstd().compress(text.encode())
    navigation = '{"version":1,"report":{"kind":"canonical"},"navigation":{},"reset":{},"model":{},"modelBytes":1,"modelWithoutCheckpointBytes":1,"withoutCustomDataBytes":1}'  # fmt: skip
    change(
        store,
        "PRAGMA ignore_check_constraints = 1",
        (
            "UPDATE transcript_events SET event_json = NULL, event_zstd = ?, event_utf8_bytes = ?, navigation_json = ? "
            "WHERE event_json = ?",
            (packed, len(text.encode()), navigation, text),
        ),
    )


def _put_away(folder: Path) -> None:
    """A whole transcript in a file: OpenClaw's cold storage."""
    store = folder / MAIN_STORE
    with closing(apsw.Connection(str(store))) as db:
        sid = str(
            db.execute(
                "SELECT current_session_id FROM session_nodes WHERE session_key = 'agent:main:main'"
            ).get
        )
        rows = db.execute("SELECT seq, event_json, created_at FROM transcript_events WHERE session_id = ?", (sid,)).fetchall()  # fmt: skip
        lines = [json.dumps({"kind": "header", "version": 1, "sessionId": sid, "generation": "g"})]
        for seq, text, at in rows:
            row = {"seq": seq, "event_json": text, "created_at": at}
            lines.append(json.dumps({"kind": "event", "row": row}))
        data = zstd().compress("\n".join(lines).encode())
        name = hashlib.sha256(sid.encode()).hexdigest() + ".jsonl.zst"
        db.execute("DELETE FROM transcript_events WHERE session_id = ?", (sid,))
        db.execute(
            "INSERT INTO session_transcript_cold_archives VALUES (?,'g',?,?,?,1,?,9,1,'file',NULL)",
            (sid, name, hashlib.sha256(data).hexdigest(), len(rows), len(data)),
        )
    cold = folder / "agents/main/sessions/cold"
    cold.mkdir(parents=True)
    (cold / name).write_bytes(data)


@pytest.mark.parametrize("how", [_compressed, _put_away], ids=["compressed", "archived"])
async def test_what_is_compressed_or_put_away_there_comes_in_all_the_same(
    tmp_path: Path, how: Callable[[Path], None]
) -> None:
    folder = unpacked(tmp_path)
    whole = await bring(folder, None)
    how(folder)
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")

    report = await bring(folder, ledger)

    assert (report.messages, report.problems) == (whole.messages, [])
    assert ("user", "Good morning") in await said(ledger, "agent:main:main")
    assert (await bring(folder, ledger)).messages == 0
    await ledger.close()


async def test_an_archive_that_was_changed_is_reported_and_the_rest_comes(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    _put_away(folder)
    next((folder / "agents/main/sessions/cold").iterdir()).write_bytes(b"something else")

    report = await bring(folder, None)

    assert "is not what was archived" in report.problems[0]
    assert report.messages > 0


async def test_what_was_rewound_is_a_note_and_no_part_of_the_conversation(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    whole = await bring(folder, None)
    seq = "(SELECT seq FROM transcript_events WHERE event_json LIKE '%Good morning%')"
    change(folder / MAIN_STORE, f"DELETE FROM session_transcript_active_events WHERE event_seq = {seq}")  # fmt: skip
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")

    report = await bring(folder, ledger)

    assert report.messages < whole.messages
    assert report.messages + report.notes == whole.messages + whole.notes
    assert ("user", "Good morning") not in await said(ledger, "agent:main:main")
    await ledger.close()


async def test_rows_that_nobody_can_read_keep_no_others_out_and_are_named_each_time(
    tmp_path: Path,
) -> None:
    folder = unpacked(tmp_path)
    whole = await bring(folder, None)
    change(
        folder / MAIN_STORE,
        "PRAGMA ignore_check_constraints = 1",
        "UPDATE transcript_events SET event_json = '{\"type\":' WHERE event_json LIKE '%Good morning%'",
        "UPDATE session_nodes SET entry_json = '[]' WHERE session_key = 'agent:main:atlas'",
    )
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")

    first, again = await bring(folder, ledger), await bring(folder, ledger)

    assert 0 < first.messages < whole.messages
    assert len(first.problems) == 2
    assert sorted(again.problems) == sorted(first.problems)
    await ledger.close()


async def test_a_session_has_the_time_that_its_entry_says_and_a_reserved_key_is_named(
    tmp_path: Path,
) -> None:
    folder = unpacked(tmp_path)
    later = 1_900_000_000_000
    change(
        folder / MAIN_STORE,
        "PRAGMA foreign_keys = 0",
        f"UPDATE session_nodes SET entry_json = json_set(entry_json, '$.updatedAt', {later}) WHERE session_key = '{ATLAS}'",
        "UPDATE session_nodes SET session_key = 'unknown' WHERE session_key = 'agent:main:main'",
        "UPDATE session_windows SET session_key = 'unknown' WHERE session_key = 'agent:main:main'",
    )
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")
    report = await bring(folder, ledger)
    found = await ledger.find_session(SessionKey.parse(ATLAS))
    await ledger.close()

    assert found is not None
    assert found.updated_at == later
    assert [each for each in report.problems if "'unknown' is a reserved key" in each]


@pytest.mark.parametrize(
    ("table", "column", "where", "value"),
    [
        ("session_nodes", "entry_json", f"session_key = '{ATLAS}'", "x'00ff'"),
        ("session_windows", "created_at", f"session_key = '{ATLAS}'", "'long ago'"),
        ("transcript_events", "event_json", "event_json LIKE '%Good morning%'", "x'ff'"),
    ],
)
async def test_values_of_other_kinds_keep_no_others_out(
    tmp_path: Path, table: str, column: str, where: str, value: str
) -> None:
    """A file that somebody else made need not have OpenClaw's strict columns."""
    folder = unpacked(tmp_path)
    whole = await bring(folder, None)
    change(
        folder / MAIN_STORE,
        "PRAGMA foreign_keys = 0",
        "PRAGMA legacy_alter_table = 1",
        f"CREATE TABLE loose AS SELECT * FROM {table}",
        f"UPDATE loose SET {column} = {value} WHERE {where}",
        f"DROP TABLE {table}",
        f"ALTER TABLE loose RENAME TO {table}",
    )

    report = await bring(folder, None)

    assert 0 < report.messages < whole.messages
    assert report.problems


async def test_a_conversation_that_goes_on_there_brings_what_is_new(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    ledger = SqliteLedger(tmp_path / "crossclaw.sqlite")
    await bring(folder, ledger)
    (sid,) = (
        "(SELECT current_session_id FROM session_nodes WHERE session_key = 'agent:main:main')",
    )
    line: dict[str, Any] = {"type": "message", "id": "x1", "timestamp": "2026-11-16T09:00:00.000Z"}
    line |= {"message": {"role": "user", "content": "One more"}}
    change(
        folder / MAIN_STORE,
        (
            f"INSERT INTO transcript_events (session_id, seq, event_json, created_at) SELECT {sid}, 1 + max(seq), ?, 1 "
            f"FROM transcript_events WHERE session_id = {sid}",
            (json.dumps(line),),
        ),
    )

    report = await bring(folder, ledger)

    assert (report.messages, report.problems) == (1, [])
    assert (await said(ledger, "agent:main:main"))[-1] == ("user", "One more")
    await ledger.close()


async def test_nothing_is_changed_or_made_in_the_folder_and_no_link_is_followed(
    tmp_path: Path,
) -> None:
    folder = unpacked(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    await bring(folder, None)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    elsewhere = tmp_path / "elsewhere.sqlite"
    (folder / MAIN_STORE).rename(elsewhere)
    (folder / MAIN_STORE).symlink_to(elsewhere)
    assert (await bring(folder, None)).agents == ["librarian"]


async def test_a_layout_in_between_is_told_what_brings_it_up_to_date(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    change(folder / MAIN_STORE, "PRAGMA foreign_keys = 0", "ALTER TABLE session_nodes RENAME TO sessions_of_before")  # fmt: skip
    (folder / "agents/librarian/agent/openclaw-agent.sqlite").write_bytes(b"not a database at all" * 99)  # fmt: skip

    report = ImportReport()
    with pytest.raises(Exception, match="openclaw doctor"):
        await Import(None, VirtualClock(), lambda *_: None, report).run(folder)
    assert "cannot be read as a database" in report.problems[0]


async def test_the_config_that_the_real_program_wrote_has_no_key_that_is_not_known(
    tmp_path: Path,
) -> None:
    loaded = load(unpacked(tmp_path) / "openclaw.json", {})

    assert [text for text in loaded.warnings if "unknown key" in text] == []
    assert loaded.config.agents.ids() == ("main", "librarian")


async def test_after_an_import_none_of_its_stores_is_held_open(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    await bring(folder, None)
    assert [each for each in open_files() if each.startswith(str(folder))] == []
