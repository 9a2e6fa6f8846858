"""A terminal: a pseudo-terminal with a program in it, and what stands on its screen."""

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager

import pyte

from tests.cli.person import BIN, Person

ROWS = 60  # so many that nothing scrolls away
PATIENCE_S = 40.0  # for a program that starts on a busy machine


class _Screen(pyte.Screen):
    def __init__(self, columns: int, keyboard: int) -> None:
        super().__init__(columns, ROWS)
        self._keyboard = keyboard

    def write_process_input(self, data: str) -> None:
        """What a terminal answers by itself, as where the cursor is."""
        os.write(self._keyboard, data.encode())


class Terminal:
    def __init__(self, descriptor: int, columns: int, program: subprocess.Popen[bytes]) -> None:
        self._descriptor = descriptor
        self._screen = _Screen(columns, descriptor)
        self._stream = pyte.ByteStream(self._screen)
        self.program = program

    @property
    def lines(self) -> list[str]:
        """What stands there, without the empty rows."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def types(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    @property
    def echoes(self) -> bool:
        """Whether the terminal itself would show a key that is typed now."""
        local_flags: int = termios.tcgetattr(self._descriptor)[3]
        return bool(local_flags & termios.ECHO)

    def waits_for(self, line: str) -> None:
        """A whole line, or the beginning of one that ends with …"""
        until = time.monotonic() + PATIENCE_S
        while not any(_like(each, line) for each in self.lines):
            left = until - time.monotonic()
            assert left > 0, f"{line!r} does not come:\n" + "\n".join(self.lines)
            assert self._read(left), f"it ended before {line!r}:\n" + "\n".join(self.lines)

    def waits_for_the_end(self) -> int:
        until = time.monotonic() + PATIENCE_S
        while self._read(max(0, until - time.monotonic())):
            assert time.monotonic() < until, "it does not end:\n" + "\n".join(self.lines)
        return self.program.wait(PATIENCE_S)

    def _read(self, within_s: float) -> bool:
        """Whether the program is still there."""
        readable, _, _ = select.select([self._descriptor], [], [], within_s)
        if not readable:
            return True
        try:
            piece = os.read(self._descriptor, 65_536)
        except OSError:  # so Linux says that the other side is closed
            return False
        self._stream.feed(piece)
        return bool(piece)


def _like(line: str, wanted: str) -> bool:
    return line.startswith(wanted[:-1]) if wanted.endswith("…") else line == wanted


@contextmanager
def at_a_terminal(
    person: Person, *words: str, columns: int = 80, **environ: str
) -> Generator[Terminal]:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    program = subprocess.Popen(
        [BIN / "crossclaw", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=person.folder,
        env=person.environ | {"TERM": "xterm-256color", **environ},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
    )
    os.close(theirs)
    try:
        yield Terminal(ours, columns, program)
    finally:
        program.kill()
        program.wait()
        os.close(ours)
