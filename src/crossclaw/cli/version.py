"""`version`: the same as `--version`, as OpenClaw's command line has it."""

from crossclaw import __version__
from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, no_arguments
from crossclaw.cli.say import out


def _version(arguments: Arguments) -> int:
    out(f"crossclaw {__version__}")
    return Exit.OK


COMMANDS = {"version": CommandSpec(no_arguments, _version)}
