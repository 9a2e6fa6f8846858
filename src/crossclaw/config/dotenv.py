"""`.env` of the state folder: variables beside those of the environment, which goes before it.

It is parsed like OpenClaw's: `NAME=value` a line, `export` in front and quotes around allowed, a quoted value
may have several lines, `#` begins a comment. A `.env` of the folder that a command is called in is not read:
that folder may be anybody's.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from crossclaw.domain.errors import ConfigInvalid

NAME = ".env"
BYTES_MAX = 1_000_000  # some variables; what is larger is none

_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*
        (?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|`(?P<back>[^`]*)`|(?P<plain>[^\n\#]*))
        [ \t]*(?:\#[^\n]*)?$""",
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\"": '"', r"\\": "\\"}


class DotEnv(NamedTuple):
    values: dict[str, str]
    odd: tuple[int, ...]
    """Numbers of lines that cannot be understood."""


def parse_dotenv(text: str) -> DotEnv:
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    values: dict[str, str] = {}
    odd: list[int] = []
    at = 0
    while at < len(text):
        if found := _LINE.match(text, at):
            values[found["name"]] = _value(found)
            at = found.end() + 1
            continue
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].strip()
        if line and not line.startswith("#"):
            odd.append(text.count("\n", 0, at) + 1)
        at = end + 1
    return DotEnv({name: value for name, value in values.items() if value}, tuple(odd))


def _value(found: re.Match[str]) -> str:
    if (double := found["double"]) is not None:
        return re.sub(r"\\.", lambda each: _ESCAPES.get(each[0], each[0]), double, flags=re.DOTALL)
    quoted = next((found[kind] for kind in ("single", "back") if found[kind] is not None), None)
    return quoted if quoted is not None else found["plain"].strip()


def read_dotenv(path: Path) -> DotEnv:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return DotEnv({}, ())
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise ConfigInvalid(
            f"{path} has more than {BYTES_MAX:,} bytes, which no list of variables has"
        )
    return parse_dotenv(data.decode("utf-8", errors="replace"))


def with_dotenv(environ: Mapping[str, str], state_dir: Path) -> dict[str, str]:
    """The environment, and below it what the file adds. A variable that is set to nothing is not set."""
    given = {name: value for name, value in environ.items() if value}
    return dict(environ) | read_dotenv(state_dir / NAME).values | given
