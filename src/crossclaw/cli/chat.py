"""`chat`: a conversation in the terminal. At a terminal with history, completion and a choice of
sessions; from a pipe line by line."""

import os
import signal
import stat
import sys
from contextlib import AbstractContextManager, nullcontext
from subprocess import DEVNULL
from typing import Any, Protocol

import anyio

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, gateway_options, seconds
from crossclaw.cli.message import REPLY_S
from crossclaw.cli.naming import is_there, name_session
from crossclaw.cli.place import find_served_place
from crossclaw.cli.prompting import Prompt, can_prompt
from crossclaw.cli.running import ask
from crossclaw.cli.say import in_one_line, note, on_terminal, out, problem
from crossclaw.cli.screens import choose_screen
from crossclaw.cli.talk import talk
from crossclaw.client.errors import CallRefused
from crossclaw.client.peer import ADMIN, READ, WRITE, GatewayPeer
from crossclaw.display.languages import tr

_MORE = """/quit or Ctrl-D ends it; Ctrl-C aborts the reply that is being written. /stop
stops whatever runs in the session. /sessions lists the conversations and
/session NAME goes to another one. /rehearse plays a scene that needs no key,
on a gateway of its own. With the extra `terminal` (pip install
'crossclaw[terminal]') there are history, completion and several rows."""
_READ_BYTES = 65_536
_END = ("/quit", "/exit", "/q")
_LISTED = 30  # sessions offered; sessions list knows the others
COMMANDS_HERE = {
    "/sessions": "list the conversations",
    "/session": "go to another: a number of the list, a key, a label or a new name",
    "/rehearse": "watch a scene that needs no key: two-agents, team, kill-me, budget",
    "/stop": "stop whatever runs in this session",
    "/quit": "end",
}


class InputLines(Protocol):
    async def next(self) -> str | None:
        """The next message; None at the end."""

    def hush(self) -> AbstractContextManager[None]:
        """Suppresses the terminal's own echo: between two prompts it would stand in a reply."""


class TerminalLines:
    """Reads typed lines. It waits for the terminal and not in a thread, which Ctrl-C could not end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        # A file never lets wait, and neither does /dev/null.
        self._waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
        self._read = b""

    async def next(self) -> str | None:
        """The next line; None at the end."""
        if on_terminal():
            out("› ", end="")
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

    def hush(self) -> AbstractContextManager[None]:
        return nullcontext()


class Conversation:
    """The conversation: its session, and the commands that lead to others."""

    def __init__(self, peer: GatewayPeer, key: str, timeout_s: float) -> None:
        self._peer = peer
        self._timeout_s = timeout_s
        self._rows: list[dict[str, Any]] = []
        self.key = key

    def choices(self) -> list[tuple[str, str]]:
        there = [(f"/session {row['key']}", row.get("label") or "") for row in self._rows]
        return [*COMMANDS_HERE.items(), *there]

    async def look(self) -> None:
        self._rows = (await self._peer.call("sessions.list", {"limit": _LISTED}, repeat=True))[
            "sessions"
        ]

    async def take(self, line: str) -> bool:
        """Handles a line; returns whether the conversation goes on."""
        word, _, rest = line.strip().partition(" ")
        if word.lower() in _END:
            return False
        if word == "/sessions":
            await self._list()
        elif word == "/session":
            await self._switch(rest.strip())
        elif word == "/rehearse":
            await self._rehearse(rest.split())
        elif word:
            await self._say(line)
        return True

    async def _rehearse(self, names: list[str]) -> None:
        """Plays rehearsals on a gateway of its own, by a program of its own: nothing of it is in this
        conversation."""
        words = [sys.executable, "-m", "crossclaw", "rehearse", "--", *names]
        await anyio.run_process(words, stdin=DEVNULL, stdout=None, stderr=None, check=False)
        if not names:
            note("/rehearse two-agents plays the first")

    async def _list(self) -> None:
        await self.look()
        for number, row in enumerate(self._rows, start=1):
            here = "›" if row["key"] == self.key else " "
            out(f"{here}{number:3}  {in_one_line(row.get('label') or row['key'])}")

    async def _switch(self, name: str) -> None:
        try:
            number = int(name) if name.isdigit() else 0
            chosen = self._rows[number - 1]["key"] if 0 < number <= len(self._rows) else name
            key = await name_session(self._peer, chosen or None, None)
            there = await is_there(self._peer, key)
        except (CommandFailed, CallRefused) as failed:
            problem(str(failed))
            return
        self.key = key
        new = tr("{key}, a new one: it begins with the first message")
        note(key if there else new.format(key=key))

    async def _say(self, line: str) -> None:
        try:
            screen = choose_screen(quiet=False)
            talked = await talk(self._peer, self.key, line, screen, self._timeout_s)
        except CallRefused as refusal:
            problem(str(refusal))
            return
        if talked.signalled == signal.SIGTERM:
            raise CommandFailed("asked to stop", Exit.TERMINATED)
        if talked.status != "ok":
            problem(talked.error or talked.status)


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "--session", metavar="S", help="key, session id, label or a new name (main)"
    )
    parser.add_argument("--agent", metavar="ID", help="whom to talk with")
    parser.add_argument("--timeout", type=seconds, default=REPLY_S, metavar="S", help="per reply")
    gateway_options(parser, timeout=False)


def _chat(arguments: Arguments) -> int:
    notes = HeldNotes()
    return ask(
        arguments,
        *(READ, WRITE, ADMIN),
        work=lambda peer: _converse(peer, arguments, notes),
        lasting=True,
        tell=notes.tell,
    )


class HeldNotes:
    """Holds notes about the connection back while a person types, and shows them when the line is done."""

    def __init__(self) -> None:
        self._held: list[str] | None = None

    def tell(self, text: str) -> None:
        if self._held is None:
            note(text)
        else:
            self._held.append(text)

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for text in held:
            note(text)


async def _converse(peer: GatewayPeer, arguments: Arguments, notes: HeldNotes) -> int:
    key = await name_session(peer, arguments.session, arguments.agent)
    conversation = Conversation(peer, key, arguments.timeout)
    note(
        tr("{key} at {place}. /quit ends, Ctrl-C stops a reply.").format(key=key, place=peer.place)
    )
    if on_terminal() and await _is_scripted(peer):
        note("No model is set up. /rehearse shows what agents do together, without a key.")
    asking = await _asking(conversation)
    with asking.hush():
        while True:
            notes.hold()
            line = await asking.next()
            notes.release()
            if line is None or not await conversation.take(line):
                return Exit.OK


async def _is_scripted(peer: GatewayPeer) -> bool:
    try:
        return bool((await peer.call("status", {}, repeat=True)).get("rehearsal"))
    except CallRefused:  # one that may not ask hears nothing of it
        return False


async def _asking(conversation: Conversation) -> InputLines:
    if not (on_terminal() and sys.stdin.isatty() and can_prompt()):
        return TerminalLines(sys.stdin.fileno())
    await conversation.look()
    folder = find_served_place().paths.state_dir
    return Prompt(folder / "chat-history" if folder.is_dir() else None, conversation.choices)


COMMANDS = {
    "chat": CommandSpec(_arguments, _chat, _MORE),
    "tui": CommandSpec(_arguments, _chat, _MORE),
}
