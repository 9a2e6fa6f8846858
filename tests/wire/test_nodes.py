"""Nodes: devices that are asked by events, answer by calls, and speak in sessions of their own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw import app
from crossclaw.config import Config, Paths
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import GATEWAY, secret_digests
from crossclaw.gateway.server import Connected
from crossclaw.testing import ScriptedProvider
from crossclaw.testing.gateway import config_for
from tests.wire.served_gateway import serve_somewhere
from tests.wire.serving import TOKEN, guest

PHONE: dict[str, Any] = {
    "client": {
        "id": "node-host",
        "version": "1",
        "platform": "ios",
        "mode": "node",
        "instanceId": "phone",
    },
    "role": "node",
    "scopes": [],
    "caps": ["camera"],
    "commands": ["camera.snap"],
}

pytestmark = [pytest.mark.anyio, pytest.mark.spec("G2", "K3")]


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncGenerator[Any]:
    connected = Connected()
    provider = ScriptedProvider(lambda _: "heard")
    outside = app.GatewayInputs(
        environ={},
        providers={provider.name: provider},
        clients=connected.clients,
    )
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    config = config_for(provider, msgspec.convert({"gateway": settings}, Config))
    async with app.open_gateway(config, paths, outside) as gateway:
        server = app.build_server(
            config, outside, gateway, {GATEWAY: secret_digests(Secret(TOKEN))}
        )
        connected.begin(server.presence, server.clients)
        async with anyio.create_task_group() as tasks:
            port = await tasks.start(serve_somewhere, server)
            yield SimpleNamespace(gateway=gateway, url=f"ws://127.0.0.1:{port}")
            tasks.cancel_scope.cancel()


def heard(said: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "event": said["event"], "handled": True}


async def test_a_node_is_listed_asked_and_answers(tmp_path: Path) -> None:
    async with opened(tmp_path) as served, guest(served) as person, guest(served, **PHONE) as phone:
        listed = (await person.ask("node.list"))["payload"]
        (node,) = listed["nodes"]
        assert (node["nodeId"], node["commands"], node["connected"]) == (
            "phone",
            ["camera.snap"],
            True,
        )
        asked = await person.send("node.invoke", call(params={"zoom": 2}))
        request = (await phone.event("node.invoke.request"))["payload"]
        assert (request["command"], request["paramsJSON"]) == ("camera.snap", '{"zoom":2}')
        result = {"id": request["id"], "nodeId": "phone", "ok": True, "payloadJSON": '{"file":"a"}'}
        assert (await phone.ask("node.invoke.result", {**result, "nodeId": "other"}))["ok"] is False
        assert (await phone.ask("node.invoke.result", result))["payload"] == {"ok": True}
        answer = (await person.answer(asked))["payload"]
        assert (answer["payload"], answer["payloadJSON"]) == ({"file": "a"}, '{"file":"a"}')
        late = await phone.ask("node.invoke.result", result)
        assert late["payload"] == {"ok": True, "ignored": True}


async def test_what_cannot_be_asked_of_a_node_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as served, guest(served) as person:
        gone = await person.ask("node.invoke", call())
        assert gone["error"]["details"]["code"] == "NOT_CONNECTED"
        assert (
            "unknown nodeId"
            in (await person.ask("node.describe", {"nodeId": "x"}))["error"]["message"]
        )
        async with guest(served, **PHONE):
            assert (await person.ask("node.describe", {"nodeId": "phone"}))["payload"][
                "platform"
            ] == "ios"
            other = await person.ask("node.invoke", call(command="system.run"))
            assert "offers camera.snap" in other["error"]["message"]
            silent = await person.ask("node.invoke", call(timeoutMs=20))
            assert "did not answer" in silent["error"]["message"]


async def test_a_command_that_is_denied_reaches_no_node(tmp_path: Path) -> None:
    denied = {"denyCommands": ["camera.snap"]}
    async with (
        opened(tmp_path, nodes=denied) as served,
        guest(served) as person,
        guest(served, **PHONE),
    ):
        refused = await person.ask("node.invoke", call())
        assert "gateway.nodes.denyCommands" in refused["error"]["message"]


async def test_the_person_at_a_node_speaks_in_its_own_session(tmp_path: Path) -> None:
    bound = {"sessions": {"phone": ["main"]}}
    async with opened(tmp_path, nodes=bound) as served, guest(served, **PHONE) as phone:
        said = {"event": "voice.transcript", "payloadJSON": '{"text":"lights on"}'}
        assert (await phone.ask("node.event", said))["payload"] == heard(said)
        key = SessionKey.parse("node-phone")
        session = await served.gateway.ledger.find_session(key)
        assert session is not None
        assert session.key.kind == "node"
        (spoken,) = await served.gateway.ledger.list_entries(
            session.session_id, limit=1, notes=False
        )
        run = await served.gateway.ledger.find_run(spoken.run_id)
        assert run.authority.owner is False, "it is the owner's token, and nobody knows who speaks"
        told = {"event": "exec.finished", "payload": {"exitCode": 0}}
        assert (await phone.ask("node.event", told))["payload"] == heard(told)
        main = await served.gateway.ledger.find_session(SessionKey.main("main"))
        (entry,) = await served.gateway.ledger.list_entries(main.session_id, limit=5)
        assert entry.message.provenance.kind == "node"
        unknown = {
            "event": "voice.transcript",
            "payload": {"text": "x", "sessionKey": "agent:main:new"},
        }
        assert (await phone.ask("node.event", unknown))["ok"] is False
        weather = (await phone.ask("node.event", {"event": "weather"}))["payload"]
        assert (weather["ok"], weather["handled"]) == (True, False)


def speaking(text: str, key: str) -> dict[str, Any]:
    return {"event": "voice.transcript", "payload": {"text": text, "sessionKey": key}}


@pytest.mark.spec("B3", "V3")
async def test_a_node_neither_hears_of_nor_speaks_in_a_session_that_was_not_bound_to_it(
    tmp_path: Path,
) -> None:
    """A paired node subscribed to anybody's words, and spoke there as a person."""
    async with opened(tmp_path) as served, guest(served) as person, guest(served, **PHONE) as phone:
        said = {"sessionKey": "main", "message": "the secret", "idempotencyKey": "r1"}
        await person.ask("chat.send", said)
        await served.gateway.run_store.wait("r1")
        unknown = "unknown session: main"
        assert unknown in refused(await phone.ask("node.event", speaking("hello", "main")))
        hear = {"event": "chat.subscribe", "payload": {"sessionKey": "main"}}
        assert unknown in refused(await phone.ask("node.event", hear))
        told = {"event": "exec.finished", "payload": {"exitCode": 0}}
        assert (await phone.ask("node.event", told))["payload"]["handled"] is False
        again = {"sessionKey": "main", "message": "once more", "idempotencyKey": "r2"}
        await person.ask("chat.send", again)
        await served.gateway.run_store.wait("r2")
        await phone.ask("node.event", {"event": "weather"})

        assert "once more" not in str(phone.events)
        assert "heard" not in str(phone.events)


