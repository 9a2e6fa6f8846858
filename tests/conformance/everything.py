"""Everything that is offered on protocol 4 is asked for once and answered, so that all of it is on record."""

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.conformance.asking import Asking, dialled, knocked
from tests.wire.serving import SignedDevice

if TYPE_CHECKING:
    from tests.conformance.clients import Gateway

KEY = "agent:main:everything"
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
    ("agents.prompt", {"agentId": "main"}),
    ("mcp.held", {}),
    ("attention.list", {}),
    ("figures.get", {"by": "agent"}),
    ("rehearsals.list", {}),
    ("exec.approval.list", {}),
    ("approvals.allowed", {}),
    ("guests.list", {}),
    ("models.list", {}),
    ("agents.files.list", {"agentId": "main"}),
    ("agents.files.get", {"agentId": "main", "name": "SOUL.md"}),
    ("models.test", {"model": "rehearsal/rehearsal"}),
    ("channels.status", {}),
    ("chat.pairing.list", {}),
    ("system-presence", {}),
    ("config.get", {}),
    ("config.schema", {}),
    ("last-heartbeat", {}),
    ("commands.list", {"agentId": "main", "scope": "text", "includeArgs": False}),
    ("agent.identity.get", {"sessionKey": KEY}),
    ("logs.tail", {"limit": 10}),
    ("chat.history", {"sessionKey": KEY}),
    ("sessions.list", {"limit": 200, "includeLastMessage": True}),
    ("sessions.resolve", {"key": KEY}),
    ("sessions.preview", {"keys": [KEY, "agent:main:nobody"]}),
    ("sessions.describe", {"key": KEY}),
    ("sessions.describe", {"key": "agent:main:nobody"}),
    ("sessions.search", {"query": "done"}),
    ("sessions.entries.search", {"query": "done"}),
    ("sessions.entries", {"key": KEY}),
    ("sessions.transcripts", {"key": KEY}),
    ("sessions.table", {}),
    ("sessions.explain", {"from": KEY, "verb": "send", "to": "agent:main:main"}),
    ("map.get", {}),
    ("runs.trace", {"runId": "everything-agent"}),
    ("trace.get", {"id": "everything-agent"}),
    ("trace.export", {"id": "everything-agent"}),
    ("display.render", {"items": [{"id": "1", "markdown": "*hi*"}]}),
]
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("runs.retry", {"runId": "everything-2"}),
    ("chat.inject", {"sessionKey": KEY, "message": "a note", "label": "note"}),
    (
        "sessions.patch",
        {"key": KEY, "label": "all", "thinkingLevel": "high", "sendPolicy": "allow"},
    ),
    ("sessions.describe", {"key": KEY}),
    ("sessions.send", {"sessionKey": KEY, "message": "say: sent", "timeoutSeconds": 20}),
    ("sessions.pin", {"key": KEY}),
    ("sessions.compact", {"key": KEY}),
    ("sessions.fork", {"sessionKey": KEY}),
    ("sessions.create", {"label": "made"}),
    ("sessions.cleanup", {}),
    ("sessions.reset", {"key": KEY}),
    ("sessions.list", {}),
    ("sessions.messages.unsubscribe", {"key": KEY}),
    ("sessions.archive", {"key": KEY}),
    ("sessions.unarchive", {"key": KEY}),
    ("sessions.delete", {"key": KEY}),
    ("sessions.delete", {"key": "agent:main:nobody"}),
    ("set-heartbeats", {"enabled": False}),
    ("set-heartbeats", {"enabled": True}),
    ("system-event", {"text": "the lamp is lit"}),
    ("wake", {"text": "good morning", "mode": "next-heartbeat"}),
    ("attention.dismiss", {"ids": ["run:nobody"]}),
    ("guests.add", {"name": "for the record"}),
    ("guests.remove", {"name": "for the record"}),
    ("gateways.list", {}),
]
JOB = {
    "name": "now and then",
    "description": "for the record",
    "schedule": {"kind": "every", "everyMs": 3_600_000},
    "payload": {"kind": "agentTurn", "message": "say: ticked"},
    "sessionTarget": "isolated",
    "wakeMode": "now",
}
OTHER_JOBS = [
    {
        "name": "at dawn",
        "schedule": {"kind": "cron", "expr": "0 6 * * *", "tz": "Europe/Madrid"},
        "payload": {"kind": "systemEvent", "text": "dawn"},
        "sessionTarget": "main",
        "wakeMode": "next-heartbeat",
    },
    {
        "name": "once",
        "schedule": {"kind": "at", "at": "2099-01-01T00:00:00Z"},
        "payload": {"kind": "agentTurn", "message": "say: late"},
        "delivery": {"mode": "none", "to": "-100", "accountId": "work", "threadId": 7},
    },
]
NODE: dict[str, Any] = {
    "client": {"id": "node-host", "version": "1", "platform": "ios", "mode": "node", "instanceId": "p"},
    "role": "node",
    "scopes": [],
    "commands": ["camera.snap"],
}  # fmt: skip


