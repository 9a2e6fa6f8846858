"""A connection without a socket: every state, every refusal."""

import json
from typing import Any

import anyio
import pytest

from crossclaw.domain.ids import RandomIds
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import Authenticator, secret_digests
from crossclaw.gateway.connection import (
    Close,
    Connection,
    ConnectRequested,
    Dispatch,
    RequestRefused,
    Send,
    Welcome,
)
from crossclaw.gateway.handshake import Admitted, ConnectionFacts, Handshake
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.origins import Origins
from crossclaw.gateway.pairing import Pairings
from crossclaw.policy.credentials import Credentials
from tests.wire.serving import TOKEN, RememberingLedger, SignedDevice, connect_params

NOW = 1_767_268_800_000
NONCE = "the-nonce"


class Clock:
    def now_ms(self) -> int:
        return NOW


def connection(origin: str | None = None, host: str = "127.0.0.1:18789") -> Connection:
    credentials, ledger = Credentials(), RememberingLedger().as_ledger()
    handshake = Handshake(
        Authenticator({"gateway": secret_digests(Secret(TOKEN))}, Clock(), credentials=credentials),
        Pairings(ledger, lambda _name, _payload: None, Clock(), RandomIds(), credentials),
        Origins("127.0.0.1", ["https://page.example"]),
        Clock(),
    )
    return Connection(
        handshake,
        lambda admitted: {"type": "hello-ok", "protocol": admitted.protocol},
        ConnectionFacts(address="127.0.0.1", host=host, origin=origin, local=True),
        nonce=NONCE,
        clock=Clock(),
        limits=GatewayLimits(),
    )


def heard(met: Connection, data: str | bytes) -> list[Any]:
    actions = met.receive(data)
    if actions and isinstance(actions[0], ConnectRequested):
        return anyio.run(met.admit, actions[0].request)
    return actions


def frame(method: str, params: Any = None, **changes: Any) -> str:
    return json.dumps({"type": "req", "id": "1", "method": method, "params": params, **changes})


def refused(actions: list[Any]) -> tuple[dict[str, Any], Close]:
    """The error that is told, and the close that follows."""
    answer, close = actions
    assert isinstance(answer, Send)
    assert isinstance(close, Close)
    told = json.loads(answer.frame)
    assert told["ok"] is False
    error: dict[str, Any] = told["error"]
    return error, close


def admitted(params: dict[str, Any], **where: Any) -> Admitted:
    met = connection(**where)
    hello, welcome = heard(met, frame("connect", params))
    assert isinstance(hello, Send)
    assert isinstance(welcome, Welcome)
    assert met.state == "connected"
    assert json.loads(hello.frame)["payload"]["type"] == "hello-ok"
    return welcome.admitted


# ── the first frame ────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G1")
def test_the_challenge_comes_first_and_has_no_seq() -> None:
    (challenge,) = connection().open()

    assert isinstance(challenge, Send)
    assert json.loads(challenge.frame) == {
        "type": "event",
        "event": "connect.challenge",
        "payload": {"nonce": NONCE, "ts": NOW},
    }


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("lowest", "highest", "spoken"), [(3, 3, 3), (4, 4, 4), (3, 4, 4), (1, 3, 3), (4, 9, 4)]
)
def test_the_highest_protocol_that_both_know_is_spoken(
    lowest: int, highest: int, spoken: int
) -> None:
    assert admitted(connect_params(minProtocol=lowest, maxProtocol=highest)).protocol == spoken


@pytest.mark.spec("G1")
@pytest.mark.parametrize(("lowest", "highest"), [(1, 2), (5, 9), (4, 3)])
def test_a_protocol_that_we_do_not_speak_is_refused_with_1002(lowest: int, highest: int) -> None:
    params = connect_params(minProtocol=lowest, maxProtocol=highest)
    error, close = refused(heard(connection(), frame("connect", params)))

    assert (error["code"], error["message"]) == ("INVALID_REQUEST", "protocol mismatch")
    assert error["details"] == {"expectedProtocol": 4}
    assert close == Close(1002, "protocol mismatch")


