"""`chat`: a plain conversation in the terminal, line by line."""

import os
import signal
import stat
import sys

import anyio

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, Command, Parser, gateway_options, seconds
from crossclaw.cli.message import REPLY_S
from crossclaw.cli.naming import name_session
from crossclaw.cli.peer import READ, WRITE, Peer, Refusal
from crossclaw.cli.running import ask
from crossclaw.cli.say import note, on_terminal, out, problem
from crossclaw.cli.screens import choose_screen
from crossclaw.cli.talk import talk

_MORE = """/quit or Ctrl-D ends it; Ctrl-C aborts the reply that is being written. /stop
stops whatever runs in the session."""
_READ_BYTES = 65_536
_END = ("/quit", "/exit", "/q")


class Lines:
    """What is typed, line by line. Waits for the terminal and not in a thread, which Ctrl-C could
    not end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)  # a file never lets wait
        self._read = b""

    async def next(self) -> str | None:
        """None at the end."""
        while b"\n" not in self._read:
            if self._waits:
                await anyio.wait_readable(self._descriptor)
            data = os.read(self._descriptor, _READ_BYTES)
            if not data:
                rest, self._read = self._read, b""
                return rest.decode(errors="replace") or None
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")


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
    lines = Lines(sys.stdin.fileno())
    while (line := await _next(lines)) is not None:
        if line.strip().lower() in _END:
            break
        if line.strip():
            await _say(peer, key, line, arguments.timeout)
    return Exit.OK


async def _next(lines: Lines) -> str | None:
    if on_terminal():
        out("› ", end="")
    return await lines.next()


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


COMMANDS = {"chat": Command(_arguments, _chat, _MORE)}
