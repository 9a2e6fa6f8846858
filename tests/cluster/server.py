"""A PostgreSQL server of one's own: a free port, a data folder that goes with it, never as root."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from crossclaw.ledger.postgres.errors import ConnectionLost
from crossclaw.ledger.postgres.wire import PgWire

HOW = (
    "PostgreSQL's programs (initdb, postgres) are not here: install them with your package manager "
    "(apt: postgresql, dnf: postgresql-server, brew: postgresql), and try again"
)
READY_S = 30.0
# Nothing here outlives the server, so nothing has to reach the disk; all else is as it comes.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "unix_socket_directories": "",
    "log_min_messages": "warning",
}


class NoServer(Exception):
    pass


def find_programs() -> Path:
    """The folder with initdb and postgres; Debian keeps it off the path."""
    beside = shutil.which("postgres")
    folders = [Path(beside).resolve().parent] if beside else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(debian, key=lambda folder: int(folder.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServer(HOW)


def _user() -> str | None:
    """Who runs the server: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Server:
    """One that can be stopped and started again, as a power cut and a restart do it."""

    def __init__(
        self, folder: Path, settings: dict[str, str] | None = None, trusted: str | None = None
    ) -> None:
        self._programs, self._user = find_programs(), _user()
        self._data = folder / "data"
        self._settings = SETTINGS | (settings or {})
        self._log = (folder / "postgresql.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"postgresql://crossclaw@127.0.0.1:{self.port}"
        if self._user is not None:
            shutil.chown(folder, self._user)
        options = ["-U", "crossclaw", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run([str(self._programs / "initdb"), "-D", str(self._data), *options])
        if trusted is not None:  # whoever comes from this network
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {trusted} trust\n")
        self.start()

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(
            command, user=self._user, capture_output=True, cwd="/", check=False, text=True
        )
        if done.returncode:
            raise NoServer(done.stderr)

    def _launch(self) -> subprocess.Popen[bytes]:
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        return subprocess.Popen(
            [self._programs / "postgres", "-D", self._data, "-p", str(self.port), *options],
            user=self._user,
            stdout=self._log,
            stderr=self._log,
            cwd="/",
        )

    def start(self) -> None:
        self._process = self._launch()
        until = time.monotonic() + READY_S
        while not self._answers():
            if time.monotonic() > until:
                self.stop(signal.SIGQUIT)
                raise NoServer(f"the server has not come up; see {self._log.name}")
            if self._process.poll() is not None:  # what a kill has left is still on its way out
                self._process = self._launch()
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            PgWire(f"{self.url}/postgres").close()
        except ConnectionLost:
            return False
        return True

    def stop(self, how: int = signal.SIGINT) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def make_database(self, name: str) -> None:
        admin = PgWire(f"{self.url}/postgres")
        admin.script(f"CREATE DATABASE {name}")
        admin.close()

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        self._log.close()


@contextmanager
def serving(
    settings: dict[str, str] | None = None, *, trusted: str | None = None
) -> Generator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="crossclaw-postgresql-"))
    folder.chmod(0o755)
    try:
        server = Server(folder, settings, trusted)
        try:
            yield server
        finally:
            server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    with serving() as here:
        print(here.url, file=sys.stderr)
        signal.pause()