@pytest.mark.parametrize(
    "data",
    [
        "",
        "hello",
        "[]",
        "{}",
        '{"type":"res","id":"1","ok":true}',
        '{"type":"req","id":"","method":"connect"}',
        '{"type":"req","id":1,"method":"connect"}',
        '{"type":"req","id":"1","method":"connect","more":1}',
        b"\xff\xfe",
        "[" * 100_000,
    ],
)
def test_what_is_no_request_ends_the_handshake_without_an_answer(data: str | bytes) -> None:
    met = connection()

    (close,) = heard(met, data[:16_000])

    assert close == Close(1008, "invalid request frame")
    assert met.state == "closed"
    assert heard(met, frame("connect", connect_params())) == []


def test_another_method_first_is_refused() -> None:
    error, close = refused(heard(connection(), frame("health", {})))

    assert error["message"] == "invalid handshake: first request must be connect"
    assert close.code == 1008


def test_a_first_frame_that_is_too_large_is_not_even_read() -> None:
    (close,) = heard(connection(), frame("connect", {"x": "y" * 20_000}))

    assert close.code == 1009


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"more": 1}, "unexpected property 'more'"),
        ({"client": {"id": "cli"}}, "must have required property 'version'"),
        ({"client": {"id": "", "version": "1", "platform": "l", "mode": "cli"}}, "/client/id"),
        ({"auth": {"key": "x"}}, "unexpected property 'key'"),
        ({"device": {"id": "x"}}, "must have required property 'publicKey'"),
        ({"minProtocol": 0}, "/minProtocol"),
        ({"scopes": "operator.admin"}, "/scopes"),
        ({"permissions": {"camera": 1}}, "/permissions"),
    ],
)
def test_connect_is_a_closed_object_at_every_level(changes: dict[str, Any], says: str) -> None:
    error, close = refused(heard(connection(), frame("connect", connect_params(**changes))))

    assert error["message"].startswith("invalid connect params: ")
    assert says in error["message"]
    assert close.code == 1008


@pytest.mark.spec("G4")
def test_everything_that_real_clients_say_is_understood() -> None:
    client = {
        "id": "gateway-client",
        "displayName": "tui",
        "version": "2026.9.6",
        "platform": "linux",
        "deviceFamily": "Linux",
        "modelIdentifier": "x",
        "mode": "ui",
        "instanceId": "i",
        "buildId": "b",
        "timeZone": "UTC",
    }
    told = admitted(
        connect_params(
            client=client,
            locale="en",
            userAgent="node",
            commands=[],
            permissions={"camera": True},
            pathEnv="/bin",
            caps=["tool-events"],
            computerUse={},
            workerRuns={},
            modelCatalog={},
        )
    )

    assert told.client.display_name == "tui"
    assert told.caps == {"tool-events"}


def test_caps_scopes_and_role_may_be_absent() -> None:
    params = connect_params(3)
    for name in ("caps", "scopes", "role"):
        del params[name]

    told = admitted(params)

    assert told.role == "operator"
    assert told.principal.scopes == {"operator.admin"}


# ── who ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("auth", "says", "code"),
    [
        ({"token": "wrong"}, "unauthorized: gateway token mismatch", "AUTH_TOKEN_MISMATCH"),
        ({"password": "wrong"}, "unauthorized: gateway token mismatch", "AUTH_TOKEN_MISMATCH"),
        ({"deviceToken": TOKEN}, "unauthorized: gateway token missing", "AUTH_TOKEN_MISSING"),
        ({"token": ""}, "unauthorized: gateway token missing", "AUTH_TOKEN_MISSING"),
        ({}, "unauthorized: gateway token missing", "AUTH_TOKEN_MISSING"),
    ],
)
def test_without_the_secret_nobody_comes_in(auth: dict[str, str], says: str, code: str) -> None:
    met = connection()
    error, close = refused(heard(met, frame("connect", connect_params(auth=auth))))

    assert error["code"] == "INVALID_REQUEST"
    assert error["message"].startswith(says)
    assert error["details"] == {"code": code}
    assert close.code == 1008
    assert close.reason.startswith("unauthorized")
    assert met.admitted is None


