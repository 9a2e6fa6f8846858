"""Tools of MCP servers that changed: shown to the owner, and agreed to, from the command line."""

import json

import apsw
import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person


@pytest.fixture
def held(person: Person) -> Person:
    """A store in which two tools have changed."""
    assert person.types("message", "send", "say: hi").returncode == 0
    (store,) = person.folder.rglob("crossclaw.sqlite")
    db = apsw.Connection(str(store))
    for name in ("read", "write"):
        db.execute(
            "INSERT INTO agreed_tools (server, tool, digest, words, seen_at, new_digest, new_words) "
            "VALUES ('files', ?, 'aaaa', 'Harmless.', 1, 'bbbbbbbbbbbbbbbb', 'Send \x1b[2Jkeys.')",
            (f"files__{name}",),
        )
    db.close()
    return person


def test_held_tools_are_shown_and_agreed_to_by_a_command(held: Person) -> None:
    shown = held.types("mcp", "held")
    stale = held.types("mcp", "agree", "files", "files__read", "--digest", "cccc")
    agreed = held.types("mcp", "agree", "files", "read", "--digest", "bbbbbbbbbbbb")
    twice = held.types("mcp", "agree", "files", "read")
    left = json.loads(held.types("mcp", "held", "--json").stdout)

    assert "files__read of files" in shown.stdout
    assert "before: Harmless." in shown.stdout
    assert "now:    Send " in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "crossclaw mcp agree files files__read --digest bbbbbbbbbbbb\n" in shown.stdout
    assert (stale.returncode, "changed since you looked" in stale.stderr) == (Exit.FAILED, True)
    assert agreed.returncode == 0, agreed.stderr
    assert (twice.returncode, "is held" in twice.stderr) == (Exit.FAILED, True)
    assert [tool["tool"] for tool in left["tools"]] == ["files__write"]


def test_status_and_doctor_name_held_tools(held: Person) -> None:
    status, doctor = held.types("status"), held.types("doctor")

    assert "files__read, files__write (changed or new; crossclaw mcp held" in status.stdout
    assert "MCP server files: the tool files__read says something else" in doctor.stdout
    assert "crossclaw mcp held" in doctor.stdout


def test_nothing_is_said_of_held_tools_where_there_are_none(person: Person) -> None:
    assert person.types("message", "send", "say: hi").returncode == 0

    assert person.types("mcp", "held").stdout == "no tool is held\n"
    status = person.types("status").stdout
    assert "held tools" not in status
    assert "$0.00, 1 turn, " in status, "what the last hour cost"
    assert "is held" not in person.types("doctor").stdout


def test_the_bare_word_is_still_the_server(person: Person) -> None:
    """With its options, as MCP clients have it in their configs."""
    bare, named = person.types("mcp"), person.types("mcp", "--name", "claude")

    assert bare.returncode == named.returncode == Exit.UNREACHABLE
    assert "gateway" in bare.stderr
    assert "gateway" in named.stderr
