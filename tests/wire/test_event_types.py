"""What is really sent is what `crossclaw protocol schema` promises."""

from pathlib import Path

import msgspec
import pytest

from crossclaw.gateway.event_types import EVENT_TYPES
from tests.wire.served_gateway import serve_gateway
from tests.wire.serving import SignedDevice, connect_params, dial


@pytest.mark.spec("G1", "G2")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_every_event_that_is_sent_is_of_its_type(tmp_path: Path, protocol: int) -> None:
    async with (
        serve_gateway(tmp_path) as served_gateway,
        dial(served_gateway) as peer,
        dial(served_gateway, X_Forwarded_For="203.0.113.7") as phone,
    ):
        challenge = await peer.next()
        params = connect_params(protocol, caps=["tool-events"])
        assert (await peer.ask("connect", params))["ok"]
        await peer.ask("sessions.subscribe", {})
        await peer.ask("sessions.messages.subscribe", {"key": "agent:main:main"})
        for number, words in enumerate(
            ("say: Look.\ntool: sessions_list {}\nthen:\nsay: Seen.", "fail: no luck", "/help")
        ):
            run_id = f"r{number}"
            send = {"sessionKey": "main", "message": words, "idempotencyKey": run_id}
            await peer.ask("chat.send", send)
            await peer.ask("agent.wait", {"runId": run_id})
        job = {
            "name": "later",
            "schedule": {"kind": "every", "everyMs": 3_600_000},
            "sessionTarget": "main",
            "payload": {"kind": "systemEvent", "text": "look"},
        }
        assert (await peer.ask("cron.add", job))["ok"]
        nonce = (await phone.next())["payload"]
        asked = connect_params()
        asked["device"] = SignedDevice().sign(asked, nonce["nonce"], nonce["ts"], "v3")
        refused = (await phone.ask("connect", asked))["error"]["details"]
        await peer.ask("device.pair.reject", {"requestId": refused["requestId"]})
        frames = [challenge, *peer.events]

    seen = {}
    for frame in frames:
        if frame["type"] == "event":
            seen[frame["event"]] = msgspec.convert(
                frame["payload"], EVENT_TYPES[frame["event"]][0], strict=True
            )
    assert {
        "connect.challenge", "agent", "chat", "session.message", "sessions.changed", "cron",
        "health", "device.pair.requested", "device.pair.resolved",
    } <= set(seen)  # fmt: skip
