"""The command line's front: finds the command, runs it, and turns every end into an exit code.

Nothing is imported before it is needed: `--help` reads a table, `--version` a constant.
"""

import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from crossclaw import __version__
from crossclaw.cli.commands import ELSEWHERE, Chosen, NotChosen, choose, names_in, summary_of
from crossclaw.cli.exits import CommandFailed, Exit, UsageError, exit_table
from crossclaw.cli.say import out, problem, write_what_can_be

if TYPE_CHECKING:
    from crossclaw.cli.grammar import CommandSpec, Parser


# New objects before the collector looks for garbage. What is imported is none, and looking through it
# every 700 objects took a sixth of the gateway's start.
GARBAGE_THRESHOLD = 100_000


def main(arguments: list[str] | None = None) -> int:
    gc.set_threshold(GARBAGE_THRESHOLD)
    given = sys.argv[1:] if arguments is None else arguments
    write_what_can_be()
    try:
        return int(_run(given))
    except CommandFailed as failure:
        problem(str(failure), failure.hint)
        return failure.exit_code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`… | head`). Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-V"], ["-v"]):
        out(f"crossclaw {__version__}")
        return Exit.OK
    chosen = choose(arguments)
    if isinstance(chosen, NotChosen):
        return _help(chosen)
    return _command(chosen)


def _command(chosen: Chosen) -> int:
    module = import_module(f"crossclaw.cli.{chosen.leaf.module}")
    command: CommandSpec = module.COMMANDS[chosen.words[-1]]
    parser = _parser(chosen, command)
    if set(chosen.rest) & {"-h", "--help"}:
        out(parser.format_help(), end="")
        return Exit.OK
    return _guarded(command, parser, chosen.rest)


def _guarded(command: "CommandSpec", parser: "Parser", rest: list[str]) -> int:
    from crossclaw.client.errors import ClientError  # noqa: PLC0415  not for help
    from crossclaw.domain.errors import ConfigInvalid, CrossclawError  # noqa: PLC0415

    try:
        return command.run(parser.read(rest))
    except ConfigInvalid as error:
        raise CommandFailed(str(error), hint=error.excerpt or None) from error
    except CrossclawError as error:
        raise CommandFailed(str(error)) from error
    except ClientError as error:
        from crossclaw.cli.peer import failed_by  # noqa: PLC0415

        raise failed_by(error) from error


def _parser(chosen: Chosen, command: "CommandSpec") -> "Parser":
    from crossclaw.cli.grammar import Parser  # noqa: PLC0415  argparse takes 10 ms of the 75

    parser = Parser(
        prog=" ".join((program(), *chosen.words)),
        description=chosen.leaf.summary,
        epilog=command.more,
    )
    command.arguments(parser)
    return parser


def _help(wanted: NotChosen) -> int:
    if wanted.unknown is not None:
        raise _unknown(wanted)
    text = help_text(wanted.words)
    if wanted.wants_help:
        out(text)
        return Exit.OK
    raise UsageError(f"{' '.join(wanted.words)}: which one?", hint=text)


def _unknown(wanted: NotChosen) -> UsageError:
    from crossclaw.cli.grammar import nearest  # noqa: PLC0415

    word, known = wanted.unknown or "", names_in(wanted.words)
    if not wanted.words and word in ELSEWHERE:
        return UsageError(f"there is no command {word!r} here", hint=ELSEWHERE[word])
    before = " ".join((program(), *wanted.words))
    kind = "option" if word.startswith("-") else "command"
    meant = nearest(word, known)
    where = f"{' '.join(wanted.words)}: " if wanted.words else ""
    text = f"{where}there is no {kind} {word!r}" + (f"; did you mean {meant}?" if meant else "")
    return UsageError(text, hint=f"{before} --help lists them.")


def help_text(words: tuple[str, ...] = ()) -> str:
    name = " ".join((program(), *words))
    width = max(len(word) for word in names_in(words))
    lines = [f"  {word:<{width}}  {text}" for word, text in names_in(words).items()]
    parts = [f"{name}: {summary_of(words)}", f"usage: {name} <command> [options]", "\n".join(lines)]
    if not words:
        parts += ["exit codes\n" + exit_table()]
    parts += [
        f"{name} <command> --help tells more." + ("" if words else f" Version {__version__}.")
    ]
    return "\n\n".join(parts)


def program() -> str:
    """The name it was called by: `crossclaw` and `openclaw` are the same program."""
    name = os.path.basename(sys.argv[0] if sys.argv else "")
    return name if name in ("crossclaw", "openclaw") else "crossclaw"


if __name__ == "__main__":
    sys.exit(main())
