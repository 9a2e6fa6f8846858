"""The wire: the real program as a process, and clients that speak with it by WebSocket."""

import json
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.abc
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from tests.crash.chapter import Scene
from tests.crash.clients import Load
from tests.crash.life import Answer, Gone, Hear, HungUp, Line
from tests.crash.record import AGENTS, UNHEARD, Place
from tests.crash.store import count_left, find_runs
from tests.crash.victim import BYTES_MAX, ONE_BY_ONE, Build

PROGRAM = Path(sys.executable).with_name("crossclaw")
TOKEN = "a-token-of-the-crash-rig-that-is-long-enough"
RUNS_AT_ONCE = 6  # fewer than the sessions
CONFIG = {
    "agents": {
        "defaults": {"model": "rehearsal/rehearsal", "maxConcurrent": RUNS_AT_ONCE},
        "list": [{"id": "main", "default": True}, {"id": "librarian"}],
    },
    "messages": ONE_BY_ONE,
}
READY = re.compile(rb"the gateway is at http://([0-9.:]+);")

WAIT_MS = 1000
CHANCE_HANG_UP = 0.05  # of a client that does not wait for its answer, or comes back before it asks
EARLY_S_MAX = 0.8  # Python alone needs 0.3 of it
PROXY_S_MAX = 0.02  # how long the control's proxy keeps what it has acknowledged
LAST_WORDS_S_MAX = 2.0  # from the process's end until its clients have seen it

PLACES = (
    *(Place("direct", f"d{n}") for n in range(6)),
    *(Place("librarian", f"l{n}") for n in range(4)),
)
SCRIPTS = (
    "say: re $",
    "wait: 0.05\nsay: re $",
    "think: of $\nsay: re $",
    "tool: sessions_list {}\nthen:\nsay: re $",
)


def ask_the_other(_dice: Random, place: Place, token: str) -> str:
    """Each agent asks the other's main session, which itself asks nobody: there is no circle."""
    other = "main" if AGENTS[place.channel] == "librarian" else "librarian"
    arguments = {"agentId": other, "message": f"say: re {token}"}
    return f"tool: sessions_send {json.dumps(arguments)}"


TASKS = ("say: re $", "wait: 0.05\nsay: re $")
WIRE_LOAD = Load(5, PLACES, SCRIPTS, ask_the_other, TASKS)


def wire_scene(dice: Random) -> Scene:
    return Scene(Cradle(dice), WIRE_LOAD, EARLY_S_MAX, ("answered",))


class Cradle:
    def __init__(self, dice: Random) -> None:
        self._dice = dice

    async def bear(self, folder: Path, build: Build) -> "Gateway":
        state = folder / "state"
        state.mkdir(mode=0o700, exist_ok=True)
        (state / "openclaw.json").write_text(json.dumps(CONFIG))
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OPENCLAW_STATE_DIR": str(state),
            "OPENCLAW_GATEWAY_TOKEN": TOKEN,
        }
        command = [str(PROGRAM), "gateway", "--port", "0"]
        process = await anyio.open_process(command, stdin=None, stdout=None, env=environ)
        return Gateway(process, folder, self._dice, eager=build == "eager")


class Gateway:
    """One life of the program. Each client has a connection of its own."""

    def __init__(
        self, process: anyio.abc.Process, folder: Path, dice: Random, *, eager: bool
    ) -> None:
        self._process = process
        self._folder = folder
        self._dice = dice
        self._eager = eager
        self._hear: Hear = lambda line: None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._address = ""
        self._connections: dict[str, Connection] = {}
        self._told_to_stop: list[Connection] = []
        self.ready = anyio.Event()
        self.over = anyio.Event()
        self.heard: Counter[str] = Counter()

    # ── its process ────────────────────────────────────────────────────────────────────────────

    async def listen(self, hear: Hear) -> int:
        self._hear = hear
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await self._read_log()
            code = await self._process.wait()
            self._tasks = None
            with anyio.move_on_after(LAST_WORDS_S_MAX):
                for connection in tuple(self._connections.values()):
                    await connection.over.wait()
            tasks.cancel_scope.cancel()
        await self._process.aclose()
        if code == 0:
            self._judge_goodbyes()
        self.over.set()
        return code

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        self._told_to_stop = [each for each in self._connections.values() if each.is_in]
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        begun = b""
        async with await anyio.open_file(self._folder / "victim.log", "ab") as log:
            async for chunk in self._process.stderr:
                await log.write(chunk)
                begun = (begun + chunk)[-BYTES_MAX:]
                if not self.ready.is_set() and (found := READY.search(begun)):
                    self._address = f"ws://{found[1].decode()}"
                    self.ready.set()
                    self._hear({"told": "ready"})

    def _judge_goodbyes(self) -> None:
        for connection in self._told_to_stop:
            if connection.hung_up:
                continue
            goodbye = connection.heard_of_the_end, connection.close_code
            if goodbye != (True, 1012):
                text = f"a client was sent away without the shutdown event or as {goodbye[1]}"
                self._hear({"told": "trouble", "text": text})

    # ── what clients ask ───────────────────────────────────────────────────────────────────────

    async def ask(self, request: Line) -> Line:
        match request["ask"]:
            case "submit":
                return await self._submit(request)
            case "wait":
                return await self._wait(request["client"], request["run"])
            case "open":
                return {"open": count_left(self._folder)}
            case _:
                return {"verify": 0}

    async def _submit(self, request: Line) -> Line:
        run_id = f"run-{request['token']}"
        place = Place(**request["place"])
        params = {
            "sessionKey": place.key.text,
            "message": request["text"],
            "idempotencyKey": run_id,
        }
        method = ("chat.send", "agent")[request["token"][-1] in "13579"]
        connection = await self._connection(request["client"])
        if self._eager and self._tasks is not None:
            self._tasks.start_soon(_forward, connection, method, params, self._dice)
            return {"run": run_id}
        if self._dice.random() < CHANCE_HANG_UP:
            await connection.send(method, params)
            connection.hang_up()
            raise HungUp
        answer = await connection.ask(method, params)
        if "error" in answer:
            return answer
        self.heard["answered"] += 1
        self._hear({"told": "answered"})
        return {"run": answer["runId"]}

    async def _wait(self, client: str, run_id: str) -> Line:
        if self._dice.random() < CHANCE_HANG_UP and client in self._connections:
            self._connections[client].hang_up()
        connection = await self._connection(client)
        answer = await connection.ask("agent.wait", {"runId": run_id, "timeoutMs": WAIT_MS})
        if answer.get("status") != "timeout":
            return {"status": answer["status"], "reply": UNHEARD} if "status" in answer else answer
        # It waits for runs that are yet to come as well, so it does not say that it knows of none.
        known = find_runs(self._folder, f"run_id = '{run_id}'")
        return {"status": "open" if known else "unknown"}

    async def _connection(self, client: str) -> "Connection":
        known = self._connections.get(client)
        if known is not None and not known.over.is_set():
            return known
        try:
            socket = await connect(self._address, proxy=None, compression=None, max_size=None)
        except (OSError, TimeoutError, WebSocketException):
            raise Gone from None
        if self._tasks is None:
            socket.transport.abort()
            raise Gone
        connection = self._connections[client] = Connection(socket, self._hear)
        self._tasks.start_soon(connection.serve)
        await connection.shake_hands()
        return connection


