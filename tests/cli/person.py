"""A person at a terminal: a home of their own, and the installed command."""

import contextlib
import json
import os
import pty
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests import starting
from tests.starting import BIN as BIN
from tests.starting import Command


class Person:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.state = folder / "state"
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "OPENCLAW_STATE_DIR": str(self.state),
            "OPENCLAW_GATEWAY_PORT": str(self.port),
        }

    @property
    def config_path(self) -> Path:
        return self.state / "openclaw.json"

    def write_config(self, text: str) -> None:
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.config_path.write_text(text, "utf-8")
        self.config_path.chmod(0o600)

    def types(
        self, *words: str, stdin: str = "", name: str = "openclaw", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        environ = self.environ | environ
        return starting.run((name, *words), stdin=stdin, cwd=self.folder, env=environ, timeout=40)

    def sees(self, columns: int, *words: str, name: str = "openclaw") -> str:
        """The same on a terminal of so many columns."""
        ours, theirs = os.openpty()
        environ = self.environ | {"COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
        process = starting.start(
            (name, *words), stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            cwd=self.folder, env=environ,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        try:
            while read := os.read(ours, 65_536):
                seen += read
        except OSError:  # so Linux says that the other side is closed
            pass
        finally:
            os.close(ours)
            process.wait(40)
        return seen.decode().replace("\r\n", "\n")

    def looks_at(self, *words: str) -> tuple[str, str]:
        """What a terminal shows beside the answer, and the answer itself, which goes into a pipe."""
        master, slave = pty.openpty()
        seen = bytearray()
        with starting.start(
            ("openclaw", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
            cwd=self.folder,
            env=self.environ | {"TERM": "xterm-256color", "COLUMNS": "160"},
        ) as program:
            os.close(slave)
            assert program.stdout is not None
            with contextlib.suppress(OSError):  # the other end is closed: there is no more
                while piece := os.read(master, 4096):
                    seen += piece
            answer = str(program.stdout.read())
            assert program.wait(40) == 0
        os.close(master)
        return seen.decode(), answer

    def begins(self, *words: str, name: str = "openclaw", stdin: int | None = None) -> Command:
        return starting.start(
            (name, *words),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self.environ,
        )

    def reads_json(self, *words: str) -> Any:
        done = self.types(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
