"""`doctor --fix`: what is safe is done with a yes each, or all of it by --yes; what is not safe never is."""

import ast
import os
import time
from pathlib import Path

import pytest

from crossclaw.cli import checks, model_checks
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.repairs import close_to_others
from tests.cli.person import Person
from tests.cli.terminal import at_a_terminal

pytestmark = pytest.mark.spec("C2")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def in_trouble(person: Person) -> Path:
    """A folder with one of each; the answer is a draft of long ago."""
    person.write_config('{ agents: { list: [{ id: "main", workspace: "../desk" }] } }')
    person.config_path.chmod(0o644)
    (person.state / "gateway.port").write_text(str(person.port))
    old, young = person.state / ".a.draft", person.state / ".b.draft"
    for draft in (old, young):
        draft.write_text("half")
    os.utime(old, (time.time_ns() / 1e9 - 7200,) * 2)
    return old


def test_by_yes_a_script_gets_all_that_is_safe_and_a_guess_is_left(person: Person) -> None:
    old = in_trouble(person)
    nobody = person.types("doctor", "--fix")
    assert "nobody is there to be asked" in nobody.stderr
    assert (old.exists(), mode(person.config_path)) == (True, 0o644)

    done = person.types("doctor", "--fix", "--yes")

    assert done.stderr.count("done: ") == 4, done.stderr
    assert mode(person.config_path) == 0o600
    assert mode(person.folder / "desk") == 0o700
    assert not old.exists()
    assert (person.state / ".b.draft").exists()  # somebody may be writing it
    assert not (person.state / "gateway.port").exists()

    person.write_config("{ // mine\n  Gateway: { port: 1 }, tools: { denny: ['exec'] },\n}")
    left = person.types("doctor", "--fix", "--yes")
    assert left.returncode == Exit.FAILED
    assert "left, because it is a guess that needs your yes: rename tools.denny" in left.stderr
    text = person.config_path.read_text()
    assert "// mine" in text
    assert "gateway" in text
    assert "Gateway" not in text
    assert "denny" in text


def test_at_a_terminal_each_is_asked_and_only_a_yes_does_it(person: Person) -> None:
    person.write_config("{ tools: { denny: ['exec'] } }")
    ask = f"rename tools.denny to tools.deny in {person.config_path} ?"
    for answer, is_there in (("\r", False), ("y\r", True)):
        with at_a_terminal(person, "doctor", "--fix", columns=200) as terminal:
            terminal.waits_for(f"{ask} [y/N]…")
            terminal.types(answer)
            code = terminal.waits_for_the_end()
        assert ("deny:" in person.config_path.read_text().replace('"', "")) is is_there
        assert code == (Exit.OK if is_there else Exit.FAILED)


def test_a_mode_is_not_changed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("x")
    (tmp_path / "theirs").chmod(0o644)
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    with pytest.raises((OSError, CommandFailed)):
        close_to_others(tmp_path / "ours", 0o600).do()
    assert mode(tmp_path / "theirs") == 0o644


def test_everything_that_is_not_well_says_what_to_do() -> None:
    for module in (checks, model_checks):
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding":
                grade = call.args[1]
                assert isinstance(grade, ast.Constant)
                assert grade.value == "ok" or len(call.args) >= 4, ast.unparse(call)
