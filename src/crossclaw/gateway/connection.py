"""A connection without its socket: texts in, actions out.

    challenged ──connect──▶ connected ──▶ closed
         └──────anything else──────────────▲

It answers nothing but `connect` itself, which takes a moment (`admit`: a device may have to be
written down); every other request becomes a `Dispatch` for its owner.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from crossclaw.domain.aliases import Callback
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Invalid
from crossclaw.gateway.frames import (
    InvalidFrame,
    Request,
    decode_request,
    error_body,
    event,
    refusal,
    response,
)
from crossclaw.gateway.handshake import (
    POLICY_VIOLATION,
    Admitted,
    ConnectionFacts,
    ConnectRefused,
    Handshake,
)
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.pauses import TooManyGuesses

ConnectionState = Literal["challenged", "connected", "closed"]
NORMAL = 1000
REASON_BYTES_MAX = 120  # a close frame has room for 123


class Send(msgspec.Struct, frozen=True):
    frame: bytes


class Welcome(msgspec.Struct, frozen=True):
    """The client is in: it may send larger frames and gets events from now on."""

    admitted: Admitted


class ConnectRequested(msgspec.Struct, frozen=True):
    """`connect` was asked: `admit` decides it before anything else is read."""

    request: Request


class Dispatch(msgspec.Struct, frozen=True):
    request: Request


class RequestRefused(msgspec.Struct, frozen=True):
    """A request that was refused; the connection's owner counts them."""

    frame: bytes


class Close(msgspec.Struct, frozen=True):
    code: int
    reason: str


class Drop(msgspec.Struct, frozen=True):
    """Ends the connection at once and without an answer."""


Action = Send | Welcome | ConnectRequested | Dispatch | RequestRefused | Close | Drop
Greet = Callable[[Admitted], Any]
"""Makes the payload of hello-ok."""


class Connection:
    __slots__ = (
        "_clock",
        "_greet",
        "_handshake",
        "_known",
        "_limits",
        "admitted",
        "nonce",
        "state",
    )

    def __init__(
        self,
        handshake: Handshake,
        greet: Greet,
        known: ConnectionFacts,
        *,
        nonce: str,
        clock: Clock,
        limits: GatewayLimits,
    ) -> None:
        self._handshake = handshake
        self._greet = greet
        self._known = known
        self._clock = clock
        self._limits = limits
        self.nonce = nonce
        self.state: ConnectionState = "challenged"
        self.admitted: Admitted | None = None

    @property
    def address(self) -> str:
        return self._known.address

    @property
    def is_local(self) -> bool:
        return self._known.local

    def open(self) -> list[Action]:
        challenge = {"nonce": self.nonce, "ts": self._clock.now_ms()}
        return [Send(event("connect.challenge", challenge).unnumbered)]

    def receive(self, data: str | bytes) -> list[Action]:
        match self.state:
            case "challenged":
                return self._first(data)
            case "connected":
                return self._next(data)
            case "closed":
                return []

    def time_over(self) -> list[Action]:
        """Ends a handshake that has taken too long."""
        return self.close(NORMAL, "handshake timeout") if self.state == "challenged" else []

    def close(self, code: int, reason: str) -> list[Action]:
        if self.state == "closed":
            return []
        self.state = "closed"
        return [Close(code, _short(reason))]

    def _first(self, data: str | bytes) -> list[Action]:
        if len(data) > self._limits.handshake_bytes_max:
            return self.close(1009, "the first frame is too large")
        try:
            request = decode_request(data)
        except InvalidFrame:
            return self.close(POLICY_VIOLATION, "invalid request frame")
        if request.method != "connect":
            error = Invalid("invalid handshake: first request must be connect")
            return self._refuse(request, ConnectRefused(error))
        return [ConnectRequested(request)]

    async def admit(self, request: Request, on_secret: Callback = lambda: None) -> list[Action]:
        try:
            admitted = await self._handshake.admit(
                request.params, self.nonce, self._known, on_secret
            )
        except TooManyGuesses:
            self.state = "closed"
            return [Drop()]
        except ConnectRefused as refused:
            return self._refuse(request, refused)
        if self.state != "challenged":
            return []  # closed meanwhile
        self.admitted = admitted
        self.state = "connected"
        hello = response(request.id, self._greet(self.admitted))
        return [Send(hello), Welcome(self.admitted)]

    def _refuse(self, request: Request, refused: ConnectRefused) -> list[Action]:
        answer = Send(refusal(request.id, error_body(refused.error, 4)))
        return [answer, *self.close(refused.close_code, str(refused.error))]

    def _next(self, data: str | bytes) -> list[Action]:
        try:
            request = decode_request(data)
        except InvalidFrame as error:
            return [RequestRefused(refusal(error.request_id or "invalid", error_body(error, 4)))]
        if request.method == "connect":
            again = Invalid("connect is only valid as the first request")
            return [RequestRefused(refusal(request.id, error_body(again, 4)))]
        return [Dispatch(request)]


def _short(reason: str) -> str:
    """The reason, cut to what a close frame can carry, at a whole letter."""
    return reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
