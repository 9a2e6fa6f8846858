"""Completion: the shells themselves say what they would offer."""

import shutil
import subprocess
import sys

import pytest

from tests.cli.person import Person


def offered(script: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    code = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _crossclaw; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def script(person: Person) -> str:
    done = person.types("completion", "bash")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["crossclaw", "sess"], ["sessions"]),
        (["crossclaw", "sessions", "hist"], ["history"]),
        (["crossclaw", "sessions", "list", "--act"], ["--active"]),
        (["crossclaw", "run", "--po"], ["--port"]),
        (["crossclaw", "tu"], []),  # OpenClaw's second words are not offered
    ],
)
def test_bash_offers_commands_their_words_and_their_options(
    script: str, words: list[str], expected: list[str]
) -> None:
    assert offered(script, *words) == expected


@pytest.mark.parametrize(("shell", "check"), [("zsh", "-n"), ("fish", "--no-execute")])
def test_the_other_shells_can_read_theirs(person: Person, shell: str, check: str) -> None:
    text = person.types("completion", shell).stdout
    assert "sessions" in text
    if shutil.which(shell):
        done = subprocess.run(
            [shell, check], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_package_is_a_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crossclaw", "--version"], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith("crossclaw ")