def test_the_hint_fits_the_program() -> None:
    def hint(client_id: str, mode: str) -> str:
        client = {"id": client_id, "version": "1", "platform": "x", "mode": mode}
        params = connect_params(auth={}, client=client)
        return str(refused(heard(connection(), frame("connect", params)))[0]["message"])

    assert "gateway.remote.token" in hint("cli", "cli")
    assert "settings" in hint("openclaw-control-ui", "webchat")
    assert "auth.token" in hint("test", "test")


def test_a_role_that_does_not_exist_is_refused() -> None:
    error, close = refused(heard(connection(), frame("connect", connect_params(role="king"))))

    assert (error["message"], close.code) == ("invalid role", 1008)


def test_a_node_has_the_scope_of_nodes_and_no_other() -> None:
    told = admitted(connect_params(role="node", scopes=["operator.admin"]))

    assert told.principal.role == "node"
    assert told.principal.scopes == {"node"}
    assert told.shown_scopes == []


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("protocol", "asked", "granted"),
    [
        (3, [], {"operator.admin"}),
        (4, [], set()),
        (4, ["operator.read"], {"operator.read"}),
        (3, ["operator.read", "operator.write"], {"operator.read", "operator.write"}),
        (4, ["operator.read", "operator.everything", "node"], {"operator.read"}),
    ],
)
def test_a_client_gets_the_scopes_that_it_asks_for_and_that_exist(
    protocol: int, asked: list[str], granted: set[str]
) -> None:
    assert admitted(connect_params(protocol, scopes=asked)).principal.scopes == granted


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        (None, "127.0.0.1:18789", True),
        ("http://127.0.0.1:18789", "127.0.0.1:18789", True),
        ("http://localhost:18789", "127.0.0.1:18789", True),
        ("https://page.example", "127.0.0.1:18789", True),
        ("http://page.example", "127.0.0.1:18789", False),
        ("http://localhost:3000", "127.0.0.1:18789", False),
        ("http://evil.example", "127.0.0.1:18789", False),
        ("null", "127.0.0.1:18789", False),
    ],
)
def test_only_our_own_pages_come_in_from_a_browser(
    origin: str | None, host: str, allowed: bool
) -> None:
    if allowed:
        assert admitted(connect_params(), origin=origin, host=host)
        return
    error, close = refused(heard(connection(origin, host), frame("connect", connect_params())))
    assert error["message"].startswith("origin not allowed")
    assert close.code == 1008


# ── devices ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize(("protocol", "version"), [(3, "v2"), (4, "v2"), (4, "v3")])
def test_a_signed_device_comes_in(protocol: int, version: str) -> None:
    device = SignedDevice()
    client = {
        "id": "cli",
        "version": "1",
        "platform": " Linux ",
        "mode": "cli",
        "deviceFamily": "PC",
    }
    params = connect_params(protocol, client=client)
    params["device"] = device.sign(params, NONCE, NOW, version)

    told = admitted(params)

    assert told.device_id == device.id
    assert told.principal.name == f"device:{device.id}"


