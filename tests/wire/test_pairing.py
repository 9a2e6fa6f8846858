"""Devices from elsewhere: asked about, let in, and sent away again at once."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.wire.served_gateway import TOKEN, ServedGateway, serve_gateway
from tests.wire.serving import Peer, SignedDevice, connect_params, dial

READ, WRITE, ADMIN = "operator.read", "operator.write", "operator.admin"
PAIRING = "operator.pairing"


@asynccontextmanager
async def knocking(
    served_gateway: ServedGateway,
    device: SignedDevice | None = None,
    *,
    local: bool = False,
    token: str = TOKEN,
    protocol: int = 4,
    **changes: Any,
) -> AsyncGenerator[tuple[Peer, dict[str, Any]]]:
    """A peer with the answer to its `connect`. One from elsewhere comes through a proxy."""
    road = {} if local else {"X_Forwarded_For": "203.0.113.7"}
    async with dial(served_gateway, **road) as peer:
        challenge = (await peer.next())["payload"]
        params = connect_params(protocol, auth={"token": token}, **changes)
        if device is not None:
            version = "v2" if protocol == 3 else "v3"
            params["device"] = device.sign(params, challenge["nonce"], challenge["ts"], version)
        answer = await peer.ask("connect", params)
        yield peer, answer


async def request_of(served_gateway: ServedGateway, device: SignedDevice, **changes: Any) -> str:
    """The request that a device leaves behind when it is not let in."""
    async with knocking(served_gateway, device, **changes) as (peer, answer):
        error = answer["error"]
        assert (error["code"], error["details"]["code"]) == ("NOT_PAIRED", "PAIRING_REQUIRED")
        code, reason = await peer.closed()
    assert code == 1008
    assert reason.startswith("pairing required")
    return str(error["details"]["requestId"])


async def paired(served_gateway: ServedGateway, device: SignedDevice, **changes: Any) -> str:
    """Asked, approved and come in: answers its token."""
    request_id = await request_of(served_gateway, device, **changes)
    async with knocking(served_gateway) as (owner, _hello):
        assert (await owner.ask("device.pair.approve", {"requestId": request_id}))["ok"]
    async with knocking(served_gateway, device, **changes) as (_peer, answer):
        return str(answer["payload"]["auth"]["deviceToken"])


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_a_device_on_this_machine_is_let_in_and_then_needs_only_its_token(
    tmp_path: Path, protocol: int
) -> None:
    device = SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        async with knocking(served_gateway, device, local=True, protocol=protocol) as (
            _peer,
            answer,
        ):
            auth = answer["payload"]["auth"]
            assert (auth["role"], auth["scopes"]) == ("operator", [ADMIN])
            token = auth["deviceToken"]
        again = {"local": True, "protocol": protocol, "token": token}
        async with knocking(served_gateway, device, **again) as (peer, answer):
            assert answer["ok"]
            assert "deviceToken" not in answer["payload"].get("auth", {})
            if protocol == 4:
                assert answer["payload"]["auth"]["method"] == "device-token"
            assert (await peer.ask("sessions.list", {}))["ok"]


@pytest.mark.spec("B7")
@pytest.mark.parametrize(("label", "listed_as"), [("Let in", "paired"), ("Refuse", None)])
async def test_a_device_that_waits_needs_attention_and_its_buttons_answer_it(
    tmp_path: Path, label: str, listed_as: str | None
) -> None:
    device = SignedDevice()
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (owner, _hello),
    ):
        await request_of(served_gateway, device, scopes=[READ])
        (row,) = (await owner.ask("attention.list", {"kinds": ["device"]}))["payload"]["rows"]
        assert (row["what"].startswith("asks to be let in as operator"), row["why"]) == (True, READ)
        (action,) = (each for each in row["actions"] if each["label"] == label)
        assert (await owner.ask(action["method"], action["params"]))["ok"]
        after = (await owner.ask("attention.list", {"kinds": ["device"]}))["payload"]["rows"]
        listed = (await owner.ask("device.pair.list", {}))["payload"]
    assert after == listed["pending"] == []
    assert [each["deviceId"] for each in listed["paired"]] == [device.id] * (listed_as is not None)


@pytest.mark.spec("G1")
async def test_a_device_from_elsewhere_waits_for_a_yes(tmp_path: Path) -> None:
    device = SignedDevice()
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (owner, _hello),
    ):
        request_id = await request_of(served_gateway, device, scopes=[READ])
        asked = (await owner.event("device.pair.requested"))["payload"]
        assert (asked["requestId"], asked["deviceId"]) == (request_id, device.id)
        assert (asked["role"], asked["scopes"]) == ("operator", [READ])
        listed = (await owner.ask("device.pair.list", {}))["payload"]
        assert [each["requestId"] for each in listed["pending"]] == [request_id]
        assert listed["paired"] == []

        approved = (await owner.ask("device.pair.approve", {"requestId": request_id}))["payload"]
        assert approved["device"]["deviceId"] == device.id
        told = (await owner.event("device.pair.resolved"))["payload"]
        assert (told["requestId"], told["decision"]) == (request_id, "approved")
        async with knocking(served_gateway, device, scopes=[READ]) as (peer, answer):
            assert answer["payload"]["auth"]["scopes"] == [READ]
            token = answer["payload"]["auth"]["deviceToken"]
            assert (await peer.ask("health", {}))["ok"]
        async with knocking(served_gateway, device, token=token, scopes=[READ]) as (peer, answer):
            assert answer["ok"]
            refused = await peer.ask("sessions.create", {})
            assert refused["error"]["message"] == f"missing scope: {WRITE}"
        listed = (await owner.ask("device.pair.list", {}))["payload"]
        assert listed["pending"] == []
        (shown,) = listed["paired"]
        assert shown["tokens"][0]["lastUsedAtMs"] > 0
        assert token not in str(shown)


async def test_the_same_wish_is_one_request_and_a_wider_one_takes_its_place(tmp_path: Path) -> None:
    device = SignedDevice()
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (owner, _hello),
    ):
        first = await request_of(served_gateway, device, scopes=[READ])
        assert await request_of(served_gateway, device, scopes=[READ]) == first
        wider = await request_of(served_gateway, device, scopes=[WRITE])
        assert wider != first
        answer = await owner.ask("device.pair.approve", {"requestId": first})
        assert answer["error"]["message"] == "unknown requestId"
        listed = (await owner.ask("device.pair.list", {}))["payload"]
        assert [each["requestId"] for each in listed["pending"]] == [wider]


async def test_who_is_rejected_stays_outside(tmp_path: Path) -> None:
    device = SignedDevice()
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (owner, _hello),
    ):
        request_id = await request_of(served_gateway, device)
        rejected = (await owner.ask("device.pair.reject", {"requestId": request_id}))["payload"]
        assert rejected == {"requestId": request_id, "deviceId": device.id}
        told = (await owner.event("device.pair.resolved"))["payload"]
        assert told["decision"] == "rejected"
        assert await request_of(served_gateway, device) != request_id


@pytest.mark.parametrize("local", [True, False])
async def test_a_token_alone_does_not_widen_what_a_device_may(tmp_path: Path, local: bool) -> None:
    device = SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        token = await paired(served_gateway, device, scopes=[READ])
        wider: dict[str, Any] = {"token": token, "local": local}
        for changes in ({"scopes": [ADMIN]}, {"scopes": [READ, WRITE]}):
            request_id = await request_of(served_gateway, device, **wider, **changes)
        async with knocking(served_gateway, device, **wider, role="node", scopes=[]) as (
            _peer,
            answer,
        ):
            assert "unauthorized" in answer["error"]["message"]  # a token is for one role

        async with knocking(served_gateway) as (owner, _hello):
            assert (await owner.ask("device.pair.approve", {"requestId": request_id}))["ok"]
        async with knocking(served_gateway, device, **wider, scopes=[READ, WRITE]) as (
            _peer,
            answer,
        ):
            assert answer["payload"]["auth"]["scopes"] == [READ, WRITE]


async def test_another_role_needs_another_yes(tmp_path: Path) -> None:
    device = SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        await paired(served_gateway, device, scopes=[READ])
        async with knocking(served_gateway, device, role="node", scopes=[]) as (_peer, answer):
            assert answer["error"]["details"]["reason"] == "role-upgrade"


async def test_a_token_is_of_use_to_its_device_only(tmp_path: Path) -> None:
    device, thief = SignedDevice(), SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        token = await paired(served_gateway, device)
        for who in (thief, None):
            async with knocking(served_gateway, who, token=token) as (peer, answer):
                assert "unauthorized" in answer["error"]["message"]
                assert (await peer.closed())[0] == 1008


@pytest.mark.parametrize("spoilt", ["signature", "nonce", "key"])
async def test_the_right_token_does_not_help_a_wrong_signature(tmp_path: Path, spoilt: str) -> None:
    device, other = SignedDevice(), SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        token = await paired(served_gateway, device)
        async with dial(served_gateway) as earlier:
            old_nonce = (await earlier.next())["payload"]["nonce"]
        async with dial(served_gateway) as peer:
            challenge = (await peer.next())["payload"]
            params = connect_params(auth={"token": token})
            nonce = old_nonce if spoilt == "nonce" else challenge["nonce"]
            signer = other if spoilt == "signature" else device
            signed = signer.sign(params, nonce, challenge["ts"], "v3")
            key = other.public_key if spoilt == "key" else device.public_key
            params["device"] = {**signed, "id": device.id, "publicKey": key}
            answer = await peer.ask("connect", params)
            assert not answer["ok"]
            assert answer["error"]["message"].startswith("device ")
            assert (await peer.closed())[0] == 1008


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("method", "more"), [("device.pair.remove", {}), ("device.token.revoke", {"role": "operator"})]
)
async def test_who_is_sent_away_is_gone_at_once_with_all_it_asked_for(
    tmp_path: Path, method: str, more: dict[str, str]
) -> None:
    """Whether it came in with its token or with the gateway's secret."""
    device, other = SignedDevice(), SignedDevice()
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (owner, _hello),
    ):
        token = await paired(served_gateway, device)
        async with (
            knocking(served_gateway, device, token=token) as (one, _one),
            knocking(served_gateway, device) as (two, _two),
            knocking(served_gateway, other, local=True) as (bystander, _other),
        ):
            waiting = [
                await each.send("agent.wait", {"runId": "nobody", "timeoutMs": 60_000})
                for each in (one, two)
            ]
            assert (await one.ask("health", {}))["ok"]  # what was asked before is under way
            assert (await owner.ask(method, {"deviceId": device.id, **more}))["ok"]
            with anyio.fail_after(1):
                for each in (one, two):
                    assert (await each.closed())[0] == 1008
            answered = [frame.get("id") for each in (one, two) for frame in each.events]
            assert not set(waiting) & set(answered)
            assert (await bystander.ask("health", {}))["ok"]
        async with knocking(served_gateway, device, token=token) as (_peer, answer):
            assert "unauthorized" in answer["error"]["message"]


