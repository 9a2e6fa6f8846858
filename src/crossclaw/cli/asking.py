"""Asking: one question a line, for commands that need an answer from the person at the terminal.

Questions go to stderr, as notes do, so that an answer can still be piped. Enter takes what stands in brackets.
The end of the input (Ctrl-D) ends the command; nothing is half done by then.
"""

import sys
from collections.abc import Sequence

from crossclaw.cli.exits import CommandFailed
from crossclaw.cli.say import ask_for_line, note
from crossclaw.display.languages import tr

TRIES_MAX = 5  # of answers that cannot be understood; whoever types on is not reading


def is_somebody_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_text(question: str, default: str = "") -> str:
    """The typed text, or the default."""
    shown = f" [{default}]" if default else ""
    ask_for_line(f"{question}{shown}{' ' if question.endswith('?') else ': '}")
    return _line() or default


def ask_secret(question: str) -> str:
    """A secret; it is not shown while it is typed."""
    import getpass  # noqa: PLC0415  only where somebody is asked

    try:
        return getpass.getpass(f"{question}: ").strip()
    except EOFError:
        raise _ended() from None


def ask_yes(question: str, *, default: bool = False) -> bool:
    yes, no = tr("y"), tr("n")
    choices = f"{yes.upper()}/{no}" if default else f"{yes}/{no.upper()}"
    ask_for_line(f"{question} [{choices}] ")
    answer = _line().lower()
    return answer.startswith((yes, "y")) if answer else default


def ask_choice(question: str, choices: Sequence[str], default: int = 0) -> int:
    """The number of the chosen line."""
    for number, text in enumerate(choices, 1):
        note(f"  {number}  {text}")
    for _ in range(TRIES_MAX):
        answer = ask_text(question, str(default + 1))
        if answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return int(answer) - 1
        note(tr("Type a number from 1 to {count}.").format(count=len(choices)))
    raise _ended()


def _line() -> str:
    text = sys.stdin.readline()
    if not text:
        raise _ended()
    return text.strip()


def _ended() -> CommandFailed:
    ask_for_line("\n")  # the question's row is not the answer's
    return CommandFailed(tr("No answer; what was not confirmed was not changed."))