async def _forward(
    connection: "Connection", method: str, params: dict[str, Any], dice: Random
) -> None:
    """The control's proxy: its client has been told already."""
    await anyio.sleep(dice.uniform(0, PROXY_S_MAX))
    try:
        await connection.ask(method, params)
    except Gone:
        return


class Connection:
    def __init__(self, socket: ClientConnection, hear: Hear) -> None:
        self._socket = socket
        self._hear = hear
        self._answers: dict[str, Answer] = {}
        self._runs: dict[str, str] = {}
        """Requests that are answered a second time, by the run that they wait for."""
        self._count = 0
        self._greeted = anyio.Event()
        self.over = anyio.Event()
        self.is_in = False
        self.hung_up = False
        self.heard_of_the_end = False

    @property
    def close_code(self) -> int | None:
        return self._socket.close_code

    async def serve(self) -> None:
        try:
            async for data in self._socket:
                self._take(json.loads(data))
        except ConnectionClosed:
            pass
        finally:
            self.over.set()
            self._greeted.set()
            for answer in self._answers.values():
                answer.come.set()

    async def shake_hands(self) -> None:
        await self._greeted.wait()
        introduction = {
            "minProtocol": 4,
            "maxProtocol": 4,
            "client": {"id": "cli", "mode": "cli", "version": "1", "platform": sys.platform},
            "role": "operator",
            "scopes": ["operator.admin", "operator.read", "operator.write"],
            "caps": [],
            "auth": {"token": TOKEN},
        }
        if "error" in (hello := await self.ask("connect", introduction)):
            self._hear({"told": "trouble", "text": f"a client was not let in: {hello['error']}"})
            raise Gone
        self.is_in = True

    async def ask(self, method: str, params: dict[str, Any]) -> Line:
        answer = Answer()
        self._answers[await self.send(method, params)] = answer
        if self.over.is_set():
            raise Gone
        await answer.come.wait()
        if answer.line is None:
            raise Gone
        return answer.line

    async def send(self, method: str, params: dict[str, Any]) -> str:
        self._count += 1
        name = f"q{self._count}"
        if method == "agent":
            self._runs[name] = params["idempotencyKey"]
        frame = {"type": "req", "id": name, "method": method, "params": params}
        try:
            await self._socket.send(json.dumps(frame))
        except ConnectionClosed:
            raise Gone from None
        return name

    def hang_up(self) -> None:
        """As a network does it: without a word."""
        self.hung_up = True
        self.over.set()
        self._socket.transport.abort()

    def _take(self, frame: Line) -> None:
        if frame["type"] == "event":
            self.heard_of_the_end |= frame["event"] == "shutdown"
            if frame["event"] == "connect.challenge":
                self._greeted.set()
        elif answer := self._answers.pop(frame["id"], None):
            answer.line = None if self._is_closing(frame) else _read(frame)
            answer.come.set()
        elif run := self._runs.get(frame["id"]):
            self._take_second(run, frame)

    def _take_second(self, run: str, frame: Line) -> None:
        if frame["ok"]:
            payload = frame["payload"]
            reply = "".join(part["text"] for part in payload["result"]["payloads"])
            self._hear({"told": "ended", "run": run, "status": payload["status"], "reply": reply})
        elif not self._is_closing(frame):
            self._hear({"told": "ended", "run": run, "status": "error", "reply": UNHEARD})

    def _is_closing(self, frame: Line) -> bool:
        """Refused because the gateway stops: then the same request goes to the next one."""
        refused = not frame["ok"] and bool(frame["error"].get("retryable"))
        return refused and self.heard_of_the_end


def _read(frame: Line) -> Line:
    if frame["ok"]:
        return dict(frame["payload"])
    return {"error": f"{frame['error']['code']}: {frame['error']['message']}"}