def _spoilt(what: str, signed: dict[str, Any]) -> dict[str, Any]:
    other = SignedDevice()
    changes: dict[str, dict[str, Any]] = {
        "identity": {"id": "0" * 64},
        "key": {"publicKey": other.public_key},
        "garbage key": {"publicKey": "!!"},
        "time": {"signedAt": NOW - 11 * 60 * 1000},
        "no nonce": {"nonce": None},
        "other nonce": {"nonce": "another"},
        "signature": {"signature": signed["signature"][::-1]},
        "garbage signature": {"signature": "?"},
    }
    return {**signed, **changes[what]}


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("identity", "device identity mismatch"),
        ("key", "device identity mismatch"),
        ("garbage key", "device identity mismatch"),
        ("time", "device signature expired"),
        ("no nonce", "device nonce required"),
        ("other nonce", "device nonce mismatch"),
        ("signature", "device signature invalid"),
        ("garbage signature", "device signature invalid"),
    ],
)
@pytest.mark.parametrize("protocol", [3, 4])
def test_a_device_that_is_not_what_it_says_is_refused(protocol: int, what: str, says: str) -> None:
    params = connect_params(protocol)
    params["device"] = _spoilt(what, SignedDevice().sign(params, NONCE, NOW, "v2"))

    error, close = refused(heard(connection(), frame("connect", params)))

    assert (error["code"], error["message"]) == ("INVALID_REQUEST", says)
    assert close == Close(1008, says)


@pytest.mark.parametrize(("protocol", "version"), [(3, "v3"), (3, "v1"), (4, "v1")])
def test_a_signature_of_another_version_does_not_count(protocol: int, version: str) -> None:
    params = connect_params(protocol)
    params["device"] = SignedDevice().sign(params, NONCE, NOW, version)

    error, _ = refused(heard(connection(), frame("connect", params)))

    assert error["message"] == "device signature invalid"


@pytest.mark.parametrize("changed", ["scopes", "role", "client"])
def test_what_was_signed_cannot_be_changed_afterwards(changed: str) -> None:
    params = connect_params(scopes=["operator.read"])
    params["device"] = SignedDevice().sign(params, NONCE, NOW, "v3")
    params[changed] = {
        "scopes": ["operator.admin"],
        "role": "node",
        "client": {**params["client"], "mode": "ui"},
    }[changed]

    error, _ = refused(heard(connection(), frame("connect", params)))

    assert error["message"] == "device signature invalid"


def test_a_signature_is_no_secret() -> None:
    params = connect_params(auth={"token": "wrong"})
    params["device"] = SignedDevice().sign(params, NONCE, NOW, "v3")

    error, _ = refused(heard(connection(), frame("connect", params)))

    assert error["message"].startswith("unauthorized")


# ── afterwards ─────────────────────────────────────────────────────────────────────────────────


def connected() -> Connection:
    met = connection()
    heard(met, frame("connect", connect_params()))
    return met


def test_a_request_becomes_a_dispatch() -> None:
    (action,) = heard(connected(), frame("echo", {"text": "hi"}, traceparent="00-1"))

    assert isinstance(action, Dispatch)
    assert (action.request.id, action.request.method) == ("1", "echo")
    assert action.request.params == {"text": "hi"}


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("data", "answered"),
    [
        ("nonsense", "invalid"),
        ('{"type":"req","id":"7","method":""}', "7"),
        ('{"type":"req","id":"7","method":"x","more":1}', "7"),
        ('{"type":"req","id":7,"method":"x"}', "invalid"),
        ("[" * 100_000, "invalid"),
    ],
)
def test_an_invalid_frame_is_answered_and_the_connection_stays(data: str, answered: str) -> None:
    met = connected()

    (action,) = heard(met, data)

    assert isinstance(action, RequestRefused)
    told = json.loads(action.frame)
    assert told["id"] == answered
    assert told["error"]["code"] == "INVALID_REQUEST"
    assert told["error"]["message"].startswith("invalid request frame: ")
    assert met.state == "connected"


def test_connect_is_said_once() -> None:
    (action,) = heard(connected(), frame("connect", connect_params()))

    assert isinstance(action, RequestRefused)
    assert "only valid as the first request" in json.loads(action.frame)["error"]["message"]


def test_the_time_for_the_handshake_ends_only_the_handshake() -> None:
    assert connected().time_over() == []
    assert connection().time_over() == [Close(1000, "handshake timeout")]


def test_a_connection_is_closed_once_and_its_reason_fits_a_frame() -> None:
    met = connected()

    (close,) = met.close(1008, "ü" * 200)

    assert isinstance(close, Close)
    assert close.reason == "ü" * 60
    assert met.close(1008, "again") == []
