"""`chat`: a plain conversation in the terminal, line by line."""

import signal

import anyio
import anyio.to_thread

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, Command, Parser, gateway_options, seconds
from crossclaw.cli.message import REPLY_S
from crossclaw.cli.naming import name_session
from crossclaw.cli.peer import READ, WRITE, Peer, Refusal
from crossclaw.cli.running import ask
from crossclaw.cli.say import note, on_terminal, problem
from crossclaw.cli.screens import choose_screen
from crossclaw.cli.talk import talk

_MORE = """/quit or Ctrl-D ends it; Ctrl-C aborts the reply that is being written. Other words with a
slash go to the gateway: /status, /new, /stop …"""
_END = ("/quit", "/exit", "/q")


def _arguments(parser: Parser) -> None:
    parser.add_argument("--session", metavar="S", help="key, session id or a new name (main)")
    parser.add_argument("--agent", metavar="ID", help="whom to talk with")
    parser.add_argument("--timeout", type=seconds, default=REPLY_S, metavar="S", help="per reply")
    gateway_options(parser, timeout=False)


def _chat(arguments: Arguments) -> int:
    return ask(arguments, READ, WRITE, work=lambda peer: _converse(peer, arguments))


async def _converse(peer: Peer, arguments: Arguments) -> int:
    key = await name_session(peer, arguments.session, arguments.agent)
    note(f"{key} at {peer.place}. /quit ends, Ctrl-C stops a reply.")
    while (line := await _line()) is not None:
        if line.strip().lower() in _END:
            break
        if line.strip():
            await _say(peer, key, line, arguments.timeout)
    return Exit.OK


async def _say(peer: Peer, key: str, line: str, timeout_s: float) -> None:
    try:
        told = await talk(peer, key, line, choose_screen(quiet=False), timeout_s)
    except Refusal as refusal:
        problem(str(refusal))
        return
    if told.signalled == signal.SIGTERM:
        raise CommandFailed("told to stop", Exit.TERMINATED)
    if told.status != "ok":
        problem(told.error or told.status)


async def _line() -> str | None:
    """The next line, or None at the end. A thread waits for it; Ctrl-C leaves it behind."""
    try:
        return await anyio.to_thread.run_sync(_input, abandon_on_cancel=True)
    except EOFError:
        return None


def _input() -> str:
    return input("› " if on_terminal() else "")


COMMANDS = {"chat": Command(_arguments, _chat, _MORE)}