def everything(gateway: "Gateway") -> None:
    with dialled(gateway, caps=["tool-events"]) as asking:
        asking.get("sessions.subscribe", {})
        asking.get("sessions.messages.subscribe", {"key": KEY})
        _talk(asking)
        for method, params in (*READS, *CHANGES):
            asking.get(method, params)
        _look_at_an_exchange(asking)
        _spawn(asking)
        _jobs(asking)
        _settings(asking)
        _devices(gateway, asking)
        _nodes(gateway, asking)
        for method in asking.hello["features"]["methods"]:
            assert not asking.ask(method, {"no method has this": 1})["ok"], method
        assert not asking.ask("no.such.method", {})["ok"]
        for name in ("heartbeat", "health", "presence", "tick"):
            asking.event(name)
        asking.get("sessions.unsubscribe", {})


def _talk(asking: Asking) -> None:
    numbers = count(1)

    def say(words: str) -> str:
        run_id = f"everything-{next(numbers)}"
        asking.get("chat.send", {"sessionKey": KEY, "message": words, "idempotencyKey": run_id})
        return run_id

    for words in SAID:
        asking.until_ended(say(words))
    for method, key in (("chat.abort", "sessionKey"), ("sessions.abort", "key")):
        run_id = say("wait: 60")
        asking.get(method, {key: KEY, "runId": run_id})
        asking.until_ended(run_id)
    work = {"message": "say: a", "idempotencyKey": "everything-agent", "agentId": "main"}
    asking.get("agent", work, answers=2)
    asking.get("agent.wait", {"runId": "everything-agent", "timeoutMs": 10})


def _look_at_an_exchange(asking: Asking) -> None:
    first = asking.get("exchanges.list", {})["exchanges"][0]
    asking.get("exchanges.trace", {"id": first["id"]})


def _spawn(asking: Asking) -> None:
    child = asking.get("sessions.spawn", {"task": "say: grown", "label": "child"})
    asking.get("agent.wait", {"runId": child["runId"], "timeoutMs": 20_000})


def _jobs(asking: Asking) -> None:
    job = asking.get("cron.add", JOB)
    for other in OTHER_JOBS:
        asking.get("cron.add", other)
    asking.get("cron.run", {"id": job["id"], "mode": "force"})
    asking.event("cron", action="finished", jobId=job["id"])
    asking.get("cron.list", {"includeDisabled": True, "limit": 50, "offset": 0})
    asking.get("cron.runs", {"id": job["id"]})
    asking.get("cron.update", {"id": job["id"], "patch": {"enabled": False}})
    asking.get("cron.status", {})
    asking.get("cron.remove", {"id": job["id"]})


def _settings(asking: Asking) -> None:
    before = asking.get("config.get", {})
    asking.get(
        "config.patch", {"raw": "{ui: {assistant: {name: 'C'}}}", "baseHash": before["hash"]}
    )
    changed = asking.get("config.get", {})
    raw = json.dumps(before["parsed"])
    asking.get("config.set", {"raw": raw, "baseHash": changed["hash"]})
    now = asking.get("config.get", {})
    edit = {"raw": now["written"], "baseHash": now["hash"], "dryRun": True}
    asking.get("config.edit", edit)


def _devices(gateway: "Gateway", asking: Asking) -> None:
    welcome, stranger = SignedDevice(), SignedDevice()
    for device in (welcome, stranger):
        with knocked(gateway, device) as (_, refused):
            assert not refused["ok"]
    asking.get("device.pair.list", {})
    for device, method in ((welcome, "device.pair.approve"), (stranger, "device.pair.reject")):
        asked = asking.event("device.pair.requested", deviceId=device.id)
        asking.get(method, {"requestId": asked["requestId"]})
        asking.event("device.pair.resolved", deviceId=device.id)
    with knocked(gateway, welcome) as (_, answer):
        assert answer["ok"], answer
    one = {"deviceId": welcome.id, "role": "operator"}
    asking.get("device.token.rotate", one)
    asking.get("device.pair.list", {})
    asking.get("device.token.revoke", one)
    asking.get("device.pair.remove", {"deviceId": welcome.id})


def _nodes(gateway: "Gateway", asking: Asking) -> None:
    with dialled(gateway, **NODE) as node:
        (listed,) = asking.get("node.list", {})["nodes"]
        one = {"nodeId": listed["nodeId"]}
        asking.get("node.describe", one)
        call = {**one, "command": "camera.snap", "params": {"zoom": 2}, "idempotencyKey": "snap"}
        asked = asking.send("node.invoke", call)
        request = node.event("node.invoke.request")
        node.get(
            "node.invoke.result", {**one, "id": request["id"], "ok": True, "payload": {"a": 1}}
        )
        assert asking.answer(asked)["ok"]
        for name, body in (("voice.transcript", {"text": "say: heard"}), ("unheard.of", {})):
            node.get("node.event", {"event": name, "payload": body})
