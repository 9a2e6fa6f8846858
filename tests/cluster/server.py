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
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crossclaw.ledger.postgres.errors import ConnectionLost
from crossclaw.ledger.postgres.wire import PgWire

HOW = (
    "PostgreSQL's programs (initdb, postgres) are not here: install them with your package manager "
    "(apt: postgresql, dnf: postgresql-server, brew: postgresql), and try again"
)
READY_S = 30.0
PORT_WITHIN = 5432  # in a network of its own
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
        self,
        folder: Path,
        settings: dict[str, str] | None = None,
        *,
        trusted: str | None = None,
        host: str = "127.0.0.1",
        within: Sequence[str] = (),
        copied_from: str | None = None,
    ) -> None:
        """`trusted`: a network whose clients are let in. `within`: the words before a command that is to run at `host`.
        `copied_from`: it begins as a standby of the server with this address."""
        self._programs, self._user, self._within = find_programs(), _user(), tuple(within)
        self._data = folder / "data"
        self._settings = SETTINGS | (settings or {})
        self.log_file = folder / "postgresql.log"
        self._log = self.log_file.open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = PORT_WITHIN if within else free_port()
        self.url = f"postgresql://crossclaw@{host}:{self.port}"
        if self._user is not None:
            shutil.chown(folder, self._user)
        if copied_from is None:
            self._make(trusted)
        else:
            self._copy(copied_from)
        self.start()

    def _make(self, trusted: str | None) -> None:
        options = ["-U", "crossclaw", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run([str(self._programs / "initdb"), "-D", str(self._data), *options])
        if trusted is not None:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {trusted} trust\nhost replication all {trusted} trust\n")

    def _copy(self, address: str) -> None:
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        program = str(self._programs / "pg_basebackup")
        self._run([program, "-d", address, "-D", str(self._data), *options])

    def _run(self, command: list[str]) -> None:
        command, user = self._placed(command)
        done = subprocess.run(
            command, user=user, capture_output=True, cwd="/", check=False, text=True
        )
        if done.returncode:
            raise NoServer(done.stderr)

    def _placed(self, command: list[str]) -> tuple[list[str], str | None]:
        """As it is started, and by whom: into another place only root gets, and is nobody there from then on."""
        if not self._within or self._user is None:
            return command, self._user
        who = pwd.getpwnam(self._user)
        as_user = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups"]
        return [*self._within, *as_user, *command], None

    def _launch(self) -> subprocess.Popen[bytes]:
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        program, data = str(self._programs / "postgres"), str(self._data)
        command, user = self._placed([program, "-D", data, "-p", str(self.port), *options])
        return subprocess.Popen(
            command,
            user=user,
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
def serving(settings: dict[str, str] | None = None) -> Generator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="crossclaw-postgresql-"))
    folder.chmod(0o755)
    try:
        server = Server(folder, settings)
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
