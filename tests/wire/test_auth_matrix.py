"""Who may ask for what: every method with every set of scopes, on both protocols, by every credential.

The table beside this file was reviewed once and is frozen: a method without a row fails, and so does a
row that the gateway does not keep. A method is asked with a parameter that none has, so that nothing
happens: whoever may ask hears of that, whoever may not hears only that.
"""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crossclaw.gateway.handshake import OPERATOR_SCOPES
from tests.wire.housed import TOKEN, open_gateway, serve_house
from tests.wire.serving import connect_params, dial

TABLE: dict[str, str] = json.loads(Path(__file__).with_name("auth_matrix.json").read_text("utf-8"))
ODD = {"no method has this": True}

ALLOWS = {
    "operator.read": {"operator.read", "operator.write", "operator.admin"},
    "operator.write": {"operator.write", "operator.admin"},
    "operator.admin": {"operator.admin"},
    "operator.approvals": {"operator.approvals", "operator.admin"},
    "operator.pairing": {"operator.pairing", "operator.admin"},
    "node": {"node"},
    "hook": set(),  # no client over the wire has it
}
SETS: list[tuple[str, ...]] = [
    (),
    *((scope,) for scope in sorted(OPERATOR_SCOPES)),
    ("operator.approvals", "operator.pairing"),
    ("operator.read", "operator.write"),
    ("operator.made-up",),
]


def allowed(needed: str, scopes: tuple[str, ...], role: str, protocol: int) -> bool:
    if role == "node":
        return needed == "node"
    # The oldest clients of protocol 3 ask for no scopes and mean all.
    given = scopes or (("operator.admin",) if protocol == 3 else ())
    return bool(ALLOWS[needed].intersection(given))


@pytest.mark.spec("G1", "B3")
async def test_every_method_has_its_row(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as (house, _gateway):
        declared = {method.name: method.scope for method in house.door.registry}

    assert declared == TABLE


@pytest.mark.spec("G1", "B3")
@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("role", ["operator", "node"])
async def test_scopes_decide(tmp_path: Path, protocol: int, role: str) -> None:
    wrong: list[object] = []
    async with serve_house(tmp_path) as housed:
        for scopes in SETS:
            async with dial(housed) as peer:
                await peer.next()
                asked = connect_params(protocol, role=role, scopes=list(scopes))
                assert (await peer.ask("connect", asked))["ok"]
                for method, needed in TABLE.items():
                    error = (await peer.ask(method, ODD))["error"]
                    may = allowed(needed, scopes, role, protocol)
                    if verdict(error, method, needed, role) != may:
                        wrong.append((method, scopes, error))

    assert wrong == []


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
    async with serve_house(tmp_path) as housed:
        for name, auth in CREDENTIALS.items():
            async with dial(housed) as peer:
                await peer.next()
                answer = await peer.ask("connect", connect_params(protocol, auth=auth))
                assert not answer["ok"], name
                assert "unauthorized" in answer["error"]["message"], name
                assert (await peer.closed())[0] == 1008, name
        for method in TABLE:
            async with dial(housed) as peer:
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
    async with serve_house(tmp_path) as housed, httpx2.AsyncClient() as http:
        for tool in [*tools, "read"]:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
            for header in headers:
                invoked = await http.post(
                    f"{housed.url}/tools/invoke", json={"tool": tool}, headers=header
                )
                asked = await http.post(f"{housed.url}/mcp?name=x", json=call, headers=header)
                assert (invoked.status_code, asked.status_code) == (401, 401), (tool, header)
