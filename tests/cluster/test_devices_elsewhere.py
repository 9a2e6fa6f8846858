"""Devices, and everybody else who is connected, seen and used through a gateway that they are not connected to."""

import anyio
import pytest

from tests.cluster.linked import Linked, until
from tests.flows.talking import call
from tests.wire.serving import SignedDevice, guest
from tests.wire.test_nodes import PHONE
from tests.wire.test_pairing import knocking, request_of

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
SNAP = {"nodeId": "phone", "command": "camera.snap", "idempotencyKey": "k1"}


@pytest.mark.spec("G2", "K3")
async def test_a_device_of_one_gateway_is_listed_and_asked_through_the_other(
    pair: tuple[Linked, Linked],
) -> None:
    a, b = pair
    async with guest(a) as person, guest(b, **PHONE) as phone:
        await until(lambda: "phone" in a.gateway.neighbours.nodes())
        (node,) = (await person.ask("node.list"))["payload"]["nodes"]
        shown = (await person.ask("node.describe", {"nodeId": "phone"}))["payload"]
        assert (node["nodeId"], shown["commands"]) == ("phone", ["camera.snap"])
        asked = await person.send("node.invoke", {**SNAP, "params": {"zoom": 2}})
        request = (await phone.event("node.invoke.request"))["payload"]
        assert (request["command"], request["paramsJSON"]) == ("camera.snap", '{"zoom":2}')
        result = {"id": request["id"], "nodeId": "phone", "ok": True, "payloadJSON": '{"file":"a"}'}
        await phone.ask("node.invoke.result", result)
        answer = (await person.answer(asked))["payload"]
        assert (answer["nodeId"], answer["payload"]) == ("phone", {"file": "a"})

        asked = await person.send("node.invoke", SNAP)
        request = (await phone.event("node.invoke.request"))["payload"]
        failed = {"id": request["id"], "nodeId": "phone", "ok": False, "error": {"message": "dark"}}
        await phone.ask("node.invoke.result", failed)
        assert (await person.answer(asked))["error"]["message"] == "dark"
        other = await person.ask("node.invoke", {**SNAP, "command": "system.run"})
        assert "offers camera.snap" in other["error"]["message"]
        slow = await person.ask("node.invoke", {**SNAP, "timeoutMs": 20})
        assert "did not answer within 20 ms" in slow["error"]["message"]
    await until(lambda: not a.gateway.neighbours.nodes())
    async with guest(a) as person:
        gone = await person.ask("node.invoke", SNAP)
        assert gone["error"]["details"]["code"] == "NOT_CONNECTED"


@pytest.mark.spec("K3")
async def test_a_gateway_that_ends_while_its_device_is_asked_is_named_and_nothing_is_asked_twice(
    pair: tuple[Linked, Linked],
) -> None:
    a, b = pair
    async with guest(a) as person, guest(b, **PHONE) as phone:
        await until(lambda: "phone" in a.gateway.neighbours.nodes())
        asked = await person.send("node.invoke", SNAP)
        await phone.event("node.invoke.request")
        b.cut()
        error = (await person.answer(asked))["error"]
        assert "gateway b was asked" in error["message"]
        assert "not known whether it was done" in error["message"]
        code, _reason = await phone.closed()
        assert code == 1012
        assert all(each.get("event") != "node.invoke.request" for each in phone.events)
        gone = (await person.ask("node.invoke", SNAP))["error"]
        assert "cannot be reached, so nothing was done" in gone["message"] or (
            gone["details"]["code"] == "NOT_CONNECTED"
        )


@pytest.mark.spec("G1", "B3")
async def test_a_device_that_asks_at_one_gateway_is_let_in_and_sent_away_by_the_other(
    pair: tuple[Linked, Linked],
) -> None:
    a, b = pair
    device = SignedDevice()
    node = {**PHONE, "commands": ["camera.snap"]}
    async with guest(a) as owner:
        request_id = await request_of(b, device, **node)
        told = (await owner.event("device.pair.requested"))["payload"]
        assert (told["requestId"], told["deviceId"]) == (request_id, device.id)
        assert (await owner.ask("device.pair.approve", {"requestId": request_id}))["ok"]
        await until(lambda: b.gateway.pairings.find(device.id, "node") is not None)
        async with knocking(b, device, **node) as (phone, answer):
            assert answer["ok"], answer
            await until(lambda: device.id in a.gateway.neighbours.nodes())
            (shown,) = (await owner.ask("device.pair.list", {}))["payload"]["paired"]
            assert shown["connected"]
            revoked = {"deviceId": device.id, "role": "node"}
            assert (await owner.ask("device.token.revoke", revoked))["ok"]
            code, _why = await phone.closed()
            assert code == 1008
        await until(lambda: device.id not in a.gateway.neighbours.nodes())
        second = await request_of(b, device, **node)
        assert (await owner.event("device.pair.requested"))["payload"]["requestId"] == second
        async with guest(b) as other:
            await other.ask("device.pair.reject", {"requestId": second})
        while (await owner.event("device.pair.resolved"))["payload"]["requestId"] != second:
            pass


@pytest.mark.spec("G2")
async def test_presence_shows_the_clients_of_all_gateways(pair: tuple[Linked, Linked]) -> None:
    a, b = pair
    named = {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"}
    async with guest(a, client={**named, "displayName": "ana"}) as ana:
        await ana.ask("sessions.subscribe", {})  # who follows all sessions is told who is here
        async with guest(b, client={**named, "displayName": "bob"}):
            await until(lambda: any(e["host"] == "bob" for e in a.gateway.neighbours.presence()))
            shown = (await ana.ask("system-presence"))["payload"]
            assert [each["host"] for each in shown] == ["gateway", "ana", "b", "bob"]
            assert shown[2]["text"].startswith("Gateway b: crossclaw")
            told = await call(b.gateway, "system-presence")
            assert {each["host"] for each in told} == {"gateway", "ana", "a", "bob"}
            async with guest(a) as late:
                hosts = [each["host"] for each in late.hello["snapshot"]["presence"]]
                assert "bob" in hosts

        def is_gone() -> bool:
            return all(each["host"] != "bob" for each in a.gateway.neighbours.presence())

        await until(is_gone)
        assert "bob" not in str((await ana.ask("system-presence"))["payload"])
        with anyio.fail_after(5):  # and whoever looks is told
            while "bob" in str((await ana.event("presence"))["payload"]):
                pass
