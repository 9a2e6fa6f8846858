"""Recorded frames of protocol 4 against OpenClaw's published definitions."""

import json
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.conformance.recording import Recorded

RESULTS = {
    "connect": "HelloOk",
    "agents.list": "AgentsListResult",
    "models.list": "ModelsListResult",
    "channels.status": "ChannelsStatusResult",
    "sessions.resolve": "SessionsResolveResult",
    "sessions.delete": "SessionsDeleteResult",
    "commands.list": "CommandsListResult",
    "logs.tail": "LogsTailResult",
    "agent.identity.get": "AgentIdentityResult",
}
ROWS = {"sessions.list": "SessionRow", "system-presence": "PresenceEntry"}
EVENTS = {"agent": "AgentEvent", "tick": "TickEvent", "shutdown": "ShutdownEvent"}
CHATS = {
    "delta": "ChatDeltaEvent",
    "final": "ChatFinalEvent",
    "error": "ChatErrorEvent",
    "aborted": "ChatAbortedEvent",
    "status": "ChatStatusEvent",
}
# A running OpenClaw sends these beside what is published, and its clients read them.
ALSO_SENT = {
    ("HelloOk", "auth"): {"method"},
    ("AgentEvent", ""): {"sessionKey", "agentId"},
}


class Published:
    def __init__(self, schema: Path) -> None:
        self._definitions = json.loads(schema.read_text("utf-8"))["definitions"]
        self._validator = lru_cache(None)(self._make_validator)
        self.checked: Counter[str] = Counter()
        self.violations: Counter[tuple[str, str, str]] = Counter()

    def _make_validator(self, name: str) -> Draft202012Validator:
        return Draft202012Validator(
            {"$ref": f"#/definitions/{name}", "definitions": self._definitions}
        )

    def check(self, name: str, value: Any) -> None:
        self.checked[name] += 1
        for error in self._validator(name).iter_errors(value):
            place = "/".join("*" if isinstance(p, int) else str(p) for p in error.absolute_path)
            also = ALSO_SENT.get((name, place), set())
            if error.validator == "additionalProperties" and set(error.instance) <= also | set(
                error.schema["properties"]
            ):
                continue
            self.violations[name, place, error.message[:200]] += 1

    def check_frames(self, frames: Iterable[Recorded]) -> None:
        asked: dict[tuple[int, str], str] = {}
        modern: set[int] = set()
        for number, from_gateway, frame in frames:
            if not from_gateway:
                if frame.get("type") == "req":
                    asked[number, frame["id"]] = frame["method"]
                    if frame["method"] == "connect" and frame["params"]["maxProtocol"] >= 4:
                        modern.add(number)
            elif number in modern and frame["type"] == "res":
                self._check_response(frame, asked.get((number, frame["id"])))
            elif number in modern:
                self._check_event(frame)

    def _check_response(self, frame: dict[str, Any], method: str | None) -> None:
        self.check("ResponseFrame", frame)
        if method is None:
            self.violations["ResponseFrame", "id", "an answer without a request"] += 1
        elif not frame["ok"]:
            self.check("ErrorShape", frame["error"])
        elif method in RESULTS:
            self.check(RESULTS[method], frame["payload"])
        elif method in ROWS:
            payload = frame["payload"]
            for row in payload if isinstance(payload, list) else payload["sessions"]:
                self.check(ROWS[method], row)
        elif method == "sessions.describe" and frame["payload"]["session"]:
            self.check("SessionRow", frame["payload"]["session"])

    def _check_event(self, frame: dict[str, Any]) -> None:
        self.check("EventFrame", frame)
        name, payload = frame["event"], frame.get("payload")
        if name in EVENTS:
            self.check(EVENTS[name], payload)
        elif name == "chat" and payload is not None:
            self.check("ChatEvent", payload)
            self.check(CHATS[payload["state"]], payload)
        elif name == "presence" and payload is not None:
            for entry in payload["presence"]:
                self.check("PresenceEntry", entry)


def gaps(frames: Iterable[Recorded]) -> list[str]:
    """Where `seq` did not grow by exactly one."""
    last: Counter[int] = Counter()
    found = []
    for number, from_gateway, frame in frames:
        if from_gateway and "seq" in frame:
            if frame["seq"] != last[number] + 1:
                found.append(f"connection {number}: {last[number]} → {frame['seq']}")
            last[number] = frame["seq"]
    return found
