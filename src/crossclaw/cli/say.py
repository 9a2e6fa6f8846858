"""Say: the one place that writes to the terminal. Answers go to stdout, everything else to stderr."""

import io
import json
import os
import sys
from typing import Any


def out(text: str = "", *, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def out_json(value: Any) -> None:
    out(json.dumps(value, ensure_ascii=not takes_all(), indent=2 if on_terminal() else None))


def takes_all() -> bool:
    """Whether every character can be written; where the locale is an old one, JSON has its escapes."""
    return str(sys.stdout.encoding).lower().replace("-", "") == "utf8"


def write_what_can_be() -> None:
    """A mark that an old locale does not have becomes a question mark, not the end of the command."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not takes_all():
        sys.stdout.reconfigure(errors="replace")


def note(text: str) -> None:
    """What a person may want to know beside the answer."""
    sys.stderr.write(dimmed(text) + "\n")
    sys.stderr.flush()


def ask_for_line(question: str) -> None:
    """Beside the answer, as a note is; what is typed follows on the same row."""
    sys.stderr.write(question)
    sys.stderr.flush()


def problem(text: str, hint: str | None = None) -> None:
    sys.stderr.write(f"crossclaw: {text}\n")
    if hint:
        sys.stderr.write(f"{hint}\n")
    sys.stderr.flush()


def on_terminal() -> bool:
    return sys.stdout.isatty()


def coloured(text: str, code: str) -> str:
    """On a terminal, unless its owner wants no colours (https://no-color.org)."""
    plain = not on_terminal() or os.environ.get("NO_COLOR")
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"


def dimmed(text: str) -> str:
    plain = not sys.stderr.isatty() or os.environ.get("NO_COLOR")
    return text if plain else f"\x1b[2m{text}\x1b[0m"


def cleaned(text: str) -> str:
    """Text of others without the control characters that would steer the terminal."""
    return "".join(c for c in text if c in "\n\t" or (c.isprintable() or c == "\u200d"))
