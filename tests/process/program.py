"""The real program as a process, and a client that waits for its answers."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests import starting
from tests.starting import Command

PATIENCE_S = 30.0  # nothing here takes two seconds; a busy machine may need many more
LOOK_AGAIN_S = 0.01
ADDRESS = re.compile(r"https?://127\.0\.0\.1:(\d+)")

T = TypeVar("T")


def until(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s"
        time.sleep(LOOK_AGAIN_S)
    return found


class Folder:
    """A state folder, and what was ever said by the programs that used it."""

    def __init__(self, path: Path, config: str = "{}", **environ: str) -> None:
        self.state = path / "state"
        self.state.mkdir(mode=0o700)
        self.config = self.state / "openclaw.json"
        self.config.write_text(config)
        self.token_file = self.state / "credentials" / "gateway-token"
        self._home = path
        self._more = environ
        self._outputs = 0

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    @contextmanager
    def start(self, *words: str) -> Generator["Program"]:
        """Killed at the end, should it still be there."""
        self._outputs += 1
        output = self._home / f"output-{self._outputs}.txt"
        with output.open("wb") as file:
            process = starting.start(
                ("crossclaw", *words), stdout=file, stderr=file, cwd=Path.cwd(), env=self._environ()
            )
        try:
            yield Program(process, output, self)
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def serve(self) -> Generator["Program"]:
        """A gateway on a free port, ready."""
        with self.start("gateway", "--port", "0") as program:
            until(program.find_port)
            yield program

    def _environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "OPENCLAW_STATE_DIR": str(self.state),
            **self._more,
        }


class Program:
    def __init__(self, process: Command, output: Path, folder: Folder) -> None:
        self._process = process
        self._output = output
        self._folder = folder

    @property
    def said(self) -> str:
        return self._output.read_text()

    @property
    def port(self) -> int:
        return until(self.find_port)

    def find_port(self) -> int | None:
        assert self._process.poll() is None, self.said
        found = ADDRESS.search(self.said)
        return found and int(found[1])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        return self._process.wait(PATIENCE_S)

    @contextmanager
    def client(self) -> Generator["Client"]:
        url = f"ws://127.0.0.1:{self.port}"
        with connect(url, proxy=None, compression=None, open_timeout=PATIENCE_S) as socket:
            client = Client(socket)
            client.come_in(self._folder.token)
            yield client


class Client:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._count = 0
        self.events: list[str] = []
        self.hello: dict[str, Any] = {}

    def come_in(self, token: str) -> None:
        introduction = {
            "minProtocol": 4,
            "maxProtocol": 4,
            "client": {"id": "cli", "mode": "cli", "version": "1", "platform": "linux"},
            "role": "operator",
            "scopes": ["operator.admin", "operator.read", "operator.write"],
            "caps": [],
            "auth": {"token": token},
        }
        self.hello = self.ask("connect", introduction)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self.answer(self.send(method, params))

    def send(self, method: str, params: dict[str, Any]) -> str:
        self._count += 1
        name = f"q{self._count}"
        frame = {"type": "req", "id": name, "method": method, "params": params}
        self._socket.send(json.dumps(frame))
        return name

    def answer(self, name: str) -> dict[str, Any]:
        frame = self.answer_or_refusal(name)
        assert frame["ok"], frame
        payload: dict[str, Any] = frame["payload"]
        return payload

    def answer_or_refusal(self, name: str) -> dict[str, Any]:
        while (frame := self._next()).get("id") != name:
            self._note(frame)
        return frame

    def say(self, key: str, text: str, run_id: str) -> str:
        """Accepted on return: `started`, or what is known of it from an earlier time."""
        params = {"sessionKey": key, "message": text, "idempotencyKey": run_id}
        status: str = self.ask("chat.send", params)["status"]
        return status

    def wait(self, run_id: str, timeout_ms: int = int(PATIENCE_S * 1000)) -> str:
        status: str = self.ask("agent.wait", {"runId": run_id, "timeoutMs": timeout_ms})["status"]
        return status

    def history(self, key: str) -> list[tuple[str, str]]:
        """Who said what, oldest first."""
        messages = self.ask("chat.history", {"sessionKey": key})["messages"]
        return [(message["role"], _words(message)) for message in messages]

    def closed(self) -> tuple[int | None, str | None]:
        try:
            while True:
                self._note(self._next())
        except ConnectionClosed:
            return self._socket.close_code, self._socket.close_reason

    def _next(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self._socket.recv(PATIENCE_S))
        return frame

    def _note(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "event":
            self.events.append(frame["event"])


def _words(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)
