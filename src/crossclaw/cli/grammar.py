"""Grammar: argparse with errors that help, the options that several commands share, and `Command`."""

import argparse
import difflib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from crossclaw.cli.exits import UsageError

Arguments = argparse.Namespace


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations: `--tok` must not become `--token` by luck. Errors name the nearest option."""

    def __init__(self, **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, formatter_class=formatter, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.format_usage().strip()}\nMore: {self.prog} --help")

    def read(self, arguments: list[str]) -> Arguments:
        parsed, unknown = self.parse_known_intermixed_args(self._with_secrets(arguments))
        if unknown:
            self._refuse(unknown[0])
        return parsed

    def _with_secrets(self, arguments: list[str]) -> list[str]:
        """The arguments with secrets joined to their options: a secret may begin with a dash, as every 64th
        made token did."""
        known = {text for action in self._actions for text in action.option_strings}
        joined: list[str] = []
        for word in arguments:
            before = joined[-1] if joined else ""
            takes = before in known and before.endswith(SECRET_OPTIONS)
            if takes and word.startswith("-") and word not in known:
                joined[-1] = f"{before}={word}"
            else:
                joined.append(word)
        return joined

    def _refuse(self, word: str) -> NoReturn:
        name = word.split("=", 1)[0]
        if not name.startswith("-"):
            self.error(f"{word!r} is too much here; put a text with spaces in quotes")
        known = [text for action in self._actions for text in action.option_strings]
        meant = nearest(name, known)
        self.error(f"there is no option {name}" + (f"; did you mean {meant}?" if meant else ""))


class CommandSpec(NamedTuple):
    arguments: Callable[[Parser], None]
    run: Callable[[Arguments], int]
    more: str = ""
    """Examples and fine print, shown below the options."""


SECRET_CHARS_MAX = 10_000
SECRET_OPTIONS = ("--token", "--password", "-api-key")


def nearest(word: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def gateway_options(parser: Parser, *, timeout: bool = True) -> None:
    group = parser.add_argument_group("which gateway")
    group.add_argument("--url", help="ws:// or wss:// address; needs its own --token-file")
    secret_options(group, "the gateway's token: a file that holds it (or OPENCLAW_GATEWAY_TOKEN)")
    if timeout:
        parser.add_argument(
            "--timeout", type=seconds, default=30.0, metavar="S", help="seconds to wait (30)"
        )


def secret_options(group: argparse._ActionsContainer, about: str) -> None:
    """Adds options for secrets by file or variable: what stands on a command line can be read by every user
    of the machine. The options that take the secret itself work, and are not recommended."""
    group.add_argument("--token-file", dest="token", type=text_of, metavar="FILE", help=about)
    group.add_argument("--token", help=argparse.SUPPRESS)
    help_text = "the same for a gateway with a password (or OPENCLAW_GATEWAY_PASSWORD)"
    group.add_argument(
        "--password-file", dest="password", type=text_of, metavar="FILE", help=help_text
    )
    group.add_argument("--password", help=argparse.SUPPRESS)


def text_of(name: str) -> str:
    """The content of a file with a secret, which is short; a pipe (`<(pass show gateway)`) counts as a file."""
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read(SECRET_CHARS_MAX).strip()
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{name} cannot be read: {error}") from None
    if not text:
        raise argparse.ArgumentTypeError(f"{name} is empty")
    return text


def json_option(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON value, for programs")


def asking_options(parser: Parser) -> None:
    """Adds the options of commands that ask a gateway and show its answer."""
    json_option(parser)
    gateway_options(parser)


def session_asking_options(parser: Parser) -> None:
    parser.add_argument("session", help="key, session id, name or label")
    asking_options(parser)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds; write it like 30 or 0.5"
        )
    return value


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; one is a number from 0 to 65535")
    return int(text)


def no_arguments(parser: Parser) -> None:
    """Adds nothing: for commands without arguments."""
