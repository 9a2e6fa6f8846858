"""A gateway of a hundred lines: speaks protocol 4 well enough for the command line, and remembers."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tests.ending import beside

Frame = dict[str, Any]
TOKEN = "right-token"


class FakeGateway:
    def __init__(self) -> None:
        self.port = 0
        self.requests: list[Frame] = []
        self.credentials: list[Frame] = []
        self.answers: dict[str, Any] = {
            "agents.list": {"defaultId": "main", "agents": [{"id": "main"}, {"id": "helper"}]},
            "health": {"ok": True},
        }
        self.chat: Callable[[Chat], None] = lambda chat: chat.final("Hello from the fake.")
        self.max_payload = 25 * 2**20
        self.away = False
        """It takes nobody in, as one that is just going."""

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def params_of(self, method: str) -> list[Frame]:
        return [frame["params"] for frame in self.requests if frame["method"] == method]

    def handle(self, socket: ServerConnection) -> None:
        if self.away:
            return
        try:
            _send_event(socket, "connect.challenge", {"nonce": "n", "ts": 1})
            if self._let_in(socket):
                for data in socket:
                    self._answer(socket, json.loads(data))
        except ConnectionClosed:
            pass

    def _let_in(self, socket: ServerConnection) -> bool:
        request = json.loads(socket.recv())
        self.requests.append(request)
        self.credentials.append(request["params"]["auth"])
        if request["params"]["auth"].get("token") != TOKEN:
            error = {"code": "INVALID_REQUEST", "message": "unauthorized: gateway token mismatch"}
            _send(socket, {"type": "res", "id": request["id"], "ok": False, "error": error})
            socket.close(1008, "unauthorized")
            return False
        _reply(socket, request, self._hello())
        return True

    def _hello(self) -> Frame:
        defaults = {"defaultAgentId": "main", "mainSessionKey": "agent:main:main"}
        return {
            "type": "hello-ok",
            "protocol": 4,
            "server": {"version": "fake", "connId": "1"},
            "snapshot": {"sessionDefaults": defaults},
            "policy": {"maxPayload": self.max_payload, "tickIntervalMs": 30000},
        }

    def _answer(self, socket: ServerConnection, request: Frame) -> None:
        self.requests.append(request)
        method, params = request["method"], request["params"]
        if method == "chat.send":
            _reply(socket, request, {"runId": params["idempotencyKey"], "status": "started"})
            self.chat(Chat(socket, params["idempotencyKey"], params["sessionKey"]))
        elif method == "chat.abort":
            _reply(socket, request, {"ok": True, "aborted": True, "runIds": [params["runId"]]})
            Chat(socket, params["runId"], params["sessionKey"]).end("aborted")
        elif method in self.answers:
            for payload in _all(self.answers[method]):
                _reply(socket, request, payload)
        else:
            unknown = f"unknown method: {method}"
            message = "No session found: x" if method == "sessions.resolve" else unknown
            error = {"code": "INVALID_REQUEST", "message": message}
            _send(socket, {"type": "res", "id": request["id"], "ok": False, "error": error})


class Chat:
    """What the gateway tells about one run."""

    def __init__(self, socket: ServerConnection, run_id: str, key: str) -> None:
        self._socket = socket
        self._about = {"runId": run_id, "sessionKey": key}

    def delta(self, text: str) -> None:
        self.end("delta", message=_message(text), deltaText=text)

    def piece(self, text: str) -> None:
        payload = {**self._about, "stream": "assistant", "data": {"text": text, "delta": text}}
        _send_event(self._socket, "agent", payload)

    def final(self, text: str) -> None:
        self.end("final", message=_message(text))

    def tool(self, phase: str, name: str, **more: Any) -> None:
        data = {"phase": phase, "name": name, "toolCallId": "1", **more}
        _send_event(self._socket, "agent", {**self._about, "stream": "tool", "data": data})

    def trouble(self, **data: Any) -> None:
        _send_event(self._socket, "agent", {**self._about, "stream": "model", "data": data})

    def end(self, state: str, **more: Any) -> None:
        _send_event(self._socket, "chat", {**self._about, "state": state, **more})

    def cut(self) -> None:
        self._socket.close(1012, "service restart")


@contextmanager
def open_fake_gateway() -> Generator[FakeGateway]:
    gateway = FakeGateway()
    with serve(gateway.handle, "127.0.0.1", 0) as server:
        gateway.port = server.socket.getsockname()[1]
        with beside(server.serve_forever):
            yield gateway
            server.shutdown()


def _message(text: str) -> Frame:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": 1}


def _all(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else [answer]


def _reply(socket: ServerConnection, request: Frame, payload: Any) -> None:
    _send(socket, {"type": "res", "id": request["id"], "ok": True, "payload": payload})


def _send_event(socket: ServerConnection, name: str, payload: Frame) -> None:
    _send(socket, {"type": "event", "event": name, "payload": payload})


def _send(socket: ServerConnection, frame: Frame) -> None:
    socket.send(json.dumps(frame))
