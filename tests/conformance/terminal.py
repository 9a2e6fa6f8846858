"""A person at a terminal: a program in a pty, its screen read, its keys pressed."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

ROWS, COLUMNS = 40, 120
_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-9;?<>=]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|.)"
)


class Terminal:
    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self._process = process
        self._master = master
        self.shown = b""

    def until(self, words: str, timeout_s: float = 90, since: int = 0) -> None:
        deadline = time.monotonic() + timeout_s
        while words not in self.text(since):
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"{words!r} was not shown; the end was {self.text()[-600:]!r}")

    def text(self, since: int = 0) -> str:
        return _ESCAPES.sub(b"", self.shown[since:]).decode("utf-8", "replace")

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def _read(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], min(timeout_s, 1.0))
        if ready:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return False
            self.shown += data
            self._answer(data)
        return self._process.poll() is None or bool(ready)

    def _answer(self, data: bytes) -> None:
        """A terminal tells where its cursor is when it is asked; some programs wait for that."""
        if b"\x1b[6n" in data:
            os.write(self._master, b"\x1b[1;1R")


@contextmanager
def terminal(command: Sequence[str], environ: Mapping[str, str]) -> Generator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
