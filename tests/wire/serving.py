"""A gateway on a free port with a handful of methods, and a client to talk with it."""

import base64
import hashlib
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from socket import socket
from typing import Any

import anyio
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from crossclaw.config.gateway import GatewayConfig
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.domain.ids import RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.secret import Secret
from crossclaw.door.dispatch import Door
from crossclaw.door.registry import Caller, Method, Params, Registry, TwoAnswers
from crossclaw.gateway.auth import Authenticator, secret_digests
from crossclaw.gateway.context import GatewayContext
from crossclaw.gateway.edge import Endpoint, Routes
from crossclaw.gateway.event_types import HelloOk
from crossclaw.gateway.hello import ServerFacts
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.pairing import Pairings
from crossclaw.gateway.reception import Admission
from crossclaw.gateway.server import GatewayServer
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.jobs import SwitchOffJobs
from crossclaw.ledger.operations import Audit
from crossclaw.runs.feed import Feed
from tests.wire.served_gateway import ServedGateway, serve_somewhere

TOKEN = "a-token-that-is-long-enough-to-be-taken-seriously"


class Nothing(Params, frozen=True):
    pass


class EchoParams(Params, frozen=True):
    text: str = ""


class KeyParams(Params, frozen=True):
    key: str


class FollowParams(Params, frozen=True):
    run_id: str
    key: str


class RememberingLedger:
    """Only what the door and the pairings ask of a ledger: it writes refusals and devices down."""

    def __init__(self) -> None:
        self.audits: list[Audit] = []
        self.steps: list[tuple[Any, ...]] = []

    async def do(self, op: Any) -> None:
        self.audits.append(op)

    async def commit(self, *ops: Any) -> list[Any]:
        self.steps.append(ops)
        return [[] if isinstance(op, SwitchOffJobs) else None for op in ops]

    def as_ledger(self) -> Ledger:
        return self  # type: ignore[return-value]


def methods(release: anyio.Event) -> list[Method[Any]]:
    async def echo(_caller: Caller, params: EchoParams) -> Any:
        return {"text": params.text}

    async def wait(_caller: Caller, _params: Nothing) -> Any:
        await release.wait()
        return {"waited": True}

    async def twice(_caller: Caller, params: EchoParams) -> TwoAnswers[Any]:
        async def later() -> Any:
            await release.wait()
            if params.text == "fail":
                raise CrossclawError("the model was not there")
            return {"runId": "r1", "status": "ok"}

        return TwoAnswers({"runId": "r1", "status": "accepted"}, later)

    async def fail(_caller: Caller, params: EchoParams) -> Any:
        if params.text == "invalid":
            raise Invalid("that cannot be")
        raise KeyError("a secret word")

    async def follow(caller: Caller, params: FollowParams) -> Any:
        assert caller.listening is not None
        caller.listening.runs[params.run_id] = params.key
        return {"ok": True}

    async def subscribe(caller: Caller, params: KeyParams) -> Any:
        assert caller.listening is not None
        caller.listening.sessions.add(SessionKey.parse(params.key))
        return {"subscribed": True}

    async def subscribe_all(caller: Caller, _params: Nothing) -> Any:
        assert caller.listening is not None
        caller.listening.all_sessions = True
        return {"subscribed": True}

    table: list[tuple[str, Any, str, Any]] = [
        ("echo", EchoParams, "operator.read", echo),
        ("wait", Nothing, "operator.write", wait),
        ("twice", EchoParams, "operator.write", twice),
        ("fail", EchoParams, "operator.read", fail),
        ("rule", Nothing, "operator.admin", wait),
        ("follow", FollowParams, "operator.write", follow),
        ("subscribe", KeyParams, "operator.read", subscribe),
        ("subscribe-all", Nothing, "operator.read", subscribe_all),
    ]
    return [
        Method(name=n, params=p, result=dict, scope=s, effect="read", handle=h, summary=n)  # type: ignore[arg-type]
        for n, p, s, h in table
    ]


