"""No gateway runs: the command opens a gateway of its own for the call, and says so."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person

pytestmark = pytest.mark.spec("C1")


def test_the_lines_of_the_messages_page(person: Person) -> None:
    (person.folder / "src").mkdir()
    (person.folder / "src" / "app.ts").write_text("export const answer = 42;\n")

    first = person.types("message", "send", "Hola, agente")
    named = person.types("message", "send", "Hola", "--session", "abc123")
    nobody = person.types("message", "send", "Hola", "--agent", "my-agent")
    person.types("agents", "add", "my-agent")
    somebody = person.types("message", "send", "Hola", "--agent", "my-agent")
    file = person.types("message", "send", "Revisa este archivo", "--context", "src/app.ts")

    codes = [done.returncode for done in (first, named, nobody, somebody, file)]
    assert codes == [0, 0, Exit.FAILED, 0, 0]
    assert "Hola, agente" in first.stdout
    assert "no gateway runs" in first.stderr
    assert "export const answer = 42;" in file.stdout
    keys = {row["key"] for row in person.reads_json("sessions", "list")["sessions"]}
    assert keys == {"agent:main:main", "agent:main:abc123", "agent:my-agent:main"}
    assert list((person.state / "sessions" / "my-agent").glob("*.jsonl"))


def test_a_run_that_fails_and_a_reply_that_takes_too_long(person: Person) -> None:
    failed = person.types("message", "send", "fail: no luck", "--json")
    late = person.types("message", "send", "wait: 30", "--timeout", "0.5")

    assert failed.returncode == Exit.FAILED
    assert json.loads(failed.stdout)["error"] == "no luck"
    assert late.returncode == Exit.TIMEOUT


def test_tools_are_shown_as_they_are_called(person: Person) -> None:
    done = person.types("message", "send", "say: Look.\ntool: sessions_list {}\nthen:\nsay: Seen.")

    assert done.stdout == "Look.\n\nSeen.\n"
    assert "→ sessions_list" in done.stderr


def test_two_calls_at_once_both_get_their_turn(person: Person) -> None:
    with ThreadPoolExecutor() as pool:
        calls = [
            pool.submit(person.types, "message", "send", f"say: {name}", "--session", name)
            for name in ("one", "two")
        ]
        replies = {call.result().stdout for call in calls}

    assert replies == {"one\n", "two\n"}


def test_reading_commands_work_too(person: Person) -> None:
    person.types("message", "send", "say: Nine.")

    assert "Nine." in person.types("sessions", "history", "main").stdout
    assert "rehearsal" in person.types("status").stdout
    assert person.types("sessions", "send", "main", "say: Ten.").stdout == "Ten.\n"
    unknown = person.types("sessions", "show", "nothing")
    assert unknown.returncode == Exit.FAILED


@pytest.mark.spec("B5")
def test_a_session_that_has_a_budget_shows_what_is_spent_of_it(person: Person) -> None:
    person.write_config('{"agents": {"defaults": {"budget": {"tokens": 90000}}}}')
    person.types("message", "send", "say: Nine.")

    shown = person.types("sessions", "show", "main").stdout
    assert "of 90,000 tokens for the last run" in shown
    assert person.reads_json("sessions", "show", "main")["budget"]["tokens"] == 90_000


def test_a_run_over_its_budget_says_so_at_the_terminal(person: Person) -> None:
    person.write_config('{"agents": {"defaults": {"budget": {"tokens": 300}}}}')
    done = person.types("message", "send", "say: Nine.")

    assert done.returncode == Exit.FAILED
    assert "over budget: 0 of 300 tokens are spent" in done.stderr


def test_without_rich_a_terminal_shows_plain_text(person: Person) -> None:
    alone = "import sys; sys.modules['rich'] = None; from crossclaw.cli.main import main; sys.exit(main())"
    said = person.sees(80, "-c", alone, "message", "send", "say: **bold** words", name="python")
    past = person.sees(80, "-c", alone, "sessions", "history", "main", name="python")

    assert said == "**bold** words\n"
    assert "**bold** words" in past