async def test_a_revoked_device_does_not_slip_in_again_from_this_machine(tmp_path: Path) -> None:
    device = SignedDevice()
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (owner, _hello),
    ):
        async with knocking(served_gateway, device, local=True) as (_peer, answer):
            assert answer["ok"]
        revoked = {"deviceId": device.id, "role": "operator"}
        assert (await owner.ask("device.token.revoke", revoked))["ok"]
        request_id = await request_of(served_gateway, device, local=True)
        assert (await owner.ask("device.pair.approve", {"requestId": request_id}))["ok"]
        async with knocking(served_gateway, device, local=True) as (_peer, answer):
            assert answer["payload"]["auth"]["deviceToken"]


async def test_a_device_that_removes_itself_is_told_so_and_closed(tmp_path: Path) -> None:
    device = SignedDevice()
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway, device, local=True) as (peer, _),
    ):
        assert (await peer.ask("device.pair.remove", {"deviceId": device.id}))["ok"]
        assert await peer.closed() == (1008, "device removed")


async def test_a_rotated_token_is_told_to_its_own_device_only(tmp_path: Path) -> None:
    device, other = SignedDevice(), SignedDevice()
    turn = {"deviceId": device.id, "role": "operator"}
    async with serve_gateway(tmp_path) as served_gateway:
        first = await paired(served_gateway, device)
        async with knocking(served_gateway, device, token=first) as (peer, _answer):
            told = (await peer.ask("device.token.rotate", turn))["payload"]
            assert told["tokenDelivery"] == "in-band"
            assert (await peer.closed())[0] == 1008
        async with knocking(served_gateway, device, token=first) as (_peer, answer):
            assert not answer["ok"]
        async with knocking(served_gateway, device, token=told["token"]) as (peer, answer):
            assert answer["ok"]
            async with knocking(served_gateway, other, local=True) as (stranger, _answer):
                withheld = (await stranger.ask("device.token.rotate", turn))["payload"]
            assert (withheld["tokenDelivery"], "token" in withheld) == (
                "withheld-cross-device",
                False,
            )
            assert (await peer.closed())[0] == 1008


