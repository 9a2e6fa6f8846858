"""The front of the command line: help, version, and words that are not understood."""

import json
import re
import subprocess
import sys

import pytest

from crossclaw import __version__
from crossclaw.cli.commands import ELSEWHERE, TREE
from crossclaw.cli.exits import MEANINGS, Exit, UsageError
from crossclaw.cli.grammar import Parser, gateway_options
from crossclaw.config.token import random_token
from tests.cli.person import Person

HEAVY = ["anyio", "apsw", "argparse", "asyncio", "msgspec", "pyjson5", "rich", "websockets"]


@pytest.mark.spec("C2")
@pytest.mark.parametrize("name", ["crossclaw", "openclaw"])
def test_both_names_tell_every_command_and_every_exit_code(person: Person, name: str) -> None:
    done = person.types("--help", name=name)

    assert done.returncode == 0
    assert done.stdout.startswith(f"{name}: ")
    for word in ("message", "gateway", "sessions", "agents", "status", "doctor", "config", "chat"):
        assert f"\n  {word} " in done.stdout
    for meaning in MEANINGS.values():
        assert meaning in done.stdout


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    code = (
        f"import sys; from crossclaw.cli.main import main; main([{argument!r}]);"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[]"


def test_the_version_is_the_package_s(person: Person) -> None:
    assert person.types("--version", name="crossclaw").stdout == f"crossclaw {__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["mesage", "send", "x"], "message"),
        (["sessions", "lst"], "list"),
        (["message", "sned"], "send"),
        (["sessions", "list", "--limt", "3"], "--limit"),
        (["message", "send", "x", "--sesion", "a"], "--session"),
    ],
)
def test_a_typing_mistake_gets_the_nearest_word(
    person: Person, words: list[str], meant: str
) -> None:
    done = person.types(*words)

    assert done.returncode == Exit.USAGE
    assert f"did you mean {meant}?" in done.stderr
    assert not person.state.exists()


def test_an_abbreviated_option_is_not_guessed(person: Person) -> None:
    assert person.types("sessions", "list", "--lim", "3").returncode == Exit.USAGE


def test_every_command_has_its_help(person: Person) -> None:
    for words in (["message", "send"], ["gateway", "call"], ["sessions", "history"], ["doctor"]):
        done = person.types(*words, "--help")
        assert done.returncode == 0
        assert "usage: openclaw " + " ".join(words) in done.stdout


def test_a_group_without_its_word_says_which_there_are(person: Person) -> None:
    done = person.types("message")

    assert done.returncode == Exit.USAGE
    assert "send" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sessions", "list", "--limit", "x"], "'x' is no whole number from 1 on"),
        (["message", "send", "x", "--timeout", "soon"], "'soon' is no number of seconds"),
        (["gateway", "--port", "99999"], "'99999' is no port"),
        (["health", "--url", "ws://[bad", "--token", "x"], "is no gateway address"),
        (["health", "--url", "ws://host:many", "--token", "x"], "is no gateway address"),
    ],
)
def test_a_value_that_is_none_is_told_in_words(person: Person, words: list[str], told: str) -> None:
    done = person.types(*words)

    assert done.returncode == Exit.USAGE
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_locale_without_our_marks_does_not_end_a_command(person: Person) -> None:
    looked = person.types("doctor", PYTHONIOENCODING="latin-1")
    said = person.types("message", "send", "say: é ✓", "--json", PYTHONIOENCODING="ascii")

    assert (looked.returncode, said.returncode) == (Exit.OK, Exit.OK), looked.stderr + said.stderr
    assert "? config: " in looked.stdout
    assert json.loads(said.stdout)["reply"] == "é ✓"


@pytest.mark.spec("C2")
@pytest.mark.parametrize("word", ["setup", "configure", "webhooks", "update"])
def test_a_word_of_openclaw_s_that_is_none_here_is_told_what_does_its_work(
    person: Person, word: str
) -> None:
    done = person.types(word, "--anything")

    assert done.returncode == Exit.USAGE
    assert done.stderr == f"crossclaw: there is no command {word!r} here\n{ELSEWHERE[word]}\n"
    assert word not in TREE


def test_what_does_the_work_of_other_words_is_a_command() -> None:
    for told in ELSEWHERE.values():
        assert set(re.findall(r"crossclaw ([a-z]+)", told)) <= set(TREE), told


def test_second_words_of_openclaw_s_work_and_are_not_listed(person: Person) -> None:
    assert person.types("version").stdout == f"crossclaw {__version__}\n"
    assert "\n  tui " not in person.types("--help").stdout


def test_a_token_that_begins_with_a_dash_is_a_token_behind_its_option() -> None:
    parser = Parser(prog="x")
    gateway_options(parser)

    assert parser.read(["--token", "-abc", "--timeout", "3"]).token == "-abc"
    assert parser.read(["--password", "--x", "--url", "ws://a"]).password == "--x"
    with pytest.raises(UsageError):  # the next option is no secret
        parser.read(["--token", "--url", "ws://a"])
    assert not any(random_token().startswith("-") for _ in range(300))
