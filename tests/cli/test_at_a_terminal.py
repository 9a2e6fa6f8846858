"""`chat` on a real terminal, with prompt-toolkit: what stands on the screen."""

import signal
import threading
from pathlib import Path

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.fake_gateway import FakeGateway
from tests.cli.person import Person
from tests.cli.terminal import at_a_terminal
from tests.cli.test_with_a_gateway import running

pytestmark = pytest.mark.spec("C2")

AWAY = "the gateway is away; waiting for it, up to 30 s"
BACK = "the gateway was away; it is there again"


def test_a_chat_goes_on_over_a_restart_and_nothing_typed_stands_in_a_reply(tmp_path: Path) -> None:
    person = Person(tmp_path)
    gateway = ("gateway", "--port", str(person.port))
    with (
        running(person, *gateway) as (first, _),
        at_a_terminal(person, "chat") as terminal,
    ):
        terminal.waits_for("›")
        terminal.types("say: Before.\r")
        terminal.waits_for("Before.")
        first.send_signal(signal.SIGKILL)
        first.wait(20)
        terminal.types("say: One.\r")
        terminal.waits_for(AWAY)
        terminal.types("say: Two.\r")
        with running(person, *gateway):
            terminal.waits_for("Two.")
            terminal.types("/quit\r")
            ended = terminal.waits_for_the_end()

    assert ended == Exit.OK
    assert "/rehearse" in terminal.lines[1], (
        "without a model there is something to see all the same"
    )
    assert terminal.lines[2:] == [
        *("› say: Before.", "Before."),
        *("› say: One.", AWAY, BACK, "One."),
        *("› say: Two.", "Two."),
        "› /quit",
    ]


def test_between_a_reply_and_the_next_prompt_nothing_is_echoed(tmp_path: Path) -> None:
    person, echoed, over = Person(tmp_path), list[bool](), threading.Event()
    with at_a_terminal(person, "chat") as terminal:

        def look() -> None:
            while not over.is_set():
                echoed.append(terminal.echoes)

        terminal.waits_for("›")
        watch = threading.Thread(target=look)
        watch.start()
        for number in range(10):
            terminal.types(f"say: Reply {number}\r")
            terminal.waits_for(f"Reply {number}")
        over.set()
        watch.join()

    assert len(echoed) > 100
    assert not any(echoed)


def test_ctrl_c_stops_a_reply_without_a_mark_of_its_own(tmp_path: Path) -> None:
    person = Person(tmp_path)
    with at_a_terminal(person, "chat") as terminal:
        terminal.waits_for("›")
        terminal.types("tool: sessions_list {}\x1b\rthen:\x1b\rwait: 60\r")
        terminal.waits_for("→ sessions_list")
        terminal.types("\x03")
        terminal.waits_for("crossclaw: the run was aborted")
        terminal.waits_for("›")  # before that nobody reads keys
        terminal.types("\x04")
        ended = terminal.waits_for_the_end()

    assert ended == Exit.OK
    shown = terminal.lines[terminal.lines.index("→ sessions_list") :]
    assert shown[:2] == ["→ sessions_list", "crossclaw: the run was aborted"]


def test_commands_are_offered_while_they_are_typed(person: Person, gateway: FakeGateway) -> None:
    rows = [{"key": "agent:main:desk", "label": "where I work"}]
    gateway.answers["sessions.list"] = {"sessions": rows}
    with at_a_terminal(person, "chat") as terminal:
        terminal.waits_for("›")
        terminal.types("/ses")
        terminal.waits_for(" /session agent:main:desk  where I work")

    assert " /sessions                 list the conversations" in terminal.lines
