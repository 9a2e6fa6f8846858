"""`import` at a terminal."""

from pathlib import Path

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person
from tests.flows.test_import import MAIN, a_folder

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


def test_a_folder_that_is_none_is_told(person: Person, tmp_path: Path) -> None:
    done = person.types("import", str(tmp_path))
    assert done.returncode == Exit.FAILED
    assert "agents/<agent>/sessions/sessions.json" in done.stderr