@pytest.mark.spec("B3", "S5")
async def test_a_node_speaks_as_a_node_in_what_was_bound_to_it_and_only_as_long(
    tmp_path: Path,
) -> None:
    bound = {"sessions": {"phone": ["agent:main:kitchen"]}}
    async with (
        opened(tmp_path, nodes=bound) as served,
        guest(served) as person,
        guest(served, **PHONE) as phone,
    ):
        said = {"sessionKey": "agent:main:kitchen", "message": "hi", "idempotencyKey": "r1"}
        await person.ask("chat.send", said)
        await served.gateway.run_store.wait("r1")
        hear = {"event": "chat.subscribe", "payload": {"sessionKey": "agent:main:kitchen"}}
        assert (await phone.ask("node.event", hear))["payload"] == heard(hear)
        assert (await phone.ask("node.event", speaking("dinner", "agent:main:kitchen")))["ok"]
        assert (await phone.event("chat"))["payload"]["sessionKey"] == "agent:main:kitchen"
        kitchen = await served.gateway.ledger.find_session(SessionKey.parse("agent:main:kitchen"))
        entries = await served.gateway.ledger.list_entries(kitchen.session_id, limit=9)
        (spoken,) = [each.message for each in entries if "dinner" in str(each.message)]
        assert (spoken.provenance.kind, spoken.provenance.sender) == ("node", "phone")

        served.gateway.config.take_rules(Config())
        phone.events.clear()
        await person.ask("chat.send", {**said, "idempotencyKey": "r2", "message": "unheard"})
        await served.gateway.run_store.wait("r2")
        await phone.ask("node.event", {"event": "weather"})
        assert "chat" not in {frame.get("event") for frame in phone.events}
        gone = await phone.ask("node.event", speaking("dinner?", "agent:main:kitchen"))
        assert "unknown session" in refused(gone)


async def test_a_node_may_call_only_what_is_a_nodes(tmp_path: Path) -> None:
    async with opened(tmp_path) as served, guest(served, **PHONE) as phone, guest(served) as person:
        assert "unauthorized role: node" in refused(await phone.ask("chat.send"))
        assert "missing scope: node" in refused(await person.ask("node.event", {"event": "x"}))


def refused(answer: dict[str, Any]) -> str:
    return str(answer["error"]["message"])


def call(**changes: Any) -> dict[str, Any]:
    return {"nodeId": "phone", "command": "camera.snap", "idempotencyKey": "k", **changes}


@pytest.mark.spec("V3", "B3", "G1")
@pytest.mark.parametrize(
    "who",
    [
        {**PHONE, "client": {**PHONE["client"], "mode": "ui"}},
        {**PHONE, "client": {**PHONE["client"], "mode": "webchat"}},
        {"client": {**PHONE["client"], "id": "ui", "mode": "ui"}, "scopes": ["operator.pairing"]},
    ],
)
async def test_who_may_not_read_hears_nothing_of_sessions(
    tmp_path: Path, who: dict[str, Any]
) -> None:
    """Neither what is said in them nor their names, whatever a client calls itself."""
    async with opened(tmp_path) as served, guest(served, 3) as person:
        asked = {"sessionKey": "secret", "message": "hello", "idempotencyKey": "r1"}
        await person.ask("chat.send", asked)
        await served.gateway.run_store.wait("r1")
        await person.ask("health", {"probe": True})
        async with guest(served, 3, **who) as other:
            await other.event("health")
            again = {"sessionKey": "secret", "message": "again", "idempotencyKey": "r2"}
            await person.ask("chat.send", again)
            await served.gateway.run_store.wait("r2")
            await other.ask("node.event", {"event": "weather"})  # answered behind all that was told

        assert "secret" not in str([other.hello, other.events])
        assert {frame["event"] for frame in other.events} <= {"health", "tick", "connect.challenge"}
        assert other.hello["snapshot"]["health"]["ok"] is True
