"""Output: the one place that writes to the terminal. Answers go to stdout, everything else to stderr.

Whatever is written is cleaned here, whoever wrote it: a name, a folder or a tool's argument that comes from an
agent must not steer the owner's terminal. Colours are ours alone: they are marks with a number that nobody
outside of this process knows, and become what the terminal understands after the cleaning.
"""

import io
import json
import os
import re
import secrets
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

from crossclaw.display.cleaning import Clean, cleaned, escaped_json, in_one_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["cleaned", "in_one_line"]

_OURS = secrets.token_hex(8)
_MARK = re.compile(f"\ue000{_OURS};([0-9;]*)\ue000")


def out(text: str = "", *, end: str = "\n") -> None:
    _write(sys.stdout, _painted(text + end))


def out_json(value: Any) -> None:
    out_json_text(json_text(value, indent=2 if on_terminal() else None))


def json_text(value: Any, *, indent: int | None = None) -> Clean:
    """A JSON value as text. What would steer a terminal stands in it as escapes."""
    return escaped_json(json.dumps(value, ensure_ascii=not takes_all(), indent=indent))


def out_json_text(text: Clean, *, end: str = "\n") -> None:
    _write(sys.stdout, Clean(text + end))


def takes_all() -> bool:
    """Whether every character can be written; where the locale is an old one, JSON has its escapes."""
    return str(sys.stdout.encoding).lower().replace("-", "") == "utf8"


def write_what_can_be() -> None:
    """Makes a character that an old locale does not have a question mark, not the end of the command."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not takes_all():
        sys.stdout.reconfigure(errors="replace")


def note(text: str) -> None:
    """Writes what a person may want to know beside the answer."""
    _write(sys.stderr, _painted(dimmed(text) + "\n"))


def ask_for_line(question: str) -> None:
    """Writes a question to stderr; what is typed follows on the same row."""
    _write(sys.stderr, _painted(question))


def problem(text: str, hint: str | None = None) -> None:
    more = f"{hint}\n" if hint else ""
    _write(sys.stderr, _painted(f"crossclaw: {text}\n{more}"))


def on_terminal() -> bool:
    return sys.stdout.isatty()


def draws_on(stream: TextIO) -> bool:
    """Whether tables, bars and Markdown are drawn there: on a terminal, by rich, which the extra `terminal`
    brings. Everywhere else, and without it, people read plain text."""
    return stream.isatty() and find_spec("rich") is not None


def coloured(text: str, code: str) -> str:
    """The text in a colour, on a terminal whose owner wants colours (https://no-color.org). For `out` only."""
    plain = not on_terminal() or os.environ.get("NO_COLOR")
    return text if plain else f"{_mark(code)}{text}{_mark('0')}"


def dimmed(text: str) -> str:
    """The text dimmed. For `note` and `out`."""
    plain = not sys.stderr.isatty() or os.environ.get("NO_COLOR")
    return text if plain else f"{_mark('2')}{text}{_mark('0')}"


def console(**settings: Any) -> "Console":
    """Rich's console, which draws tables and Markdown: what it draws is cleaned piece by piece."""
    from collections.abc import Iterable  # noqa: PLC0415  only where rich is

    from rich.console import Console  # noqa: PLC0415  40 ms, and only for some commands
    from rich.segment import Segment  # noqa: PLC0415

    class Cleaning(Console):
        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            return super()._render_buffer(
                each if each.control else each._replace(text=cleaned(each.text)) for each in buffer
            )

    return Cleaning(**settings)


def _mark(code: str) -> str:
    return f"\ue000{_OURS};{code}\ue000"


def _painted(text: str) -> Clean:
    """The text cleaned between our own marks, which become colours."""
    pieces = _MARK.split(text)
    shown = [f"\x1b[{each}m" if at % 2 else cleaned(each) for at, each in enumerate(pieces)]
    return Clean("".join(shown))


def _write(stream: TextIO, text: Clean) -> None:
    stream.write(text)
    stream.flush()
