"""Frames themselves: handshakes, texts that are no requests, pieces, bytes, and a hurry."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from crossclaw.gateway.handshake import ConnectParams
from tests.hostile.making import Maker, anything, spoilt, words
from tests.hostile.watched import (
    PATIENCE_S,
    Visitor,
    Watched,
    beside_a_gateway,
    check_answer,
    check_event,
    hostile,
    read_to_the_end,
    reason_of,
    watched_gateway,
)
from tests.wire.served_gateway import TOKEN
from tests.wire.serving import SignedDevice, connect_params

DEVICE = SignedDevice()
_MAKER = Maker(
    {
        "token": [TOKEN] * 20
        + ["wrong", "", None],  # few wrong ones, or none is looked at for a while
        "role": ["operator", "node", "nobody"],
        "minProtocol": [3, 4, 1, 99],
        "maxProtocol": [3, 4, 99],
        "scopes": ["operator.admin", "operator.read", "node", "hook"],
        "signature": ["AAAA", "A" * 86, "=", "é"],
        "publicKey": [DEVICE.public_key, "AAAA", "", "A" * 43],
        "mode": ["cli", "webchat", "ui", "node"],
    },
    {},
)


pytestmark = beside_a_gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_gateway(tmp_path_factory.mktemp("gateway")) as watched:
        yield watched


def _socket(gateway: Watched) -> ClientConnection:
    return connect(
        gateway.served_gateway.ws,
        proxy=None,
        max_size=None,
        ping_interval=None,
        open_timeout=PATIENCE_S,
    )


_changes = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["replace", "drop", "add"]), anything), max_size=2
)


@pytest.mark.spec("G1")
def test_whatever_knocks_is_let_in_or_told_why_not(gateway: Watched) -> None:
    gateway.complaints()
    before = gateway.held()

    @hostile(25, 3_000)
    @given(st.data())
    def knocking(data: st.DataObject) -> None:
        with _socket(gateway) as peer:
            challenge = json.loads(peer.recv(PATIENCE_S))["payload"]
            params = data.draw(st.sampled_from(["made", "nearly", "signed"]))
            frame = {"type": "req", "id": "k", "method": "connect"}
            frame["params"] = data.draw(_knocks(params, challenge))
            sent = data.draw(st.just(json.dumps(frame)) | _no_requests)
            peer.send(sent)
            _let_in_or_told(peer)
        assert gateway.complaints() == [], sent

    knocking()
    assert gateway.serves()
    gateway.check_held(before)


def _knocks(kind: str, challenge: dict[str, Any]) -> Any:
    if kind == "made":
        return _MAKER.nearly(ConnectParams) | anything
    good = connect_params()
    if kind == "signed":
        good["device"] = DEVICE.sign(good, challenge["nonce"], challenge["ts"], "v3")
    return st.builds(spoilt, st.just(good), _changes)


def _let_in_or_told(peer: ClientConnection) -> None:
    try:
        answer = json.loads(peer.recv(PATIENCE_S))
        check_answer(answer, None)
        if answer["ok"]:
            return
        while True:
            peer.recv(PATIENCE_S)
    except ConnectionClosed as closed:
        check_answer({"closed": reason_of(closed)}, None)


# ── frames of somebody who is in ───────────────────────────────────────────────────────────────

_PARTS: list[Any] = [
    {}, [], None, 1, "x", True, {"type": "req"}, {"type": "res", "id": "a"}, {"type": "event"},
    {"type": "req", "id": "", "method": "health"}, {"type": "req", "id": 1, "method": "health"},
    {"type": "req", "id": "a" * 300, "method": "health"}, {"type": "req", "id": "a", "method": ""},
    {"type": "req", "id": "a", "method": "m" * 300}, {"type": "req", "id": "a", "method": "\ud800"},
    {"type": "req", "id": "\ud800", "method": "health"}, {"type": "req", "id": "a", "method": "connect"},
    {"type": "req", "id": "a", "method": "health", "params": float("nan")},
    {"type": "req", "id": "a", "method": "health", "params": 10**400},
    {"type": "req", "id": "a\x00b", "method": "health"}, {"type": "REQ", "id": "a", "method": "health"},
    {"type": "req", "id": "a", "method": "health", "params": "x" * 1_000_000},
    {"type": "req", "id": "a", "method": "health", "traceparent": 5},
    {"type": "req", "id": "a", "method": "health", "expectedProfileId": "x", "more": 1},
]  # fmt: skip
_RAW: list[Any] = [
    "", " ", "{", "null", "\x00", "[" * 100_000, '{"a":' * 10_000, '{"type":"req"' + "," * 50,
    '{"type":"req","type":"res","id":"a","method":"health"}', '{"id":"a","id":"b","type":"req","method":"health"}',
    '{"type":"req","id":"a","method":"health","params":' + "[" * 3000 + "]" * 3000 + "}",
    '{"type":"req","id":"a","method":"health","params":1' + "0" * 5000 + "}", "\ufeff{}", "NaN", "-", "1e999",
    b"", b"\xff", b"\x00\x01", b'{"type":"req","id":"\xff","method":"health"}', b"{" * 70_000,
    ['{"type":"req",', '"id":"a",', '"method":"health"}'], ["", "", '{"type":"req","id":"a","method":"health"}'],
    [b"\xe2\x82", b"\xac"], ["x"] * 200,
]  # fmt: skip
_no_requests = (
    st.sampled_from(_RAW)
    | st.sampled_from(_PARTS).map(json.dumps)
    | anything.map(json.dumps)
    | words.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
    | st.binary(max_size=30)
)


@pytest.mark.spec("G1")
def test_every_frame_has_one_answer_or_is_the_last(gateway: Watched) -> None:
    visitor = Visitor(gateway.served_gateway)
    gateway.complaints()

    @hostile(50)
    @given(st.lists(_no_requests, min_size=1, max_size=4))
    def sending(frames: list[Any]) -> None:
        answers = visitor.ask_all(frames)
        for answer in answers:
            check_answer(answer, None)
        for event in visitor.events:
            check_event(event)
        visitor.events.clear()
        assert gateway.complaints() == [], frames

    sending()
    visitor.close()
    assert gateway.serves()


_HEADS = st.binary(max_size=14) | st.sampled_from(
    [
        b"\x81\x05hello",  # not masked
        b"\x80\x80\0\0\0\0",  # goes on with nothing
        b"\x81\x82\0\0\0\0\xff\xff",  # a text that is none
        b"\x8f\x80\0\0\0\0",  # no such kind
        b"\xc1\x80\0\0\0\0",  # compressed, which was not agreed
        b"\x89\xfe\x01\x00\0\0\0\0" + b"p" * 256,  # a ping too long
        b"\x88\x81\0\0\0\0\0",  # half a code
        b"\x88\x82\0\0\0\0\x00\x01",  # a code that nobody may send
        b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",  # more than there is
        b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
        b"\x01\x80\0\0\0\0" * 50,  # begun again and again
        b"\x89\x80\0\0\0\0" * 3000,  # pings
    ]
)


@pytest.mark.spec("G1")
def test_bytes_that_are_no_frames_close_only_their_own_connection(gateway: Watched) -> None:
    upgrade = (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{gateway.served_gateway.port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()
    gateway.complaints()

    @hostile(15, 1_000)
    @given(_HEADS, st.booleans())
    def shouting(raw: bytes, first: bool) -> None:
        with socket.create_connection(
            ("127.0.0.1", gateway.served_gateway.port), PATIENCE_S
        ) as peer:
            peer.sendall(raw if first else upgrade + raw)
            with suppress(OSError):  # the gateway may have closed it already
                peer.shutdown(socket.SHUT_WR)
            read_to_the_end(peer)
        assert gateway.complaints() == [], raw
        assert gateway.serves()

    shouting()


@pytest.mark.spec("G1")
def test_who_asks_much_and_reads_nothing_gets_every_answer_or_is_told(gateway: Watched) -> None:
    visitor = Visitor(gateway.served_gateway)
    frames = [
        json.dumps({"type": "req", "id": f"f{number}", "method": "sessions.list", "params": {}})
        for number in range(1_000)
    ]
    answers = visitor.ask_all(frames)
    visitor.close()
    assert "closed" in answers[-1] or len(answers) == len(frames)
    assert all(answer["ok"] or answer["error"]["retryable"] for answer in answers[:-1])
    assert gateway.complaints() == []
    assert gateway.serves()


_hosts = st.sampled_from(
    [b"127.0.0.1", b"localhost", b"[::1", b"[::1]:x", b"127.0.0.1:99999", b"127.0.0.1:-1", b"", b"\xff\xfe", b"a" * 5000,
     b"http://127.0.0.1", b"127.0.0.1:1:2", b"[]", b"@", b"127.0.0.1#x", b"\xe2\x82\xac", b"[fe80::1%eth0]", b"null", b"://"]
) | st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=12).map(lambda t: t.encode("latin-1"))  # fmt: skip


@pytest.mark.spec("G3")
def test_hosts_and_origins_of_any_spelling_are_ours_or_not(gateway: Watched) -> None:
    gateway.complaints()

    @hostile(15, 3_000)
    @given(_hosts, _hosts, st.sampled_from([b"Origin", b"Sec-Fetch-Site", b"X-Forwarded-For", b"Authorization"]))  # fmt: skip
    def asking(host: bytes, other: bytes, name: bytes) -> None:
        lines = [
            b"GET /metrics HTTP/1.1",
            b"Host: " + host,
            name + b": " + other,
            b"Connection: close",
        ]
        with socket.create_connection(
            ("127.0.0.1", gateway.served_gateway.port), PATIENCE_S
        ) as peer:
            peer.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
            head = peer.recv(65536)
        assert head.split()[1] in (b"400", b"401", b"403", b"421", b"429"), (lines, head)
        assert gateway.complaints() == [], lines

    asking()
    assert gateway.serves()


def test_headers_that_nobody_sends_end_their_request(gateway: Watched) -> None:
    tries = [
        b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 99\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", b"\r\n\r\n\r\n", b"\x00" * 100,
    ]  # fmt: skip
    gateway.complaints()
    for raw in tries:
        with socket.create_connection(
            ("127.0.0.1", gateway.served_gateway.port), PATIENCE_S
        ) as peer:
            peer.sendall(raw)
            with suppress(OSError):  # the gateway may have closed it already
                peer.shutdown(socket.SHUT_WR)
            read_to_the_end(peer)
        assert gateway.complaints() == [], raw
        assert gateway.serves()
