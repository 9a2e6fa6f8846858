"""One connection to a gateway: its WebSocket protocol, version 4, from the greeting to the end."""

import json
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from crossclaw import __version__
from crossclaw.client.errors import (
    CallRefused,
    ClientError,
    GatewayDown,
    NobodyListens,
    NotLetIn,
    WaitTimeout,
)
from crossclaw.client.finding import TOKEN_HINT, GatewayAddress
from crossclaw.client.peer import MISSED, Event, GatewayDefaults
from crossclaw.client.trust import check_certificate, tls_of

PROTOCOL = 4
TLS_HEADER = "x-crossclaw-tls"  # in the answer to whoever asks a gateway with TLS without it
HANDSHAKE_S_MAX = (
    15.0  # a gateway that starts up answers within this; OpenClaw's clients wait as long
)
ANSWER_BYTES_MAX = 64 * 2**20  # the longest history is 6 MiB; more is a mistake or an attack
_PAYLOAD_BYTES_MAX = 512 * 1024  # what every gateway takes; it may offer more in its hello

Frame = dict[str, Any]
EventListener = Callable[[Event], None]


class ClientName(NamedTuple):
    """A client's id and mode in `connect`. The protocol has a list of them; these are on it."""

    id: str = "gateway-client"
    mode: str = "backend"


@asynccontextmanager
async def open_wire(
    address: GatewayAddress, scopes: Sequence[str], name: ClientName, on_event: EventListener
) -> AsyncGenerator["WireConnection"]:
    socket = await _open_socket(address)
    wire = WireConnection(socket, address, on_event)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.serve)
            await wire.shake_hands(scopes, name)
            yield wire
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(2):
            await socket.close()


async def _open_socket(address: GatewayAddress) -> ClientConnection:
    socket = await _dial(address)
    try:
        shown = socket.transport.get_extra_info("ssl_object")
        check_certificate(shown and shown.getpeercert(binary_form=True), address)
    except ClientError:
        socket.transport.abort()
        raise
    return socket


