"""The Dockerfile, as far as it can be looked at without a builder: what it names exists and is understood."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from crossclaw.cli.commands import Chosen, choose
from crossclaw.cli.main import _parser

ROOT = Path(__file__).parents[2]
TEXT = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text("utf-8"))
LINES = [line for line in TEXT.splitlines() if line and not line.startswith("#")]


def lines_of(word: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{word} ")]


def test_everything_that_is_copied_is_there_and_let_through() -> None:
    own = [line for line in lines_of("COPY") if not line.startswith("--from=")]
    named = [name for line in own for name in line.split()[:-1]]
    let_through = (ROOT / ".dockerignore").read_text("utf-8").splitlines()

    assert {"src", "pyproject.toml", "requirements-run.lock"} <= set(named)
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert [name for name in named if f"!{name}" not in let_through] == []
    for line in lines_of("RUN"):
        for lock in re.findall(r"-r (\S+)", line):
            assert lock in named


def test_it_runs_as_somebody_else_than_root_with_its_state_in_a_volume() -> None:
    (user,) = lines_of("USER")
    (volume,) = lines_of("VOLUME")

    assert user not in ("root", "0")
    assert f"useradd --uid 10001 --create-home --home-dir /home/{user} {user}" in TEXT
    assert f"OPENCLAW_STATE_DIR={volume} " in TEXT


@pytest.mark.parametrize("word", ["CMD", "HEALTHCHECK"])
def test_what_it_starts_is_a_command_that_there_is(word: str) -> None:
    (line,) = lines_of(word)
    _, *words = [each.strip(",") for each in shlex.split(line[line.index("[") + 1 : -1])]
    chosen = choose(words)

    assert isinstance(chosen, Chosen)
    command = import_module(f"crossclaw.cli.{chosen.leaf.module}").COMMANDS[chosen.words[-1]]
    _parser(chosen, command).read(chosen.rest)


def test_the_commands_in_its_head_are_words_of_ours() -> None:
    head = (ROOT / "Dockerfile").read_text("utf-8").split("ARG BASE")[0]
    told = re.findall(r"crossclaw crossclaw (\w+)", head)

    assert told == ["onboard", "dashboard"]
    assert all(isinstance(choose([name]), Chosen) for name in told)
