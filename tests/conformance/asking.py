"""A client of protocol 4 for the record: asks, waits for answers and events, in one thread."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from websockets.sync.client import ClientConnection, connect

from tests.wire.serving import SignedDevice, connect_params

if TYPE_CHECKING:
    from tests.conformance.clients import Gateway

PATIENCE_S = 60
ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}
ENDS = ("final", "error", "aborted")


class Asking:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._ended: set[str] = set()
        self._events: list[dict[str, Any]] = []
        self.hello: dict[str, Any] = {}

    def send(self, method: str, params: dict[str, Any]) -> str:
        request_id = f"q{next(self._numbers)}"
        frame = {"type": "req", "id": request_id, "method": method, "params": params}
        self._socket.send(json.dumps(frame))
        return request_id

    def answer(self, request_id: str, answers: int = 1) -> dict[str, Any]:
        while True:
            found = self._next()
            if found["type"] == "res" and found["id"] == request_id:
                answers -= 1
                if not found["ok"] or answers == 0:
                    return found

    def ask(self, method: str, params: dict[str, Any], answers: int = 1) -> dict[str, Any]:
        return self.answer(self.send(method, params), answers)

    def get(self, method: str, params: dict[str, Any], answers: int = 1) -> Any:
        found = self.ask(method, params, answers)
        assert found["ok"], f"{method}: {found['error']}"
        return found["payload"]

    def event(self, name: str, **fields: Any) -> dict[str, Any]:
        """The payload of an event that has these fields; it may have come before."""
        while True:
            for frame in self._events:
                payload: dict[str, Any] = frame.get("payload") or {}
                if frame["event"] == name and fields.items() <= payload.items():
                    self._events.remove(frame)
                    return payload
            self._next()

    def until_ended(self, run_id: str) -> None:
        while run_id not in self._ended:
            self._next()

    def _next(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self._socket.recv(PATIENCE_S))
        payload = frame.get("payload") or {}
        if frame["type"] == "event":
            self._events.append(frame)
        if frame.get("event") == "chat" and payload["state"] in ENDS:
            self._ended.add(payload["runId"])
        return frame


@contextmanager
def dialled(gateway: "Gateway", **changes: Any) -> Generator[Asking]:
    """A client that is in, with the gateway's token."""
    with connect(gateway.url, proxy=None, max_size=None) as socket:
        socket.recv(PATIENCE_S)
        asking = Asking(socket)
        introduction = connect_params(auth={"token": gateway.token}, **changes)
        asking.hello = asking.get("connect", introduction)
        yield asking


@contextmanager
def knocked(
    gateway: "Gateway", device: SignedDevice, token: str | None = None
) -> Generator[tuple[Asking, dict[str, Any]]]:
    """A device that comes from elsewhere, and what it is answered."""
    with connect(gateway.url, proxy=None, max_size=None, additional_headers=ELSEWHERE) as socket:
        challenge = json.loads(socket.recv(PATIENCE_S))["payload"]
        params = connect_params(auth={"token": token or gateway.token}, scopes=["operator.read"])
        params["device"] = device.sign(params, challenge["nonce"], challenge["ts"], "v3")
        asking = Asking(socket)
        yield asking, asking.ask("connect", params)


def closing(stop: Callable[[], None], gateway: "Gateway") -> None:
    with dialled(gateway) as asking:
        stop()
        asking.event("shutdown")
