"""`sessions export` at a terminal."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person
from tests.flows.test_import import ENTRY, MAIN, a_folder, lines, write
from tests.flows.test_import_newer import unpacked

pytestmark = pytest.mark.spec("C2", "M9")

HEAVY, HEAVIES, MANY = "x" * 600_000, 6, 450  # more than one page may weigh; more than one window


def said(number: int) -> dict[str, Any]:
    text = f"{number} {HEAVY if number < HEAVIES else ''}".strip()
    message = {"role": "user", "content": text, "timestamp": 1_770_557_820_000 + number}
    stamp = f"2026-02-08T13:37:{number % 60:02}.000Z"
    return {"type": "message", "id": f"{number:08x}", "timestamp": stamp, "message": message}


@pytest.fixture
def imported(person: Person, tmp_path: Path) -> Person:
    assert person.types("import", str(a_folder(tmp_path / "there"))).returncode == Exit.OK
    return person


def test_a_long_and_heavy_session_is_written_entry_by_entry_in_order(
    person: Person, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    write(there, {"agent:main:main": ENTRY}, **{MAIN: lines(*map(said, range(MANY)))})
    assert person.types("import", str(there)).returncode == Exit.OK

    done = person.types("sessions", "export", "main", "--out", "main.jsonl")

    assert done.returncode == Exit.OK, done.stderr
    file = person.folder / "main.jsonl"
    head, *rest = map(json.loads, file.read_text().splitlines())
    assert (head["type"], head["id"], head["key"]) == ("session", MAIN, "agent:main:main")
    assert [line["seq"] for line in rest] == list(range(1, MANY + 1))
    words = [line["message"]["content"][0]["text"] for line in rest]
    assert [text.split()[0] for text in words] == [str(number) for number in range(MANY)]
    assert words[0] == f"0 {HEAVY}"
    assert [line["parentId"] for line in rest] == [None, *(line["id"] for line in rest[:-1])]
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_export_writes_through_no_link_and_hangs_on_no_pipe(imported: Person) -> None:
    """Whoever shares the folder could have put one where the export would write."""
    victim = imported.folder / "victim"
    victim.write_text("precious")
    (imported.folder / ".main.jsonl.part").symlink_to(victim)
    os.mkfifo(imported.folder / "pipe.jsonl")

    done = imported.types("sessions", "export", "main", "--out", "main.jsonl")
    refused = imported.types("sessions", "export", "main", "--out", "pipe.jsonl", "--force")

    assert done.returncode == Exit.OK, done.stderr
    assert victim.read_text() == "precious"
    assert (refused.returncode, "it is a pipe" in refused.stderr) == (Exit.FAILED, True)


def test_a_file_that_is_there_is_kept_unless_it_may_go(imported: Person) -> None:
    file = imported.folder / "mine.jsonl"
    file.write_text("precious")

    refused = imported.types("sessions", "export", "main", "--out", "mine.jsonl")
    assert (refused.returncode, file.read_text()) == (Exit.FAILED, "precious")
    assert "--force" in refused.stderr

    assert imported.types("sessions", "export", "main", "--out", "mine.jsonl", "--force").returncode == 0  # fmt: skip
    assert "Shelf nine." in file.read_text()
    assert sorted(path.name for path in imported.folder.glob("*mine*")) == ["mine.jsonl"]


def test_people_get_it_in_markdown_with_tools_and_their_results(imported: Person) -> None:
    told = imported.types("sessions", "export", "main", "--format", "markdown").stdout

    assert told.startswith("# agent:main:main\n\n## user, 2026-02-08 ")
    assert "\n\nWhere is the book?\n" in told
    assert "→ read path: a" in told
    assert told.rstrip().endswith("Shelf nine.")


def test_all_sessions_become_a_file_each_those_put_away_as_well(imported: Person) -> None:
    imported.types("message", "send", "say: Nine.", "--session", "shelf/nine")
    imported.types("message", "send", "say: Ten.", "--session", "ten")
    imported.types("sessions", "archive", "ten")

    done = imported.types("sessions", "export", "--all", "--out", "all", "--format", "markdown")

    assert done.returncode == Exit.OK, done.stderr
    files = {path.read_text().split("\n")[0]: path for path in (imported.folder / "all").iterdir()}
    listed = imported.reads_json("sessions", "list")["sessions"]
    keys = {"agent:main:ten", *(row["key"] for row in listed)}
    assert {f"# {key}" for key in keys} == set(files)
    assert len(keys) == 3
    assert all(path.suffix == ".md" for path in files.values())


@pytest.mark.parametrize("words", [(), ("main", "--all"), ("--all",)])
def test_what_it_does_not_understand_it_says(person: Person, words: tuple[str, ...]) -> None:
    done = person.types("sessions", "export", *words)
    assert done.returncode == Exit.USAGE
    assert "Example: crossclaw sessions export" in done.stderr


def test_it_says_that_a_folder_is_none_to_write_to_and_that_all_needs_one(person: Person) -> None:
    (person.folder / "there").mkdir()

    folder = person.types("sessions", "export", "main", "--out", "there")
    everything = person.types("sessions", "export", "--all")

    assert (folder.returncode, everything.returncode) == (Exit.USAGE, Exit.USAGE)
    assert "there is a folder" in folder.stderr
    assert "--all needs --out" in everything.stderr


def test_it_is_seen_on_a_terminal_and_never_in_a_pipe(imported: Person) -> None:
    seen, _answer = imported.looks_at("sessions", "export", "main", "--out", "a.jsonl")
    assert "7/7" in seen
    piped = imported.types("sessions", "export", "main")
    assert len(piped.stdout.splitlines()) == 8
    assert "entries" not in piped.stderr


@pytest.mark.spec("K6")
def test_transcripts_from_before_a_reset_are_exported_too(person: Person, tmp_path: Path) -> None:
    def head_ids(text: str) -> list[str]:
        found = [json.loads(line) for line in text.splitlines()]
        return [line["id"] for line in found if line["type"] == "session"]

    person.types("message", "send", "say: one")
    [first] = head_ids(person.types("sessions", "export", "main").stdout)
    told = person.types("sessions", "reset", "main")
    person.types("message", "send", "say: two")

    all_ids = person.types("sessions", "export", "main", "--all-ids").stdout
    old = person.types("sessions", "export", first, "--format", "markdown").stdout
    by_old_id = person.types("sessions", "export", first.upper(), "--all-ids").stdout
    files = person.types("sessions", "export", "main", "--all-ids", "--out", "each")
    every = person.types("sessions", "export", "--all", "--all-ids", "--out", "every")
    unknown = person.types("sessions", "export", "0b0e1f0e-0000-4000-8000-000000000000")

    assert "--all-ids" in told.stdout
    assert head_ids(all_ids)[0] == first
    assert len(head_ids(all_ids)) == 2
    assert by_old_id == all_ids
    assert ("say: one" in old, "say: two" in old) == (True, False)
    assert f"session id {first}" in old
    assert "2 files, one a transcript" in files.stdout + every.stdout
    for folder in ("each", "every"):
        names = [path.name for path in (person.folder / folder).iterdir()]
        assert len(names) == 2
        assert any(first in name for name in names)
    assert unknown.returncode == Exit.FAILED
    assert "there is no session with the id" in unknown.stderr


@pytest.mark.spec("C1", "K6")
def test_a_transcript_whose_id_is_no_plain_uuid_is_read_by_it(
    person: Person, tmp_path: Path
) -> None:
    """An import splits what the newer OpenClaw has in one at its resets: UUID, UUID-1, and so on."""
    assert person.types("import", str(unpacked(tmp_path / "there"))).returncode == Exit.OK
    both = person.types("sessions", "export", "Atlas", "--all-ids", "--format", "markdown").stdout
    before, now = [line.split()[-1] for line in both.splitlines() if line.startswith("session id ")]

    assert now == f"{before}-1"
    assert both.count("# agent:main:atlas\n") == 2
    alone = person.types("sessions", "export", now, "--format", "markdown").stdout
    assert both.endswith(alone)
    assert ("After the reset" in alone, "Before the reset" in alone) == (True, False)

    named = person.types("sessions", "history", "Atlas")
    late = person.types("sessions", "history", now)
    early = person.types("sessions", "history", before)

    assert named.stdout == late.stdout
    assert "After the reset" in late.stdout
    assert "Before the reset" in early.stdout
    assert named.stderr.endswith(f"1 earlier transcript: crossclaw sessions history {before}\n")
    assert "earlier" not in late.stderr + early.stderr
    assert person.reads_json("sessions", "history", before)["sessionId"] == before