async def _dial(address: GatewayAddress) -> ClientConnection:
    try:
        return await connect(
            address.url,
            ssl=tls_of(address),
            open_timeout=HANDSHAKE_S_MAX,
            max_size=ANSWER_BYTES_MAX,
            proxy=None if address.is_local else True,
            compression=None,
        )
    except ConnectionRefusedError:
        raise NobodyListens(f"no gateway answers at {address.url}") from None
    except (InvalidHandshake, InvalidURI) as error:
        if isinstance(error, InvalidStatus) and TLS_HEADER in error.response.headers:
            raise GatewayDown(
                f"the gateway at {address.url} speaks TLS", hint="Write its address with wss://"
            ) from None
        raise GatewayDown(
            f"something answers at {address.url}, but it is no gateway: {error}",
            hint="Another program may have the port: crossclaw doctor",
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise GatewayDown(
            f"the certificate of {address.url} is not trusted here: {error.verify_message}",
            hint="The gateway says its fingerprint when it starts; then set gateway.remote.url, and"
            " gateway.remote.tlsFingerprint to it.",
        ) from None
    except ssl.SSLError as error:
        raise GatewayDown(
            f"what answers at {address.url} speaks no TLS: {error.reason or error}",
            hint="An address with ws:// is one without TLS.",
        ) from None
    except (OSError, TimeoutError) as error:
        raise GatewayDown(f"no gateway answers at {address.url}: {error}") from None


class WireConnection:
    def __init__(
        self, socket: ClientConnection, address: GatewayAddress, on_event: EventListener
    ) -> None:
        self.defaults = GatewayDefaults("main", "agent:main:main")
        self.ended = anyio.Event()
        self._socket = socket
        self._address = address
        self._on_event = on_event
        self._answers: dict[str, MemoryObjectSendStream[Frame]] = {}
        self._challenged = anyio.Event()
        self._seq: int | None = None
        self._payload_bytes_max = _PAYLOAD_BYTES_MAX

    async def call(self, method: str, params: Frame, *, timeout_s: float, final: bool) -> Any:
        request_id = str(uuid4())
        # Two places: a method answers once or twice, never more.
        send, receive = anyio.create_memory_object_stream[Frame](2)
        self._answers[request_id] = send
        try:
            with receive, anyio.fail_after(timeout_s):
                await self._send(request_id, method, params)
                return await self._answer(receive, final)
        except TimeoutError:
            raise WaitTimeout(
                f"no answer to {method} within {timeout_s:g} s",
                hint="The gateway may still do what it was asked.",
            ) from None
        finally:
            del self._answers[request_id]
            send.close()

    async def _answer(self, receive: MemoryObjectReceiveStream[Frame], final: bool) -> Any:
        async for frame in receive:
            payload = frame.get("payload")
            if not frame.get("ok"):
                raise _refused(frame.get("error") or {})
            first = isinstance(payload, dict) and payload.get("status") == "accepted"
            if not (final and first):
                return payload
        raise self._lost(may_have_arrived=True)

    async def _send(self, request_id: str, method: str, params: Frame) -> None:
        frame = {"type": "req", "id": request_id, "method": method, "params": params}
        text = json.dumps(frame, ensure_ascii=False)
        size = len(text.encode())
        if size > self._payload_bytes_max:
            raise ClientError(
                f"the message is {size:,} bytes; this gateway takes {self._payload_bytes_max:,}."
                " Nothing was sent."
            )
        if self.ended.is_set():
            raise self._lost(may_have_arrived=False)
        try:
            await self._socket.send(text)
        except ConnectionClosed:
            raise self._lost(may_have_arrived=True) from None

    async def serve(self) -> None:
        try:
            async for data in self._socket:
                self._take(json.loads(data))
        except ConnectionClosed:
            pass
        finally:
            self.ended.set()
            self._challenged.set()
            for stream in self._answers.values():
                stream.close()

    def _take(self, frame: Frame) -> None:
        if frame.get("type") != "event":
            if (waiting := self._answers.get(str(frame.get("id")))) is not None:
                waiting.send_nowait(frame)
            return
        if frame["event"] == "connect.challenge":
            self._challenged.set()
        if (seq := frame.get("seq")) is not None:
            if self._seq is not None and seq != self._seq + 1:
                self._on_event(Event(MISSED, {}))
            self._seq = seq
        self._on_event(Event(frame["event"], frame.get("payload") or {}))

    async def shake_hands(self, scopes: Sequence[str], name: ClientName) -> None:
        with anyio.move_on_after(HANDSHAKE_S_MAX) as patience:
            await self._challenged.wait()
        if patience.cancelled_caught:
            raise GatewayDown(f"{self._address.url} does not greet as a gateway does")
        try:
            hello = await self.call(
                "connect", self._introduction(scopes, name), timeout_s=15, final=False
            )
        except CallRefused as refusal:
            raise _not_let_in(refusal, self._address) from None
        self._learn(hello)

    def _learn(self, hello: Frame) -> None:
        known = (hello.get("snapshot") or {}).get("sessionDefaults") or {}
        agent_id = known.get("defaultAgentId") or "main"
        main_key = known.get("mainSessionKey") or f"agent:{agent_id}:main"
        self.defaults = GatewayDefaults(agent_id, main_key)
        policy = hello.get("policy") or {}
        self._payload_bytes_max = policy.get("maxPayload") or _PAYLOAD_BYTES_MAX

    def _introduction(self, scopes: Sequence[str], name: ClientName) -> Frame:
        auth = {"token": self._address.token, "password": self._address.password}
        return {
            "minProtocol": PROTOCOL,
            "maxProtocol": PROTOCOL,
            "client": {
                "id": name.id,
                "mode": name.mode,
                "version": __version__,
                "platform": sys.platform,
                "instanceId": str(uuid4()),
            },
            "role": "operator",
            "scopes": list(scopes),
            "caps": ["tool-events"],
            "auth": {name: secret.reveal() for name, secret in auth.items() if secret},
        }

    def _lost(self, *, may_have_arrived: bool) -> GatewayDown:
        why = self._socket.close_reason or "the connection ended"
        return GatewayDown(
            f"lost the gateway at {self._address.url}: {why}", may_have_arrived=may_have_arrived
        )


def _refused(error: Frame) -> CallRefused:
    message = str(error.get("message") or "the gateway refused without a reason")
    return CallRefused(message, str(error.get("code") or ""), error.get("details"))


def _not_let_in(refusal: CallRefused, address: GatewayAddress) -> ClientError:
    text = str(refusal)
    if "unauthorized" in text or refusal.code == "NOT_PAIRED":
        # What stands in brackets is the gateway's hint, for clients that have none of their own.
        why = text.partition(" (")[0]
        return NotLetIn(f"{address.url}: {why}", refusal.code, refusal.details, hint=TOKEN_HINT)
    return GatewayDown(f"{address.url} does not take us in: {text}")
