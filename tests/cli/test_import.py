"""`import` at a terminal."""

import json
import os
from pathlib import Path

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person
from tests.flows.test_import import MAIN, a_folder
from tests.flows.test_import_newer import unpacked

pytestmark = pytest.mark.spec("C2")


def test_a_folder_comes_in_and_its_history_can_be_read(person: Person, tmp_path: Path) -> None:
    folder = str(a_folder(tmp_path / "there"))
    assert person.reads_json("import", folder, "--dry-run")["messages"] == 5
    assert not (person.state / "crossclaw.sqlite").exists()
    done = person.types("import", folder)
    assert done.returncode == Exit.OK
    assert "5 messages and 2 notes came in" in done.stdout
    assert "Shelf nine." in person.types("sessions", "history", "main").stdout
    copy = person.state / "sessions" / "main" / f"{MAIN}.jsonl"
    assert len(copy.read_text().splitlines()) == 8
    assert person.reads_json("import", folder)["transcriptsBefore"] == 1


@pytest.mark.parametrize("what", ["pipe", "endless", "link out", "folder"])
def test_an_import_opens_no_pipe_no_device_and_no_link_that_leads_out(
    person: Person, tmp_path: Path, what: str
) -> None:
    folder = a_folder(tmp_path / "there")
    store = next(folder.glob("agents/*/sessions/sessions.json"))
    (tmp_path / "outside.json").write_text(store.read_text())
    store.unlink()
    match what:
        case "pipe":
            os.mkfifo(store)
        case "endless":
            store.symlink_to("/dev/zero")
        case "link out":
            store.symlink_to(tmp_path / "outside.json")
        case "folder":
            store.mkdir()

    done = person.types("import", str(folder), "--dry-run")

    assert done.returncode == Exit.FAILED
    assert "sessions.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_names_in_a_foreign_folder_do_not_steer_the_terminal(
    person: Person, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "there")
    evil = folder / "agents" / "x\x1b]52;c;ZXZpbA==\x07\ny" / "sessions"
    evil.mkdir(parents=True)
    (evil / "sessions.json").write_text("no json at all")

    done = person.types("import", str(folder), "--dry-run")

    assert done.returncode == Exit.OK
    assert "could not be read" in done.stdout
    assert "\x1b]" not in done.stdout + done.stderr
    assert "\ny/sessions" not in done.stdout


def test_long_work_is_seen_on_a_terminal_and_never_in_a_pipe(
    person: Person, tmp_path: Path
) -> None:
    folder = str(a_folder(tmp_path / "there"))
    seen, answer = person.looks_at("import", folder, "--json")
    for words in ("opening the store", "5 messages", "transcripts written: 1"):
        assert words in seen
    assert json.loads(answer)["messages"] == 5

    piped = person.types("import", folder, "--json")
    assert (json.loads(piped.stdout)["transcriptsBefore"], piped.stderr) == (1, "")


def test_a_compaction_is_seen_on_a_terminal_and_never_in_a_pipe(
    person: Person, tmp_path: Path
) -> None:
    person.types("import", str(a_folder(tmp_path / "there")))
    seen, answer = person.looks_at("sessions", "compact", "main", "--json")
    assert "summarising older turns of agent:main:main" in seen
    assert json.loads(answer)["ok"] is True

    piped = person.types("sessions", "compact", "main", "--json")
    assert json.loads(piped.stdout)["ok"] is True
    assert "summarising" not in piped.stdout + piped.stderr


def test_an_agent_that_the_config_lacks_is_named_and_its_sessions_are_listed(
    person: Person, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "there")
    (folder / "agents" / "main").rename(folder / "agents" / "work")
    store = folder / "agents" / "work" / "sessions" / "sessions.json"
    store.write_text(store.read_text().replace("agent:main:", "agent:work:"))

    done = person.types("import", str(folder))
    assert "crossclaw agents add work" in done.stdout
    assert person.reads_json("import", str(folder))["agentsMissing"] == ["work"]
    listed = person.types("sessions", "list")
    assert (listed.returncode, "agent:work:main" in listed.stdout) == (Exit.OK, True)
    read = person.types("sessions", "history", "agent:work:main")
    assert "Shelf nine." in read.stdout
    person.types("agents", "add", "work")
    assert person.reads_json("import", str(folder))["agentsMissing"] == []


def test_a_folder_that_is_none_is_told(person: Person, tmp_path: Path) -> None:
    done = person.types("import", str(tmp_path))
    assert done.returncode == Exit.FAILED
    assert "agents/<agent>/sessions/sessions.json" in done.stderr


def test_a_folder_that_is_not_there_is_told(person: Person, tmp_path: Path) -> None:
    done = person.types("import", str(tmp_path / "nowhere"))
    assert done.returncode == Exit.FAILED
    assert f"there is no folder {tmp_path / 'nowhere'}" in done.stderr


def test_a_newer_store_that_is_damaged_is_told_alone_and_beside_one_that_can_be_read(
    person: Person, tmp_path: Path
) -> None:
    for name, folder in (("new", tmp_path / "new"), ("both", a_folder(tmp_path / "both"))):
        store = folder / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
        store.parent.mkdir(parents=True, exist_ok=True)
        store.write_bytes(b"SQLite format 3\0")
        done = person.types("import", str(folder))
        assert done.returncode == (Exit.FAILED if name == "new" else Exit.OK)
        assert (
            f"{store}: it cannot be read as a database of OpenClaw 2026.9"
            in done.stdout + done.stderr
        )
    assert "5 messages and 2 notes came in" in done.stdout


def test_the_state_of_openclaw_2026_9_comes_in_with_its_jobs_and_keys_and_twice_is_once(
    person: Person, tmp_path: Path
) -> None:
    there = unpacked(tmp_path)
    dry = person.reads_json("import", str(there), "--dry-run")
    assert not (person.state / "credentials").exists()
    first = person.reads_json("import", str(there))
    again = person.reads_json("import", str(there))

    assert (dry["messages"], dry["jobs"], dry["keys"]) == (
        first["messages"],
        first["jobs"],
        first["keys"],
    )
    assert first["jobs"] == ["morning", "hourly", "once"]
    assert first["keys"] == ["anthropic:work"]
    assert first["allowed"] == ["telegram:default:111"]
    assert [each for each in first["left"] if each.startswith("telegram:default:222 asked")]
    assert first["unreadable"] == 0
    changed = [again[name] for name in ("messages", "notes", "jobs", "keys", "allowed")]
    assert changed == [0, 0, [], [], []]
    assert (again["jobsBefore"], again["keysBefore"]) == (3, 1)
    listed = person.types("cron", "list").stdout
    assert "morning" in listed
    assert "sk-ant" not in json.dumps(first)


def test_where_openclaw_s_sessions_lie_the_doctor_says_so_until_they_are_imported(
    person: Person, tmp_path: Path
) -> None:
    unpacked(tmp_path).rename(person.state)
    person.write_config("{}")

    before = person.types("doctor").stdout
    assert person.types("import").returncode == Exit.OK
    after = person.types("doctor").stdout

    assert "not imported yet (agents/librarian/agent/openclaw-agent.sqlite" in before
    assert "crossclaw import --dry-run" in before
    assert "not imported yet" not in after
