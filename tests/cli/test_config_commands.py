"""`config`: the file read and changed by people who have written comments into it."""

import json

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person

pytestmark = pytest.mark.spec("C2")

WRITTEN = """// mine
{
  // who answers
  agents: {
    list: [
      { id: "main" }, // the first
      { id: "librarian" },
    ],
  },
  gateway: { port: 1234, auth: { token: "s3cret-and-long-enough" } },
  talk: {}, // for later
}
"""


def test_a_value_is_taken_out_and_the_comments_stay(person: Person) -> None:
    person.write_config(WRITTEN)

    key = person.types("config", "unset", "talk")
    item = person.types("config", "unset", "agents.list[1]")

    assert (key.returncode, item.returncode) == (0, 0), key.stderr + item.stderr
    assert f"talk is no longer in {person.config_path}" in key.stdout
    left = WRITTEN.replace('      { id: "librarian" },\n', "").replace("talk: {}, ", "")
    assert person.config_path.read_text() == left
    assert person.config_path.stat().st_mode & 0o777 == 0o600


def test_what_is_not_there_cannot_be_taken_out(person: Person) -> None:
    person.write_config(WRITTEN)

    misspelt = person.types("config", "unset", "gateway.prt")
    default = person.types("config", "unset", "gateway.bind")
    no_key = person.types("config", "unset", "a..b")

    codes = [done.returncode for done in (misspelt, default, no_key)]
    assert codes == [Exit.FAILED, Exit.FAILED, Exit.USAGE]
    assert "did you mean gateway.port?" in misspelt.stderr
    assert "is a default, and stays" in default.stderr
    assert person.config_path.read_text() == WRITTEN


def test_what_stands_in_an_included_file_is_told_with_its_place(person: Person) -> None:
    person.write_config('{ gateway: { $include: "gateway.json5" } }')
    part = person.state / "gateway.json5"
    part.write_text("{\n  port: 1234,\n}")

    done = person.types("config", "unset", "gateway.port")

    assert done.returncode == Exit.FAILED
    assert f"Take it out there: {part}:2" in done.stderr


def test_a_config_that_does_not_load_is_fixed_change_by_change(person: Person) -> None:
    person.write_config("{\n  agnets: {}, // oh\n  gateway: { port: 'many' },\n}")

    half = person.types("config", "unset", "agnets")
    assert half.returncode == Exit.OK
    assert "still does not load" in half.stderr
    whole = person.types("config", "unset", "gateway.port")

    assert whole.returncode == 0, whole.stderr
    assert person.config_path.read_text() == "{\n  // oh\n  gateway: { },\n}"


def test_two_faults_are_fixed_one_after_the_other_and_none_is_added(person: Person) -> None:
    person.write_config('{ gateway: { port: "x" }, hooks: { enabled: true, path: "/" } }')

    worse = person.types("config", "set", "session.scope", "nonsense")
    first = person.types("config", "set", "gateway.port", "18799")
    second = person.types("config", "set", "hooks.enabled", "false")

    assert worse.returncode == Exit.FAILED
    assert "nonsense" not in person.config_path.read_text()
    assert first.returncode == Exit.OK
    assert "hooks.token" in first.stderr
    assert second.returncode == Exit.OK
    assert "does not load" not in second.stderr
    assert person.types("config", "check").returncode == Exit.OK


def test_an_error_of_meaning_has_its_file_and_line_too(person: Person) -> None:
    person.write_config("{\n  hooks: {\n    enabled: true,\n  },\n}")

    done = person.types("config", "check")

    assert "openclaw.json:3: hooks.enabled" in done.stderr


def test_a_change_that_would_not_load_is_not_made(person: Person) -> None:
    text = '{ gateway: { bind: "custom", customBindHost: "10.0.0.1", auth: { token: "x" } } }'
    person.write_config(text)

    done = person.types("config", "unset", "gateway.customBindHost")

    assert done.returncode == Exit.FAILED
    assert "was not changed" in done.stderr
    assert person.config_path.read_text() == text


def test_settings_are_listed_with_the_place_that_says_them(person: Person) -> None:
    person.write_config(WRITTEN)

    done = person.types("config", "get", "gateway")
    program = person.reads_json("config", "get", "gateway")
    lines = [line.split() for line in done.stdout.splitlines()]

    assert ["gateway.port", "1234", "openclaw.json:10"] in lines
    assert ["gateway.auth.token", "(hidden)", "openclaw.json:10"] in lines
    assert ["gateway.reload.mode", "hybrid", "default"] in lines
    assert "--json names them" in done.stderr
    assert program["port"] == 1234
    assert json.loads(person.types("config", "get", "gateway.port").stdout) == 1234
