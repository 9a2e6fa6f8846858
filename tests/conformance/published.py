"""Recorded frames of protocol 4 against OpenClaw's published definitions."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.conformance.recording import Recorded

# Definitions whose names do not follow from their method's.
RESULTS = {
    "connect": "HelloOk",
    "agent.identity.get": "AgentIdentityResult",
    "config.schema": "ConfigSchemaResponse",
    "cron.update": "CronJob",
}
ROWS = {
    "sessions.list": ("sessions", "SessionRow"),
    "system-presence": (None, "PresenceEntry"),
    "cron.list": ("jobs", "CronJob"),
    "cron.runs": ("entries", "CronRunLogEntry"),
}
EVENTS = {
    "agent": "AgentEvent",
    "tick": "TickEvent",
    "shutdown": "ShutdownEvent",
    "node.invoke.request": "NodeInvokeRequestEvent",
    "device.pair.requested": "DevicePairRequestedEvent",
    "device.pair.resolved": "DevicePairResolvedEvent",
}
NO_APPROVAL = "no command waits for a yes here"
WOULD_OPEN_ANEW = "a changed config opens the gateway anew under the others"
NOT_ASKED = {
    "send": "no chat channel is set up",
    "chat.pairing.approve": "no chat channel is set up, so nobody asks",
    "chat.pairing.deny": "no chat channel is set up, so nobody asks",
    "chat.pairing.remove": "no chat channel is set up, so nobody was approved",
    "channels.start": "no chat channel is set up",
    "channels.logout": "answers with what to do instead",
    "web.login.start": "answers with what to do instead",
    "web.login.wait": "answers with what to do instead",
    "rehearsals.play": "starts a program; tests/browser/test_rehearsals.py does",
    "deliveries.delivered": "no chat channel is set up, so no delivery is uncertain",
    "deliveries.resend": "no chat channel is set up, so no delivery is uncertain",
    "deliveries.wait": "no chat channel is set up, so nothing is sent",
    "exec.approval.get": NO_APPROVAL,
    "exec.approval.resolve": NO_APPROVAL,
    "exec.approval.waitDecision": NO_APPROVAL,
    "approvals.revoke": NO_APPROVAL,
    "event exec.approval.requested": NO_APPROVAL,
    "event exec.approval.resolved": NO_APPROVAL,
    "agents.create": WOULD_OPEN_ANEW,
    "agents.update": WOULD_OPEN_ANEW,
    "agents.delete": WOULD_OPEN_ANEW,
    "agents.files.set": "files.get shows the same shape",
    "models.key.set": "no model service is set up",
    "models.key.remove": "no model service is set up",
    "models.service.set": WOULD_OPEN_ANEW,
    "gateways.drain": "this gateway has its ledger for itself",
    "gateway.stop": "the others are still being listened to",
    "mcp.agree": "no MCP server is set up whose tools could have changed",
}
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


def modern(frames: Iterable[Recorded]) -> set[int]:
    """The connections of protocol 4."""
    return {
        number
        for number, from_gateway, frame in frames
        if not from_gateway
        and frame.get("method") == "connect"
        and frame["params"]["maxProtocol"] >= 4
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

    def check_frames(self, frames: Sequence[Recorded]) -> None:
        asked: dict[tuple[int, str], str] = {}
        connections = modern(frames)
        for number, from_gateway, frame in frames:
            if number not in connections:
                continue
            if not from_gateway:
                asked[number, frame["id"]] = frame["method"]
            elif frame["type"] == "res":
                self._check_response(frame, asked.get((number, frame["id"])))
            else:
                self._check_event(frame)

    def result_of(self, method: str) -> str | None:
        """`sessions.delete` → `SessionsDeleteResult`, where that is published."""
        name = "".join(part[:1].upper() + part[1:] for part in method.split(".")) + "Result"
        return RESULTS.get(method, name if name in self._definitions else None)

    def _check_response(self, frame: dict[str, Any], method: str | None) -> None:
        self.check("ResponseFrame", frame)
        if method is None:
            self.violations["ResponseFrame", "id", "an answer without a request"] += 1
        elif not frame["ok"]:
            self.check("ErrorShape", frame["error"])
        elif (definition := self.result_of(method)) is not None:
            self.check(definition, frame["payload"])
        elif method in ROWS:
            field, definition = ROWS[method]
            for row in frame["payload"][field] if field else frame["payload"]:
                self.check(definition, row)
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


def unseen(frames: Sequence[Recorded]) -> list[str]:
    """Offered on protocol 4 and not on record: methods without an answer, events that never came."""
    connections = modern(frames)
    asked: dict[tuple[int, str], str] = {}
    offered, seen = set[str](), set(NOT_ASKED)
    for number, from_gateway, frame in frames:
        if number not in connections:
            continue
        if not from_gateway:
            asked[number, frame["id"]] = frame["method"]
        elif frame["type"] == "event":
            seen.add(f"event {frame['event']}")
        elif frame["ok"]:
            method = asked[number, frame["id"]]
            seen.add(method)
            if method == "connect":
                features = frame["payload"]["features"]
                offered.update(features["methods"], (f"event {n}" for n in features["events"]))
    return sorted(offered - seen)


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
