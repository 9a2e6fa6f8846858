"""A client: one connection with its socket, its requests in progress and the events that it gets."""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup

from crossclaw.domain.errors import Busy, CrossclawError, Stopped
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller, TwoAnswers
from crossclaw.gateway.auth import RateBudget
from crossclaw.gateway.connection import (
    Action,
    Close,
    Connection,
    ConnectRequested,
    Dispatch,
    Drop,
    RequestRefused,
    Send,
    Welcome,
)
from crossclaw.gateway.context import GatewayContext
from crossclaw.gateway.frames import (
    EventFrame,
    Request,
    error_body,
    log_unforeseen,
    refusal,
    response,
)
from crossclaw.gateway.handshake import POLICY_VIOLATION, Admitted
from crossclaw.gateway.subscribers import Subscription

Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class Socket(Protocol):
    """What a client needs of its socket. No method blocks."""

    @property
    def buffered_bytes(self) -> int: ...

    def write(self, frame: bytes) -> None: ...

    def close(self, code: int, reason: str) -> None: ...

    def drop(self) -> None: ...

    def secret_shown(self) -> None: ...

    def known(self) -> None: ...

    def allow_frames(self, bytes_max: int) -> None: ...


class ClientGreeter(Protocol):
    """Gets notice of clients that come in or go away."""

    @property
    def ended(self) -> int:
        """The number of credentials that have ended so far."""
        ...

    def stands(self, principal: Principal) -> bool:
        """Whether the credential that somebody came in with is still valid."""
        ...

    def welcome(self, client: "Client", admitted: Admitted) -> Subscription: ...

    def farewell(self, client: "Client") -> None: ...


