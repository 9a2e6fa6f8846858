"""`logs`: the last lines of the log file that the gateway writes."""

import time
from pathlib import Path
from typing import BinaryIO

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, positive
from crossclaw.cli.place import find_served_place
from crossclaw.cli.say import cleaned, note, out

TAIL_BYTES_MAX = 2**20  # of the end of the file; more lines than anybody reads
_LOOK_S = 0.5


def _arguments(parser: Parser) -> None:
    parser.add_argument("--lines", "-n", "--limit", type=positive, default=50, help="how many (50)")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until Ctrl-C")


def _logs(arguments: Arguments) -> int:
    place = find_served_place(note)
    path = place.paths.log_path(place.config.logging)
    try:
        with path.open("rb") as file:
            out("\n".join(map(cleaned, _tail(file)[-arguments.lines :])))
            while arguments.follow:
                more = file.read().decode("utf-8", "replace")
                if more:
                    out(cleaned(more), end="")
                time.sleep(_LOOK_S)
    except FileNotFoundError:
        raise _no_log(path) from None
    return Exit.OK


def read_log() -> list[str]:
    """The last entries, each with the lines that belong to it."""
    place = find_served_place(note)
    path = place.paths.log_path(place.config.logging)
    if not path.is_file():
        raise _no_log(path)
    with path.open("rb") as file:
        lines = _tail(file)
    entries: list[str] = []
    for line in lines:
        if line.startswith("    ") and entries:
            entries[-1] += f"\n{line}"
        else:
            entries.append(line)
    return entries


def _tail(file: BinaryIO) -> list[str]:
    size = file.seek(0, 2)
    file.seek(max(0, size - TAIL_BYTES_MAX))
    return file.read().decode("utf-8", "replace").splitlines()


def _no_log(path: Path) -> CommandFailed:
    return CommandFailed(
        f"there is no log file {path}",
        hint="The gateway makes it when it starts: crossclaw gateway",
    )


COMMANDS = {"logs": CommandSpec(_arguments, _logs)}
