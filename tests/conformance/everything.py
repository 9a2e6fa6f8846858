"""A client of protocol 4 that asks for everything that is offered, so that all of it is on record."""

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from websockets.sync.client import ClientConnection, connect

if TYPE_CHECKING:
    from tests.conformance.clients import Gateway

KEY = "agent:main:everything"
PATIENCE_S = 60
SAID = [
    "say: hi",
    "fail: no light",
    "think: hm\ntool: sessions_list {}\nthen:\nsay: done",
    "long: 500",
    'tool: sessions_send {"agentId": "main", "message": "say: yes", "timeoutSeconds": 20}\nthen:\nsay: ok',
    "tool: nothing {}\nthen:\nsay: x",
    "cut: half",
]
READS: list[tuple[str, dict[str, Any]]] = [
    ("health", {}),
    ("status", {}),
    ("agents.list", {}),
    ("models.list", {}),
    ("channels.status", {}),
    ("system-presence", {}),
    ("config.get", {}),
    ("commands.list", {"agentId": "main", "scope": "text", "includeArgs": False}),
    ("agent.identity.get", {"sessionKey": KEY}),
    ("logs.tail", {"limit": 10}),
    ("chat.history", {"sessionKey": KEY}),
    ("sessions.list", {"limit": 200, "includeLastMessage": True}),
    ("sessions.resolve", {"key": KEY}),
    ("sessions.preview", {"keys": [KEY, "agent:main:nobody"]}),
    ("sessions.describe", {"key": KEY}),
    ("sessions.describe", {"key": "agent:main:nobody"}),
]
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("chat.inject", {"sessionKey": KEY, "message": "a note", "label": "note"}),
    (
        "sessions.patch",
        {"key": KEY, "label": "all", "thinkingLevel": "high", "sendPolicy": "allow"},
    ),
    ("sessions.describe", {"key": KEY}),
    ("sessions.send", {"sessionKey": KEY, "message": "say: sent", "timeoutSeconds": 20}),
    ("sessions.create", {"label": "made"}),
    ("sessions.reset", {"key": KEY}),
    ("sessions.list", {}),
    ("sessions.messages.unsubscribe", {"key": KEY}),
    ("sessions.delete", {"key": KEY}),
    ("sessions.delete", {"key": "agent:main:nobody"}),
    ("sessions.unsubscribe", {}),
]


class Asking:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._ended: set[str] = set()

    def ask(self, method: str, params: dict[str, Any], answers: int = 1) -> dict[str, Any]:
        request_id = f"q{next(self._numbers)}"
        frame = {"type": "req", "id": request_id, "method": method, "params": params}
        self._socket.send(json.dumps(frame))
        while True:
            found = self._next()
            if found["type"] == "res" and found["id"] == request_id:
                answers -= 1
                if not found["ok"] or answers == 0:
                    return found

    def get(self, method: str, params: dict[str, Any], answers: int = 1) -> Any:
        found = self.ask(method, params, answers)
        assert found["ok"], f"{method}: {found['error']}"
        return found["payload"]

    def say(self, words: str, *, wait: bool = True) -> str:
        run_id = f"everything-{next(self._numbers)}"
        self.get("chat.send", {"sessionKey": KEY, "message": words, "idempotencyKey": run_id})
        if wait:
            self.until_ended(run_id)
        return run_id

    def until_ended(self, run_id: str) -> None:
        while run_id not in self._ended:
            self._next()

    def _next(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self._socket.recv(PATIENCE_S))
        payload = frame.get("payload") or {}
        if frame.get("event") == "chat" and payload["state"] in ("final", "error", "aborted"):
            self._ended.add(payload["runId"])
        return frame


def everything(gateway: "Gateway") -> None:
    with connect(gateway.url, proxy=None, max_size=None) as socket:
        socket.recv(PATIENCE_S)
        asking = Asking(socket)
        hello = asking.get("connect", _introduction(gateway))
        asking.get("sessions.subscribe", {})
        asking.get("sessions.messages.subscribe", {"key": KEY})
        for words in SAID:
            asking.say(words)
        _stop_some(asking)
        work = {"message": "say: a", "idempotencyKey": "everything-agent", "agentId": "main"}
        asking.get("agent", work, answers=2)
        asking.get("agent.wait", {"runId": "everything-agent", "timeoutMs": 10})
        for method, params in (*READS, *CHANGES):
            asking.get(method, params)
        for method in hello["features"]["methods"]:
            assert not asking.ask(method, {"no method has this": 1})["ok"], method
        assert not asking.ask("no.such.method", {})["ok"]


def _stop_some(asking: Asking) -> None:
    run_id = asking.say("wait: 60", wait=False)
    asking.get("chat.abort", {"sessionKey": KEY, "runId": run_id})
    asking.until_ended(run_id)
    run_id = asking.say("wait: 60", wait=False)
    asking.get("sessions.abort", {"key": KEY})
    asking.until_ended(run_id)


def _introduction(gateway: "Gateway") -> dict[str, Any]:
    return {
        "minProtocol": 4,
        "maxProtocol": 4,
        "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
        "role": "operator",
        "scopes": ["operator.admin"],
        "caps": ["tool-events"],
        "auth": {"token": gateway.token},
    }
