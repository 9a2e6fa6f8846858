"""A client in thirty lines: come in, say something, wait for the reply. `pip install websockets`."""

import json
import os
from itertools import chain
from typing import Any
from uuid import uuid4

from websockets.sync.client import connect

with connect(os.environ.get("GATEWAY", "ws://127.0.0.1:18789")) as socket:
    heard: list[Any] = []

    def receive() -> Any:
        return json.loads(socket.recv(timeout=120))

    def ask(method: str, params: dict[str, Any]) -> Any:
        request = {"type": "req", "id": str(uuid4()), "method": method, "params": params}
        socket.send(json.dumps(request))
        while (frame := receive()).get("id") != request["id"]:
            heard.append(frame)  # events may come before the answer
        return frame["payload"] if frame["ok"] else exit(frame["error"]["message"])

    receive()  # connect.challenge; only a device signs its nonce
    me = {"id": "gateway-client", "version": "1", "platform": "linux", "mode": "backend"}
    auth = {"token": os.environ["TOKEN"]}
    scopes = ["operator.read", "operator.write"]
    asked = {"minProtocol": 4, "maxProtocol": 4, "client": me, "scopes": scopes, "auth": auth}
    hello = ask("connect", asked)
    key = hello["snapshot"]["sessionDefaults"]["mainSessionKey"]
    said = {"sessionKey": key, "message": "say: Good day!", "idempotencyKey": str(uuid4())}
    run_id = ask("chat.send", said)["runId"]
    for frame in chain(heard, iter(receive, None)):
        event = frame["payload"] if frame.get("event") == "chat" else {}
        if event.get("runId") == run_id and event["state"] != "delta":
            break
    blocks = event.get("message", {}).get("content", [])
    print(event["state"], *(block["text"] for block in blocks if block["type"] == "text"))
