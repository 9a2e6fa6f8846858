"""Nothing foreign is decoded at everybody's cost: whatever is sent, the loop never stands still for it."""

import json
import socket
from collections.abc import Iterator

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.domain import untrusted
from crossclaw.domain.untrusted import DEPTH_MAX, VALUES_MAX, TooHeavy
from crossclaw.gateway.frames import InvalidFrame, decode_request
from crossclaw.providers.calls import parse_arguments, raw_arguments
from tests.hostile.watched import PATIENCE_S, Visitor, Watched, watched_gateway
from tests.wire.served_gateway import TOKEN

MB = 1024 * 1024
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
HEAVY = {
    "half letters": '"' + r"\ud800" * (10 * MB // 6) + '"',
    "empty lists": "[" + "[]," * (10 * MB // 3) + "[]]",
    "empty objects": "[" + "{}," * (10 * MB // 3) + "{}]",
    "numbers": "[" + "1," * (5 * MB) + "1]",
    "words": "[" + '"a",' * (10 * MB // 4) + '"a"]',
    "names": "{" + ",".join(f'"{n:x}":0' for n in range(MB)) + "}",
    "depth": "[" * (5 * MB) + "]" * (5 * MB),
    "openings": "[" * (10 * MB),
    "quotes": '"' + r"\"" * (5 * MB),
    "text": '"' + "a" * (10 * MB) + r"\ud800" + '"',
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_gateway(tmp_path_factory.mktemp("hostile")) as watched:
        yield watched


@pytest.mark.spec("G1")
@pytest.mark.parametrize("params", HEAVY.values(), ids=HEAVY)
def test_a_heavy_frame_is_refused_under_its_id_and_nobody_waits(
    gateway: Watched, params: str
) -> None:
    visitor = Visitor(gateway.served_gateway)
    visitor.ask("health", {})
    with gateway.nobody_waits():
        frame = f'{{"type":"req","id":"mine","method":"health","params":{params}}}'
        (answer,) = visitor.ask_all([frame])
    visitor.close()

    assert (answer["ok"], answer["id"]) == (False, "mine")


@pytest.mark.parametrize("name", ["empty lists", "names", "depth", "openings"])
@pytest.mark.parametrize("path", ["/tools/invoke", "/v1/chat/completions", "/v1/responses", "/mcp"])
def test_a_heavy_body_is_refused_on_every_route_and_nobody_waits(
    gateway: Watched, path: str, name: str
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = f'{{"tool":"x","args":{HEAVY[name][: 2 * MB - 100]}}}'
    with gateway.nobody_waits():
        answer = httpx2.post(
            f"{gateway.served_gateway.url}{path}", content=body, headers=headers, timeout=PATIENCE_S
        )
    assert answer.status_code == 413


def _framed(opcode: int, payload: bytes = b"") -> bytes:
    return bytes([opcode, 0x80 | len(payload)]) + b"\0\0\0\0" + payload


@pytest.mark.parametrize(
    "flood",
    [
        _framed(0x89) * 200_000,
        _framed(0x01) + _framed(0x00) * 200_000,
        _framed(0x8A) * 200_000,
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20_000,
    ],
    ids=["pings", "empty fragments", "pongs", "requests"],
)
def test_a_stranger_that_floods_is_cut_off_and_nobody_waits(gateway: Watched, flood: bytes) -> None:
    says = (b"" if flood.startswith(b"GET") else UPGRADE) + flood
    with gateway.nobody_waits():
        for _ in range(3):
            with socket.create_connection(
                ("127.0.0.1", gateway.served_gateway.port), PATIENCE_S
            ) as peer:
                peer.settimeout(PATIENCE_S)
                try:
                    peer.sendall(says)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(MB):
                        pass
                except OSError:
                    pass
    assert gateway.serves()


def test_deep_or_heavy_arguments_of_a_model_are_no_object() -> None:
    for written in (
        '{"a":' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"a":' + "[" * DEPTH_MAX + "]" * DEPTH_MAX + "}",
        '{"a":[' + "{}," * VALUES_MAX + "{}]}",
    ):
        assert raw_arguments(parse_arguments(written)) == written
    assert parse_arguments('{"a":[[[1]]]}') == {"a": [[[1]]]}


def test_what_is_just_not_too_heavy_or_too_deep_is_read() -> None:
    table = json.dumps({"type": "req", "id": "1", "method": "m", "params": [0] * (VALUES_MAX - 10)})
    assert len(decode_request(table).params) == VALUES_MAX - 10
    deep = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert decode_request(f'{{"type":"req","id":"1","method":"m","params":{deep}}}').id == "1"
    with pytest.raises(InvalidFrame, match="nested deeper than 100") as refused:
        decode_request(f'{{"type":"req","id":"1","method":"m","params":[{deep}]}}')
    assert refused.value.request_id == "1"
    prose = json.dumps({"type": "req", "id": "1", "method": "m", "params": "[{, " * 1000})
    assert decode_request(prose).id == "1"


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        max_size=5,
    ),
    st.text(min_size=1, max_size=20),
)
def test_the_id_of_a_long_frame_is_found_as_in_a_short_one(
    before: dict[str, object], name: str
) -> None:
    before.pop("id", None)
    short = json.dumps({**before, "id": name, "rest": r"\ud800"})
    assert untrusted.find_id(short) == untrusted.find_id(short[:-1] + " " * 20_000 + "}")
    assert untrusted.find_id(short) == name


def test_an_id_behind_something_nested_is_not_guessed() -> None:
    nested = '{"params":{"id":"other"},' + " " * 20_000 + '"id":"mine","x":NaN}'
    assert untrusted.find_id(nested) is None
    assert untrusted.find_id(nested.replace(" " * 20_000, "")) == "mine"
    with pytest.raises(TooHeavy):
        untrusted.decode("[" * 100_000)
