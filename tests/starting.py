"""The installed command as a process of its own, forked from one that has imported everything.

Importing the gateway takes ten times as long as most commands work, and `make test` gives some hundreds of
them. Each process of the tests keeps one *starter*, which has imported what commands use and has opened
nothing; a command is a fork of it, with its own arguments, environment, folder, files and exit code.
`CROSSCLAW_PROGRAMS=real` starts the installed program itself instead, as `make proof` does.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from threading import Thread
from typing import IO, Any, Self

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[1]
REAL = os.environ.get("CROSSCLAW_PROGRAMS") == "real"
ORDER_BYTES_MAX = 1_000_000
END_S = 20.0  # for what ends at once
STANDARD = 3  # files of every process: in, out, errors
USED = (
    *("argparse", "datetime", "zoneinfo", "asyncio", "rich.console", "rich.markdown", "rich.table"),
    *("anyio._backends._asyncio", "anyio._core._streams", "anyio._core._sockets"),
    *("crossclaw.cli.running", "crossclaw.client.reconnecting", "crossclaw.cli.embedded"),
    "crossclaw.ledger.sqlite.ledger",
)
"""What a command imports when it is given."""

NAMES = ("crossclaw", "openclaw")
AS_IT_STARTS = {"PYTHONIOENCODING", "PYTHONPATH", "PYTHONUTF8"}
"""Settings that Python reads once, before anything is imported: these need the program itself."""

File = int | IO[Any] | None


class Started:
    """A command that was started; used as subprocess.Popen is."""

    def __init__(
        self, words: tuple[str, ...], *, cwd: Path | str, env: dict[str, str],
        stdin: File = None, stdout: File = None, stderr: File = None,
    ) -> None:  # fmt: skip
        self.args = words
        self.returncode: int | None = None
        theirs: list[int] = []
        self.stdin, self.stdout, self.stderr = (
            self._connect(number, file, theirs)
            for number, file in enumerate((stdin, stdout, stderr))
        )
        order = {"words": words, "cwd": str(cwd), "env": env}
        try:
            self.pid, self._end = _starter().start(order, theirs)
        finally:
            for number, file in zip(theirs, (stdin, stdout, stderr), strict=True):
                if file in (subprocess.PIPE, subprocess.DEVNULL):
                    os.close(number)

    def _connect(self, number: int, file: File, theirs: list[int]) -> IO[str] | None:
        """Notes the command's side of one of its files, and answers ours."""
        if file == subprocess.PIPE:
            read, write = os.pipe()
            theirs.append(write if number else read)
            return open(read if number else write, "r" if number else "w", encoding="utf-8")
        if file == subprocess.DEVNULL:
            theirs.append(os.open(os.devnull, os.O_RDWR))
        elif file is None:
            theirs.append(number)
        else:
            theirs.append(file if isinstance(file, int) else file.fileno())
        return None

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _look(self, within_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], within_s)[0]:
            told = os.read(self._end, 16)
            os.close(self._end)
            if not told:
                raise ChildProcessError("the starter is gone; its stderr says why")
            self.returncode = int(told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # so its pid is still its own: the starter has not waited for it
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, text: str = "", timeout: float | None = None) -> tuple[str, str]:
        said: dict[str, str] = {}
        readers = [
            Thread(
                target=lambda name=name, file=file: said.update({name: file.read()}), daemon=True
            )
            for name, file in (("out", self.stdout), ("err", self.stderr))
            if file is not None and not file.closed
        ]
        for reader in readers:
            reader.start()
        try:
            self._write(text)
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()
            raise
        finally:
            for reader in readers:
                reader.join(END_S)  # whatever it has started may still hold its files
            self._close()
        return said.get("out", ""), said.get("err", "")

    def _write(self, text: str) -> None:
        if self.stdin is not None and not self.stdin.closed:
            try:
                self.stdin.write(text)
                self.stdin.close()
            except BrokenPipeError:
                pass  # it did not want to read all of it

    def _close(self) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()


Command = Started | subprocess.Popen[str]


def start(words: tuple[str, ...], **more: Any) -> Command:
    """A command of the program, `words[0]` being its name: crossclaw or openclaw."""
    if REAL or words[0] not in NAMES or AS_IT_STARTS & more["env"].keys():
        return subprocess.Popen([str(BIN / words[0]), *words[1:]], text=True, **more)
    return Started(words, **more)


def run(
    words: tuple[str, ...], *, stdin: str = "", cwd: Path | str, env: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = start(words, cwd=cwd, env=env, **pipes)
    out, err = process.communicate(stdin, timeout=timeout)
    return subprocess.CompletedProcess(words, process.wait(), out, err)


class Starter:
    """This side of it: tells what shall be started, and hears pids."""

    def __init__(self) -> None:
        self._door, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inside:
            command = [sys.executable, "-m", "tests.starting"]
            environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
            self._process = subprocess.Popen(
                command, stdin=inside.fileno(), stdout=subprocess.DEVNULL, cwd=ROOT, env=environ
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._door.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:  # somebody else holds the other end of its door
            self._process.kill()
            self._process.wait()

    def start(self, order: dict[str, Any], files: list[int]) -> tuple[int, int]:
        """The pid, and a pipe that tells the exit code when it has ended."""
        end, told = os.pipe()
        try:
            socket.send_fds(self._door, [json.dumps(order).encode()], [*files, told])
        finally:
            os.close(told)
        pid = self._door.recv(16)
        if not pid:
            raise ChildProcessError("the starter is gone; its stderr says why")
        return int(pid), end


@cache
def _starter() -> Starter:
    return Starter()


def _serve(door: socket.socket) -> dict[str, Any] | None:
    """Forks a command an order; answers its order in the fork, and nothing when all is over."""
    ends: dict[int, int] = {}

    def bury(*_: object) -> None:
        for pid in list(ends):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                end = ends.pop(pid)
                os.write(end, b"%d" % os.waitstatus_to_exitcode(status))
                os.close(end)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the tests
    signal.signal(signal.SIGCHLD, bury)
    while True:
        message, files, _, _ = socket.recv_fds(door, ORDER_BYTES_MAX, STANDARD + 1)
        if not message:  # whoever gave the orders is gone, also when it was killed
            for pid in list(ends):
                os.kill(pid, signal.SIGKILL)
            return None
        *standard, end = files
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            _become(standard)
            return dict(json.loads(message))
        ends[pid] = end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for number in standard:
            os.close(number)
        door.send(b"%d" % pid)


def _become(files: list[int]) -> None:
    """Signals and files as a process has them that was just started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(STANDARD, 1024)
    assert isinstance(sys.stdout, TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))


def _main() -> int:
    main = import_module("crossclaw.cli.main").main
    for name in USED:
        import_module(name)
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as door:
        order = _serve(door)
        if order is None:
            return 0
        door.detach()  # closed already: it was the starter's
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    name, *words = order["words"]
    sys.argv = [str(BIN / name), *words]
    return int(main())


if __name__ == "__main__":
    sys.exit(_main())