async def test_a_device_without_admin_decides_about_itself_and_no_further(tmp_path: Path) -> None:
    small, other, third = SignedDevice(), SignedDevice(), SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        await paired(served_gateway, other)
        request_id = await request_of(served_gateway, third, scopes=[ADMIN])
        async with knocking(served_gateway, small, local=True, scopes=[PAIRING]) as (peer, _answer):
            listed = (await peer.ask("device.pair.list", {}))["payload"]
            assert [each["deviceId"] for each in listed["paired"]] == [small.id]
            assert listed["pending"] == []
            for method in ("device.pair.approve", "device.pair.reject"):
                answer = await peer.ask(method, {"requestId": request_id})
                assert answer["error"]["message"] == "unknown requestId"
            for method in ("device.pair.remove", "device.token.revoke", "device.token.rotate"):
                role = {} if method == "device.pair.remove" else {"role": "operator"}
                answer = await peer.ask(method, {"deviceId": other.id, **role})
                assert answer["error"]["code"] == "FORBIDDEN"
        async with knocking(served_gateway, scopes=[PAIRING]) as (clerk, _hello):
            answer = await clerk.ask("device.pair.approve", {"requestId": request_id})
            assert answer["error"]["message"] == f"missing scope: {ADMIN}"


@pytest.mark.spec("B1")
async def test_devices_outlive_a_restart_and_their_tokens_lie_nowhere(tmp_path: Path) -> None:
    device, waiting = SignedDevice(), SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        token = await paired(served_gateway, device)
        request_id = await request_of(served_gateway, waiting)
    async with serve_gateway(tmp_path) as served_gateway:
        async with knocking(served_gateway, device, token=token) as (peer, answer):
            assert answer["ok"]
            assert (await peer.ask("device.pair.approve", {"requestId": request_id}))["ok"]
        async with knocking(served_gateway, waiting) as (_peer, answer):
            assert answer["ok"]
    assert files_with(tmp_path, token) == []
    with sqlite3.connect(tmp_path / "state" / "crossclaw.sqlite") as store:
        decided = store.execute("SELECT count(*) FROM audit WHERE action LIKE 'device.%'")
        assert decided.fetchone() == (2,)


def files_with(folder: Path, text: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


async def test_a_token_lost_on_its_way_is_given_anew(tmp_path: Path) -> None:
    """A gateway or a client may die between the commit and the hello."""
    device = SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        lost = await paired(served_gateway, device)
        async with knocking(served_gateway, device) as (_peer, answer):
            kept = answer["payload"]["auth"]["deviceToken"]
        assert kept != lost
        async with knocking(served_gateway, device, token=kept) as (_peer, answer):
            assert answer["ok"]
        async with knocking(served_gateway, device) as (_peer, answer):
            assert "deviceToken" not in answer["payload"]["auth"]  # it has one, and has shown it