@dataclass
class Served:
    server: GatewayServer
    authenticator: Authenticator
    feed: Feed
    ledger: RememberingLedger
    release: anyio.Event
    port: int
    stop: Callable[[], None]
    stopped: anyio.Event

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@asynccontextmanager
async def open_server(
    *,
    limits: GatewayLimits | None = None,
    settings: GatewayConfig | None = None,
    feed: Feed | None = None,
    endpoints: Iterable[Endpoint] = (),
    listener: socket | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Served]:
    limits = limits or GatewayLimits()
    release, stopped, ledger, clock = (
        anyio.Event(),
        anyio.Event(),
        RememberingLedger(),
        SystemClock(),
    )
    feed = feed or Feed()
    authenticator = Authenticator({"gateway": secret_digests(Secret(TOKEN))}, clock, limits)
    credentials = authenticator.credentials
    door = Door(Registry(methods(release)), ledger.as_ledger(), clock, credentials)

    async def health() -> Any:
        return {"ok": True, "ts": clock.now_ms()}

    pairings = Pairings(
        ledger.as_ledger(), lambda _name, _payload: None, clock, RandomIds(), credentials
    )
    server = GatewayServer(
        door,
        feed,
        settings or GatewayConfig(),
        Admission(authenticator, pairings, ServerFacts(version="9.9"), health),
        GatewayContext(clock=clock, ids=RandomIds(), limits=limits),
        routes=Routes(list(endpoints)),
    )
    scope = anyio.CancelScope()

    async def serve(*, task_status: Any) -> None:
        with scope:
            await serve_somewhere(server, listener, tls, task_status=task_status)
        stopped.set()

    async with anyio.create_task_group() as tasks:
        port = await tasks.start(serve)
        yield Served(server, authenticator, feed, ledger, release, port, scope.cancel, stopped)
        scope.cancel()


class Peer:
    """A client as others write them: frames as dicts."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.hello: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self._count = 0

    async def next(self, timeout_s: float = 30) -> dict[str, Any]:
        with anyio.fail_after(timeout_s):
            frame: dict[str, Any] = json.loads(await self.socket.recv())
        return frame

    async def event(self, name: str, timeout_s: float = 5) -> dict[str, Any]:
        """The next event of this name; what comes before is kept in `events`."""
        for kept in self.events:
            if kept.get("event") == name:
                self.events.remove(kept)
                return kept
        while (frame := await self.next(timeout_s)).get("event") != name:
            self.events.append(frame)
        return frame

    async def send(self, method: str, params: Any = None, request_id: str | None = None) -> str:
        self._count += 1
        request_id = request_id or f"q{self._count}"
        frame = {"type": "req", "id": request_id, "method": method}
        if params is not None:
            frame["params"] = params
        await self.socket.send(json.dumps(frame))
        return request_id

    async def answer(self, request_id: str) -> dict[str, Any]:
        while True:
            frame = await self.next()
            if frame["type"] == "res" and frame["id"] == request_id:
                return frame
            self.events.append(frame)

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        return await self.answer(await self.send(method, params))

    async def closed(self, within_s: float = 5) -> tuple[int, str]:
        with anyio.fail_after(within_s), suppress(ConnectionClosed):
            while True:
                self.events.append(json.loads(await self.socket.recv()))
        return self.socket.close_code or 0, self.socket.close_reason or ""


def connect_params(protocol: int = 4, **changes: Any) -> dict[str, Any]:
    return {
        "minProtocol": protocol,
        "maxProtocol": protocol,
        "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
        "role": "operator",
        "scopes": ["operator.admin"],
        "caps": [],
        "auth": {"token": TOKEN},
        **changes,
    }


@asynccontextmanager
async def dial(
    served: Served | ServedGateway, path: str = "/", **headers: str
) -> AsyncGenerator[Peer]:
    """Connected, and the challenge not yet answered."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with connect(
        served.url.replace("http", "ws", 1) + path,
        additional_headers=named,
        proxy=None,
        max_size=None,
        open_timeout=60,
    ) as socket:
        yield Peer(socket)


@asynccontextmanager
async def guest(
    served: Served | ServedGateway, protocol: int = 4, **changes: Any
) -> AsyncGenerator[Peer]:
    """A client that is in."""
    async with dial(served) as peer:
        await peer.next()
        answer = await peer.ask("connect", connect_params(protocol, **changes))
        assert answer["ok"], answer
        peer.hello = answer["payload"]
        msgspec.convert(peer.hello, HelloOk)
        yield peer


class SignedDevice:
    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        public = self._key.public_key().public_bytes_raw()
        self.public_key = _base64url(public)
        self.id = hashlib.sha256(public).hexdigest()

    def sign(self, params: dict[str, Any], nonce: str, signed_at: int, version: str) -> Any:
        client = params["client"]
        parts = [
            version,
            self.id,
            client["id"],
            client["mode"],
            params["role"],
            ",".join(params["scopes"]),
            str(signed_at),
            params["auth"]["token"],
            nonce,
        ]
        if version == "v3":
            parts += [client["platform"].strip().lower(), client.get("deviceFamily", "").lower()]
        signature = self._key.sign("|".join(parts).encode())
        return {
            "id": self.id,
            "publicKey": self.public_key,
            "signature": _base64url(signature),
            "signedAt": signed_at,
            "nonce": nonce,
        }


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
