"""The prompt of `crossclaw chat`: keys go in, words come out."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from crossclaw.cli.prompting import Prompt, _completer

CHOICES = [("/stop", "stop it"), ("/sessions", "list them"), ("/session agent:main:desk", "Desk")]


def typed(keys: str, *, times: int = 1, history: Path | None = None) -> list[str | None]:
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        prompt = Prompt(history, lambda: CHOICES, input=pipe, output=DummyOutput())

        async def read() -> list[str | None]:
            return [await prompt.next() for _ in range(times)]

        return anyio.run(read)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("hello\r", "hello"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("\x1b[200~one\ntwo\x1b[201~\r", "one\ntwo"),
        ("given up\x03kept\r", "kept"),
        ("\x04", None),
    ],
    ids=["enter sends", "alt-enter", "a paste of two rows", "ctrl-c clears", "ctrl-d ends"],
)
def test_keys_do_what_is_expected_of_them(keys: str, said: str | None) -> None:
    assert typed(keys) == [said]


def test_enters_of_a_terminal_that_had_no_prompt_yet_send_each_their_message() -> None:
    assert typed("one\ntwo\n", times=2) == ["one", "two"]


def test_what_was_said_before_comes_back_also_in_the_next_conversation(tmp_path: Path) -> None:
    file = tmp_path / "history"
    assert typed("first\r", history=file) == ["first"]

    assert typed("\x1b[A\r", history=file) == ["first"]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("/s", ["/stop", "/sessions", "/session agent:main:desk"]),
        ("/session ag", ["/session agent:main:desk"]),
        ("plain words", []),
        ("/stop", []),
    ],
)
def test_commands_and_sessions_are_completed(text: str, offered: list[str]) -> None:
    completer: Any = _completer(lambda: CHOICES)

    found = completer.get_completions(Document(text), None)

    assert [each.text for each in found] == offered
