"""Who may ask for what: every method with every set of scopes, on every transport, by every credential.

The table beside this file was reviewed once and is frozen: a method without a row fails, and so does a
row that the gateway does not keep. A method is asked with a parameter that none has, so that nothing
happens: whoever may ask hears of that, whoever may not hears only that.
"""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crossclaw.gateway.handshake import OPERATOR_SCOPES
from tests.wire.served_gateway import TOKEN, open_with_server, serve_gateway
from tests.wire.serving import Peer, SignedDevice, connect_params, dial
from tests.wire.test_mcp import over_http
from tests.wire.test_pairing import knocking

TABLE: dict[str, str] = json.loads(Path(__file__).with_name("auth_matrix.json").read_text("utf-8"))
ODD = {"no method has this": True}

ALLOWS = {
    "operator.read": {"operator.read", "operator.write", "operator.admin"},
    "operator.write": {"operator.write", "operator.admin"},
    "operator.admin": {"operator.admin"},
    "operator.approvals": {"operator.approvals", "operator.admin"},
    "operator.pairing": {"operator.pairing", "operator.admin"},
    "node": set(),  # a role, which no operator gets by asking for it as a scope
    "hook": set(),  # no client over the wire has it
}
SETS: list[tuple[str, ...]] = [
    *(chosen for size in range(6) for chosen in combinations(sorted(OPERATOR_SCOPES), size)),
    ("operator.made-up",),
    ("node",),
    ("hook",),
]


def allowed(needed: str, scopes: tuple[str, ...], role: str, protocol: int) -> bool:
    if role == "node":
        return needed == "node"
    # The oldest clients of protocol 3 ask for no scopes and mean all.
    given = scopes or (("operator.admin",) if protocol == 3 else ())
    return bool(ALLOWS[needed].intersection(given))


@pytest.mark.spec("G1", "B3")
async def test_every_method_has_its_row(tmp_path: Path) -> None:
    async with open_with_server(tmp_path) as (gateway, _server):
        declared = {method.name: method.scope for method in gateway.door.registry}

    assert declared == TABLE


@pytest.mark.spec("G1", "B3")
@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("role", ["operator", "node"])
@pytest.mark.parametrize("by_device", [False, True], ids=["shared token", "device token"])
async def test_scopes_decide(tmp_path: Path, protocol: int, role: str, by_device: bool) -> None:
    wrong: list[object] = []
    async with serve_gateway(tmp_path) as served_gateway:
        for scopes in SETS:
            asked: dict[str, Any] = {"protocol": protocol, "role": role, "scopes": list(scopes)}
            device = SignedDevice() if by_device else None
            if device is not None:
                async with knocking(served_gateway, device, local=True, **asked) as (_peer, hello):
                    asked["token"] = hello["payload"]["auth"]["deviceToken"]
            async with knocking(served_gateway, device, local=True, **asked) as (peer, hello):
                assert hello["ok"], hello
                for method, error in (await errors_of(peer)).items():
                    may = allowed(TABLE[method], scopes, role, protocol)
                    if verdict(error, method, TABLE[method], role) != may:
                        wrong.append((method, scopes, error))

    assert len(SETS) == 2**5 + 3
    assert wrong == []


async def errors_of(peer: Peer) -> dict[str, dict[str, Any]]:
    """Asked all at once."""
    asked = {await peer.send(method, ODD): method for method in TABLE}
    found: dict[str, dict[str, Any]] = {}
    while len(found) < len(asked):
        frame = await peer.next()
        if frame["type"] == "res":
            found[asked[frame["id"]]] = frame["error"]
    return found


def verdict(error: dict[str, Any], method: str, needed: str, role: str) -> bool | str:
    text = error["message"]
    if text.startswith(f"invalid {method} params"):
        return True
    refusals = ("unauthorized role: node",) if role == "node" else (f"missing scope: {needed}",)
    return False if text in refusals else text


CREDENTIALS: dict[str, Any] = {
    "none": {},
    "wrong": {"token": "wrong"},
    "empty": {"token": ""},
    "almost": {"token": TOKEN[:-1]},
    "longer": {"token": TOKEN + "x"},
    "as a device token": {"deviceToken": TOKEN},
    "wrong password": {"password": "wrong"},
}


@pytest.mark.spec("G1", "B3")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_without_the_right_secret_no_method_is_reached(tmp_path: Path, protocol: int) -> None:
    async with serve_gateway(tmp_path) as served_gateway:
        for name, auth in CREDENTIALS.items():
            async with dial(served_gateway) as peer:
                await peer.next()
                answer = await peer.ask("connect", connect_params(protocol, auth=auth))
                assert not answer["ok"], name
                assert "unauthorized" in answer["error"]["message"], name
                assert (await peer.closed())[0] == 1008, name
        for method in TABLE:
            async with dial(served_gateway) as peer:
                await peer.next()
                answer = await peer.ask(method, ODD)
                assert answer["error"]["message"].startswith("invalid handshake"), method
                assert (await peer.closed())[0] == 1008, method


@pytest.mark.spec("G3", "B3")
async def test_tools_over_http_and_mcp_need_the_secret_each(tmp_path: Path) -> None:
    tools = [name.removeprefix("tool.") for name in TABLE if name.startswith("tool.")]
    headers = [
        {},
        {"authorization": "Bearer no"},
        {"authorization": f"Basic {TOKEN}"},
        {"x-openclaw-token": "no"},
    ]
    async with serve_gateway(tmp_path) as served_gateway, httpx2.AsyncClient() as http:
        for tool in [*tools, "read"]:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
            for header in headers:
                invoked = await http.post(
                    f"{served_gateway.url}/tools/invoke", json={"tool": tool}, headers=header
                )
                asked = await http.post(
                    f"{served_gateway.url}/mcp?name=x", json=call, headers=header
                )
                assert (invoked.status_code, asked.status_code) == (401, 401), (tool, header)


@pytest.mark.spec("G3", "G5", "B3")
async def test_over_http_and_mcp_nothing_but_tools_is_reached(tmp_path: Path) -> None:
    bearer = {"authorization": f"Bearer {TOKEN}"}
    others = [name for name in TABLE if not name.startswith("tool.")]
    others += ["tool.sessions_list", "tool.sessions_send", "tool.sessions_reply"]
    reached: list[str] = []
    async with (
        serve_gateway(tmp_path) as served_gateway,
        httpx2.AsyncClient(headers=bearer) as http,
    ):
        for name in others:
            invoked = await http.post(f"{served_gateway.url}/tools/invoke", json={"tool": name})
            if invoked.status_code != 404:
                reached.append(f"/tools/invoke {name}: {invoked.status_code}")
        async with over_http(served_gateway, "asker", "auto") as client:
            for name in others:
                answer = await client.call_tool(name, {})
                if not answer.is_error or "not available" not in str(answer.content):
                    reached.append(f"/mcp {name}: {answer}")

    assert reached == []
