"""Coming in over a real socket."""

import time
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from crossclaw.config.gateway import ControlUi, GatewayConfig
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import secret_digests
from crossclaw.gateway.limits import GatewayLimits
from tests.wire.serving import SignedDevice, connect_params, dial, guest, open_server


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_hello_has_what_clients_need(protocol: int) -> None:
    async with open_server() as served, guest(served, protocol) as peer:
        hello = peer.hello

    assert (hello["type"], hello["protocol"]) == ("hello-ok", protocol)
    assert hello["server"]["version"] == "9.9"
    assert hello["server"]["connId"]
    assert "echo" in hello["features"]["methods"]
    assert {"chat", "agent", "tick", "shutdown"} <= set(hello["features"]["events"])
    assert hello["policy"] == {
        "maxPayload": 524_288 if protocol == 3 else 26_214_400,
        "maxBufferedBytes": 1_572_864 if protocol == 3 else 16_777_216,
        "tickIntervalMs": 30_000,
    }
    snapshot = hello["snapshot"]
    assert snapshot["health"]["ok"] is True
    assert isinstance(snapshot["uptimeMs"], int)
    assert snapshot["presence"][0]["mode"] == "gateway"
    assert all(isinstance(snapshot["stateVersion"][name], int) for name in ("presence", "health"))
    assert snapshot["sessionDefaults"] == {
        "defaultAgentId": "main",
        "mainKey": "main",
        "mainSessionKey": "agent:main:main",
        "scope": "per-sender",
    }
    if protocol == 3:
        assert "auth" not in hello
        assert "capabilities" not in hello["features"]
    else:
        assert hello["features"]["capabilities"] == ["published-model-catalog"]
        assert hello["auth"] == {
            "method": "token",
            "role": "operator",
            "scopes": ["operator.admin"],
        }


@pytest.mark.spec("G1")
@pytest.mark.parametrize("path", ["/", "/gateway", "/any/path?x=1"])
async def test_any_path_is_a_websocket(path: str) -> None:
    async with open_server() as served, dial(served, path) as peer:
        challenge = await peer.next()

    assert challenge["event"] == "connect.challenge"
    assert isinstance(challenge["payload"]["ts"], int)
    assert "seq" not in challenge


@pytest.mark.spec("G1")
async def test_a_wrong_token_is_answered_and_closed() -> None:
    async with open_server() as served, dial(served) as peer:
        answer = await peer.ask("connect", connect_params(auth={"token": "wrong"}))

        assert answer["ok"] is False
        assert answer["error"]["code"] == "INVALID_REQUEST"
        assert "unauthorized" in answer["error"]["message"]
        assert (await peer.closed())[0] == 1008


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize(("protocol", "version"), [(3, "v2"), (4, "v2"), (4, "v3")])
async def test_a_device_signs_the_challenge(protocol: int, version: str) -> None:
    async with open_server() as served, dial(served) as peer:
        challenge = (await peer.next())["payload"]
        params = connect_params(protocol)
        params["device"] = SignedDevice().sign(params, challenge["nonce"], challenge["ts"], version)

        assert (await peer.ask("connect", params))["ok"]


async def test_a_signature_of_an_earlier_challenge_is_refused() -> None:
    async with open_server() as served:
        async with dial(served) as earlier:
            nonce = (await earlier.next())["payload"]["nonce"]
        async with dial(served) as peer:
            ts = (await peer.next())["payload"]["ts"]
            params = connect_params()
            params["device"] = SignedDevice().sign(params, nonce, ts, "v3")
            answer = await peer.ask("connect", params)

            assert answer["error"]["message"] == "device nonce mismatch"
            assert await peer.closed() == (1008, "device nonce mismatch")


async def test_who_says_nothing_is_sent_away() -> None:
    limits = GatewayLimits(handshake_time_s=0.05)
    async with open_server(limits=limits) as served, dial(served) as peer:
        assert await peer.closed() == (1000, "handshake timeout")


async def test_who_is_in_may_stay_silent() -> None:
    limits = GatewayLimits(handshake_time_s=0.1)
    async with open_server(limits=limits) as served, guest(served) as peer:
        await anyio.sleep(0.2)
        assert (await peer.ask("echo", {"text": "still here"}))["ok"]


async def test_a_large_frame_before_connect_is_cut_off() -> None:
    async with open_server() as served, dial(served) as peer:
        await peer.socket.send("x" * 20_000)

        assert (await peer.closed())[0] == 1009


@pytest.mark.parametrize(("protocol", "allowed"), [(3, False), (4, True)])
async def test_frames_may_be_as_large_as_hello_says(protocol: int, allowed: bool) -> None:
    async with open_server() as served, guest(served, protocol) as peer:
        request = await peer.send("echo", {"text": "x" * 600_000})
        if allowed:
            assert len((await peer.answer(request))["payload"]["text"]) == 600_000
        else:
            assert (await peer.closed())[0] == 1009


@pytest.mark.spec("G4")
async def test_our_own_page_comes_in_and_a_foreign_one_does_not() -> None:
    settings = GatewayConfig(control_ui=ControlUi(allowed_origins=("https://page.example",)))
    async with open_server(settings=settings) as served:
        for origin in (f"http://127.0.0.1:{served.port}", "https://page.example"):
            async with dial(served, Origin=origin) as peer:
                assert (await peer.ask("connect", connect_params(3)))["ok"]
        with pytest.raises(InvalidStatus) as refused:
            async with connect(served.url, origin="http://evil.test", proxy=None):  # type: ignore[arg-type]
                pass

    assert refused.value.response.status_code == 403


async def test_a_name_that_is_not_ours_is_refused_at_the_upgrade() -> None:
    async with open_server() as served:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(
                "ws://evil.test:18789", host="127.0.0.1", port=served.port, proxy=None
            ):
                pass

    assert refused.value.response.status_code == 421


async def test_new_secrets_send_everybody_away() -> None:
    async with open_server() as served, guest(served) as peer, guest(served, 3) as other:
        began = time.monotonic()
        served.server.rotate({"gateway": secret_digests(Secret("n" * 43))})

        assert (await peer.closed())[0] == (await other.closed())[0] == 1008
        assert time.monotonic() - began < 1
        async with dial(served) as again:
            assert not (await again.ask("connect", connect_params()))["ok"]


async def test_presence_names_who_is_here() -> None:
    async with open_server() as served:
        client = {"id": "webchat-ui", "version": "1", "platform": "browser", "mode": "webchat"}
        async with guest(served, 3, client=client) as page:
            mine = await page.event("presence")
            async with guest(served, scopes=["operator.read"]):
                theirs = await page.event("presence")

    def modes(frame: dict[str, Any]) -> list[str]:
        return [entry["mode"] for entry in frame["payload"]["presence"]]

    assert modes(mine) == ["gateway", "webchat"]
    assert modes(theirs) == ["gateway", "cli", "webchat"]
    assert theirs["stateVersion"]["presence"] > mine["stateVersion"]["presence"]
    assert theirs["payload"]["presence"][1]["scopes"] == ["operator.read"]
