"""The wire: a client of the gateway's WebSocket protocol, version 4."""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from crossclaw import __version__
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.finding import TOKEN_HINT, GatewayAddress
from crossclaw.cli.peer import CallRefused, Defaults, Event, Listeners, NobodyListens, Unreachable

PROTOCOL = 4
HANDSHAKE_S_MAX = (
    15.0  # a gateway that starts up answers within this; OpenClaw's clients wait as long
)
ANSWER_BYTES_MAX = 64 * 2**20  # the longest history is 6 MiB; more is a mistake or an attack
_PAYLOAD_BYTES_MAX = 512 * 1024  # what every gateway takes; it may offer more in its hello

Frame = dict[str, Any]


@asynccontextmanager
async def open_wire(address: GatewayAddress, scopes: Sequence[str]) -> AsyncGenerator["WirePeer"]:
    socket = await _open_socket(address)
    peer = WirePeer(socket, address)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve)
            await peer.shake_hands(scopes)
            yield peer
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(2):
            await socket.close()


async def _open_socket(address: GatewayAddress) -> ClientConnection:
    try:
        return await connect(
            address.url,
            open_timeout=HANDSHAKE_S_MAX,
            max_size=ANSWER_BYTES_MAX,
            proxy=None if address.is_local else True,
            compression=None,
        )
    except ConnectionRefusedError:
        raise NobodyListens(f"no gateway answers at {address.url}") from None
    except (InvalidHandshake, InvalidURI) as error:
        raise Unreachable(
            f"something answers at {address.url}, but it is no gateway: {error}",
            hint="Another program may have the port: crossclaw doctor",
        ) from None
    except (OSError, TimeoutError) as error:
        raise Unreachable(f"no gateway answers at {address.url}: {error}") from None


class WirePeer:
    def __init__(self, socket: ClientConnection, address: GatewayAddress) -> None:
        self.place = address.url
        self.embedded = False
        self.defaults = Defaults("main", "agent:main:main")
        self.hello: Frame = {}
        self._socket = socket
        self._address = address
        self._listeners = Listeners()
        self._answers: dict[str, MemoryObjectSendStream[Frame]] = {}
        self._challenged = anyio.Event()
        self._gone: str | None = None
        self._payload_bytes_max = _PAYLOAD_BYTES_MAX

    def listen(self) -> AbstractContextManager[MemoryObjectReceiveStream[Event]]:
        return self._listeners.listen()

    async def call(
        self, method: str, params: Frame, *, timeout_s: float = 30, final: bool = False
    ) -> Any:
        request_id = str(uuid4())
        # Two places: a method answers once or twice, never more.
        send, receive = anyio.create_memory_object_stream[Frame](2)
        self._answers[request_id] = send
        try:
            with receive, anyio.fail_after(timeout_s):
                await self._send(request_id, method, params)
                return await self._answer(receive, final)
        except TimeoutError:
            raise CommandFailed(
                f"no answer to {method} within {timeout_s:g} s", Exit.TIMEOUT
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
        raise self._lost()

    async def _send(self, request_id: str, method: str, params: Frame) -> None:
        frame = {"type": "req", "id": request_id, "method": method, "params": params}
        text = json.dumps(frame, ensure_ascii=False)
        size = len(text.encode())
        if size > self._payload_bytes_max:
            raise CommandFailed(
                f"the message is {size:,} bytes; this gateway takes {self._payload_bytes_max:,}."
                " Nothing was sent."
            )
        try:
            await self._socket.send(text)
        except ConnectionClosed:
            raise self._lost() from None

    async def serve(self) -> None:
        try:
            async for data in self._socket:
                self._take(json.loads(data))
        except ConnectionClosed:
            pass
        finally:
            self._gone = self._socket.close_reason or "the connection ended"
            self._challenged.set()
            self._listeners.close()
            for stream in self._answers.values():
                stream.close()

    def _take(self, frame: Frame) -> None:
        if frame.get("type") == "event":
            if frame["event"] == "connect.challenge":
                self._challenged.set()
            self._listeners.tell(Event(frame["event"], frame.get("payload") or {}))
        elif (waiting := self._answers.get(str(frame.get("id")))) is not None:
            waiting.send_nowait(frame)

    async def shake_hands(self, scopes: Sequence[str]) -> None:
        with anyio.move_on_after(HANDSHAKE_S_MAX) as patience:
            await self._challenged.wait()
        if patience.cancelled_caught:
            raise Unreachable(f"{self.place} does not greet as a gateway does")
        try:
            self.hello = await self.call("connect", self._introduction(scopes), timeout_s=15)
        except CallRefused as refusal:
            raise _not_let_in(refusal, self._address) from None
        self._learn()

    def _learn(self) -> None:
        known = (self.hello.get("snapshot") or {}).get("sessionDefaults") or {}
        agent_id = known.get("defaultAgentId") or "main"
        self.defaults = Defaults(agent_id, known.get("mainSessionKey") or f"agent:{agent_id}:main")
        policy = self.hello.get("policy") or {}
        self._payload_bytes_max = policy.get("maxPayload") or _PAYLOAD_BYTES_MAX

    def _introduction(self, scopes: Sequence[str]) -> Frame:
        auth = {"token": self._address.token, "password": self._address.password}
        return {
            "minProtocol": PROTOCOL,
            "maxProtocol": PROTOCOL,
            "client": {
                "id": "cli",
                "mode": "cli",
                "version": __version__,
                "platform": sys.platform,
                "instanceId": str(uuid4()),
            },
            "role": "operator",
            "scopes": list(scopes),
            "caps": ["tool-events"],
            "auth": {name: secret.reveal() for name, secret in auth.items() if secret},
        }

    def _lost(self) -> Unreachable:
        return Unreachable(f"lost the gateway at {self.place}: {self._gone or 'it closed'}")


def _refused(error: Frame) -> CallRefused:
    message = str(error.get("message") or "the gateway refused without a reason")
    return CallRefused(message, str(error.get("code") or ""), error.get("details"))


def _not_let_in(refusal: CallRefused, address: GatewayAddress) -> CommandFailed:
    text = str(refusal)
    if "unauthorized" in text or refusal.code == "NOT_PAIRED":
        # What stands in brackets is the gateway's hint, for clients that have none of their own.
        why = text.partition(" (")[0]
        return CommandFailed(f"{address.url}: {why}", Exit.UNAUTHORIZED, hint=TOKEN_HINT)
    return Unreachable(f"{address.url} does not take us in: {text}")