class Client:
    def __init__(
        self,
        conn_id: str,
        connection: Connection,
        socket: Socket,
        door: Door,
        reception: ClientGreeter,
        context: GatewayContext,
    ) -> None:
        self.conn_id = conn_id
        self._connection = connection
        self._socket = socket
        self._door = door
        self._reception = reception
        self._clock = context.clock
        self._limits = context.limits
        self._seq = 0
        self._at_work = 0
        self._closing = False
        self._leaving = ""
        self._stood_at = -1
        self._refusals: RateBudget | None = None
        self._caller: Caller | None = None
        self.subscription: Subscription | None = None
        self.protocol = 4
        self.hears_tools = False

    @property
    def admitted(self) -> Admitted | None:
        return self._connection.admitted

    @property
    def address(self) -> str:
        return self._connection.address

    @property
    def at_work(self) -> int:
        """The number of requests that have no answer yet."""
        return self._at_work

    async def serve(self, receive: Receive) -> None:
        """Serves the connection until it is closed. Unanswered requests are given up then; runs that were
        begun go on."""
        try:
            async with anyio.create_task_group() as requests:
                with anyio.CancelScope() as hearing:
                    hearing.deadline = anyio.current_time() + self._limits.handshake_time_s
                    self._act(self._connection.open(), requests, hearing)
                    while await self._receive(receive, requests, hearing):
                        pass
                if hearing.cancelled_caught:
                    self._act(self._connection.time_over(), requests, hearing)
                requests.cancel_scope.cancel()
        finally:
            self._reception.farewell(self)

    async def _receive(
        self, receive: Receive, requests: TaskGroup, hearing: anyio.CancelScope
    ) -> bool:
        """Receives one message; returns whether there may be another. Holds no reference to it afterwards: a
        welcome weighs more than the rest of an idle connection."""
        message = await receive()
        if message["type"] != "websocket.receive":
            return False
        data = message.get("text")
        if data is None:
            data = message.get("bytes") or b""
        actions = self._connection.receive(data)
        match actions:
            case [ConnectRequested(request=request)]:  # what comes behind it waits in the socket
                actions = await self._connection.admit(request, self._socket.secret_shown)
        self._act(actions, requests, hearing)
        return True

    def _act(self, actions: list[Action], requests: TaskGroup, hearing: anyio.CancelScope) -> None:
        for action in actions:
            match action:
                case Send(frame=frame):
                    self._write(frame)
                case Dispatch(request=request):
                    self._begin(request, requests)
                case Welcome(admitted=admitted):
                    hearing.deadline = math.inf
                    self._welcome(admitted)
                case RequestRefused(frame=frame):
                    self._write(frame)
                    self._count_refusal()
                case Close(code=code, reason=reason):
                    self._socket.close(code, reason)
                case Drop():
                    self._socket.drop()
                case ConnectRequested():
                    pass

    def _welcome(self, admitted: Admitted) -> None:
        self.protocol = admitted.protocol
        self.hears_tools = "tool-events" in admitted.caps
        self._socket.known()
        self._socket.allow_frames(self._limits.payload_bytes_max(admitted.protocol))
        self.subscription = self._reception.welcome(self, admitted)
        self._caller = Caller(
            principal=admitted.principal,
            listening=self.subscription,
            protocol=admitted.protocol,
            client_id=admitted.client.id,
            local=self._connection.is_local,
        )

    # ── requests ───────────────────────────────────────────────────────────────────────────────

    def _begin(self, request: Request, requests: TaskGroup) -> None:
        caller = self._caller
        if caller is None or self._leaving or not self._stands(caller.principal):
            self.close(POLICY_VIOLATION, "unauthorized: the secret has changed")
        elif self._closing:
            self._refuse(request, Stopped("the gateway is closing; ask again after its restart"))
        elif self._at_work >= self._limits.requests_at_once:
            most = self._limits.requests_at_once
            self._refuse(request, Busy(f"more than {most} requests at once on this connection"))
        else:
            self._at_work += 1
            requests.start_soon(self._answer, caller, request, name=request.method)

    def _stands(self, principal: Principal) -> bool:
        """Whether the client's credential is still valid; looked up only when one has ended since the last
        time. The door checks every time."""
        ended = self._reception.ended
        if ended != self._stood_at and not self._reception.stands(principal):
            return False
        self._stood_at = ended
        return True

    async def _answer(self, caller: Caller, request: Request) -> None:
        try:
            result = await self._door.dispatch(caller, request.method, request.params)
            if isinstance(result, TwoAnswers):
                self._write(response(request.id, result.first))
                await self._answer_later(request, result)
            else:
                self._write(response(request.id, result))
        except CrossclawError as error:
            self._refuse(request, error)
        except Exception as error:  # noqa: BLE001  a handler's bug must not end the connection
            log_unforeseen(f"method {request.method}", error)
            self._refuse(request, error)
        finally:
            self._at_work -= 1
            if self._leaving:
                self.close(POLICY_VIOLATION, self._leaving)

    async def _answer_later(self, request: Request, answers: TwoAnswers[Any]) -> None:
        try:
            self._write(response(request.id, await answers.later()))
        except Exception as error:  # noqa: BLE001  whatever failed, the second answer is owed
            if not isinstance(error, CrossclawError):
                log_unforeseen(f"the second answer of {request.method}", error)
            body = {**error_body(error, self.protocol), "code": "UNAVAILABLE"}
            payload = {
                "runId": msgspec.to_builtins(answers.first).get("runId", request.id),
                "status": "error",
                "summary": body["message"],
            }
            self._write(refusal(request.id, body, payload))

    def _refuse(self, request: Request, error: Exception) -> None:
        self._write(refusal(request.id, error_body(error, self.protocol)))
        if not getattr(error, "retryable", False):
            self._count_refusal()

    def _count_refusal(self) -> None:
        if self._refusals is None:
            self._refusals = RateBudget(self._limits.refusals, self._limits.refusal_refill_s)
        if not self._refusals.take(self._clock.now_ms() / 1000):
            self.close(POLICY_VIOLATION, "too many refused requests")

    # ── writing ────────────────────────────────────────────────────────────────────────────────

    def push(self, frame: EventFrame) -> bool:
        """Sends an event. Its `seq` counts only what this connection really gets."""
        if frame.droppable and self._behind(self._limits.dropping_share):
            return False
        self._seq += 1
        self._write(frame.numbered(self._seq))
        return True

    def _write(self, frame: bytes) -> None:
        if self._behind(1.0):
            self.close(POLICY_VIOLATION, "slow consumer")
        else:
            self._socket.write(frame)

    def _behind(self, share: float) -> bool:
        return self._socket.buffered_bytes > share * self._limits.buffered_bytes_max(self.protocol)

    def stop_accepting(self) -> None:
        self._closing = True

    def leave(self, reason: str) -> None:
        """Closes a client that has ended its own credential, after the answer; it can send nothing more."""
        self._leaving = reason

    def close(self, code: int, reason: str) -> None:
        for action in self._connection.close(code, reason):
            if isinstance(action, Close):
                self._socket.close(action.code, action.reason)
