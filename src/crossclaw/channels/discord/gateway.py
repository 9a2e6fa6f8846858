"""Discord's gateway: the socket by which events come, kept open over reconnects.

Two numbers matter: `s` of the last event *received*, and that of the last one *accepted*, which is what we resume from
and what heartbeats say. So whatever was on its way when the process died comes again. A goodbye never says 1000 or
1001: the session stays at Discord for a while, and a restart within that time misses nothing.

From https://discord.com/developers/docs/events/gateway (API v10, August 2026).
"""

import itertools
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import IntEnum
from random import random
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.discord.payloads import (
    GatewayFrame,
    GatewayPlace,
    HelloEvent,
    ReadyEvent,
)
from crossclaw.channels.websocket import (
    Dial,
    SocketClosed,
    SocketDown,
    Websocket,
    open_websocket,
    pause_if_short,
)
from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import AccountBroken, ChannelDown, CrossclawError
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
INTENTS = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES | MESSAGE_CONTENT
EVENT_BYTES_MAX = 64 * 2**20  # the description of a very large server is one event
EVENTS_WAITING_MAX = 1_000  # beyond, the socket is not read and Discord keeps them
HELLO_S_MAX = 20.0
BEATS_MAX = 3  # heartbeats before a session must be there: two minutes
RESUMES_MAX = 3  # a session that cannot be resumed three times is given up
SAVE_EVERY_S = 5.0  # what is not saved comes again and is known by its id
LEAVE_CODE = 4000  # not 1000: the session can be resumed
INVALID_PAUSE_S = (1.0, 5.0)  # as Discord asks for after an invalid session


class Opcode(IntEnum):
    """What a frame of Discord's gateway is for."""

    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    RESUME = 6
    RECONNECT = 7
    INVALID = 9
    HELLO = 10
    ACK = 11


BROKEN = {
    4004: "Discord does not take the token: copy it anew from the Bot page of your application at"
    " https://discord.com/developers/applications",
    4010: "Discord refused the shard",
    4011: "this bot is on too many servers for one connection, and Crossclaw opens one",
    4012: "Discord does not serve this version of its API any more: update Crossclaw",
    4013: "Discord does not know the intents that were asked for: update Crossclaw",
    4014: "the Message Content Intent is off: switch it on at https://discord.com/developers/applications"
    " → your application → Bot → Privileged Gateway Intents → Message Content Intent",
}
SESSION_ENDED = {1000, 1001, 4003, 4007, 4009}
"""Close codes after which there is nothing to resume."""

_Ending = Literal["resume", "anew"]
_T = TypeVar("_T")


class ResumePoint(msgspec.Struct, frozen=True):
    """The point from which a session resumes."""

    session_id: str
    url: str
    seq: int
    failed: int = 0
    """Resumes in a row that failed."""


class GatewayEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The callbacks of the gateway, in this order: `ready` after Identify, which returns when what was missed
    before is stored, `resumed` after Resume; `happened` returns when an event is stored or known to be
    irrelevant; `keep` stores where to resume."""

    find: Callable[[], Awaitable[GatewayPlace]]
    ready: Callable[[ReadyEvent], Awaitable[None]]
    resumed: Callable[[], Awaitable[None]]
    happened: Callable[[str, msgspec.Raw], Awaitable[None]]
    heard: Callback
    keep: Callable[[ResumePoint | None], Awaitable[None]]


class DiscordGateway:
    def __init__(
        self, token: Secret, events: GatewayEvents, dial: Dial, point: ResumePoint | None
    ) -> None:
        self._token = token
        self._events = events
        self._dial = dial
        self.point = point

    async def serve(self) -> None:
        """Keeps the connection until cancelled. One that never got through raises ChannelDown: the caller
        waits before it starts again."""
        short = 0
        while True:
            began = anyio.current_time()
            connection = await self._connect()
            short = await pause_if_short(short, anyio.current_time() - began)
            if not connection.established and not connection.gave_up_session:
                raise ChannelDown(f"Discord's gateway: {connection.why}")
            log.info("Discord's gateway is asked again: %s", connection.why)

    async def _connect(self) -> "_Connection":
        resuming = self.point
        url = resuming.url if resuming else await self._find()
        connection = _Connection(self._token, self._events, resuming, url)
        try:
            async with open_websocket(
                _with_version(url),
                bytes_max=EVENT_BYTES_MAX,
                dial=self._dial,
                close_code=LEAVE_CODE,
            ) as socket:
                await connection.run(socket)
        except SocketDown as error:
            connection.why = str(error)
        except ChannelDown as error:
            connection.error = error
        finally:
            await self._remember(connection)
        if connection.error is not None:
            raise connection.error
        if connection.ending == "anew" and connection.invalid:
            low, high = INVALID_PAUSE_S
            await anyio.sleep(low + (high - low) * random())
        return connection

    async def _find(self) -> str:
        place = await self._events.find()
        if place.session_start_limit.remaining <= 0:
            raise ChannelDown(
                "Discord allows no more new sessions of this bot today",
                place.session_start_limit.reset_after / 1000,
            )
        return place.url

    async def _remember(self, connection: "_Connection") -> None:
        point = connection.point
        if connection.ending == "anew":
            point = None
        elif point is not None and not connection.established:
            failed = point.failed + 1
            point = None if failed >= RESUMES_MAX else msgspec.structs.replace(point, failed=failed)
        self.point = point
        with anyio.CancelScope(shield=True), suppress(CrossclawError):
            await self._events.keep(point)  # what is not kept is asked for again


class _Connection:
    """One connection, from Hello to its end. The reason of its end is in `ending`, `why` and `error`."""

    def __init__(
        self, token: Secret, events: GatewayEvents, resuming: ResumePoint | None, url: str
    ) -> None:
        self._token = token
        self._events = events
        self._resuming = resuming
        self._url = url
        self.point = resuming
        self.established = False
        self.invalid = False
        self.ending: _Ending = "resume"
        self.why = "the connection ended"
        self.error: Exception | None = None
        self._acknowledged = True
        self._was_given_session = False
        self._saved_at = 0.0

    @property
    def gave_up_session(self) -> bool:
        """Whether Discord has forgotten the session that we wanted to resume: ordinary after a while away."""
        return self._resuming is not None and self.ending == "anew"

    async def run(self, socket: Websocket) -> None:
        with anyio.move_on_after(HELLO_S_MAX) as patience:
            hello = _frame(await socket.receive())
        if patience.cancelled_caught or hello is None or hello.op != Opcode.HELLO:
            self.why = "no greeting came"
            return
        every_s = _decoded(hello.d, HelloEvent).heartbeat_interval / 1000
        send, receive = anyio.create_memory_object_stream[GatewayFrame](EVENTS_WAITING_MAX)
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_end, tasks, self._beat, socket, every_s)
            tasks.start_soon(self._until_end, tasks, self._work, receive)
            await socket.send(self._introduction())
            await self._until_end(tasks, self._read, socket, send)

    async def _until_end(
        self, tasks: anyio.abc.TaskGroup, part: Callable[..., Awaitable[None]], *given: Any
    ) -> None:
        """Runs one part of the connection; the first that ends, ends them all."""
        try:
            await part(*given)
        except SocketClosed as closed:
            self._judge(closed)
        except SocketDown as down:
            self.why = str(down)
        except CrossclawError as error:
            self.error = self.error or error
        tasks.cancel_scope.cancel()

    def _judge(self, closed: SocketClosed) -> None:
        self.why = str(closed)
        if closed.close_code in BROKEN:
            self.error = AccountBroken(BROKEN[closed.close_code])
        elif closed.close_code in SESSION_ENDED:
            self.ending = "anew"

    def _introduction(self) -> str:
        token = self._token.reveal()
        if self._resuming is not None:
            data: dict[str, Any] = {
                "token": token,
                "session_id": self._resuming.session_id,
                "seq": self._resuming.seq,
            }
            return _written(Opcode.RESUME, data)
        properties = {"os": sys.platform, "browser": "crossclaw", "device": "crossclaw"}
        return _written(
            Opcode.IDENTIFY, {"token": token, "intents": INTENTS, "properties": properties}
        )

    # ── the three parts ────────────────────────────────────────────────────────────────────────

    async def _beat(self, socket: Websocket, every_s: float) -> None:
        """Sends heartbeats. If one was not acknowledged before the next is due, the connection is dead though
        its socket is open."""
        await anyio.sleep(every_s * random())
        for number in itertools.count():
            if not self._acknowledged:
                self.why = "a heartbeat was not answered"
                return
            if number >= BEATS_MAX and not (self.established or self._was_given_session):
                self.why = "no session was given"
                return
            self._acknowledged = False
            await self._beat_once(socket)
            await anyio.sleep(every_s)

    async def _beat_once(self, socket: Websocket) -> None:
        await socket.send(_written(Opcode.HEARTBEAT, self.point.seq if self.point else None))

    async def _read(self, socket: Websocket, out: anyio.abc.ObjectSendStream[GatewayFrame]) -> None:
        while True:
            frame = _frame(await socket.receive())
            self._events.heard()
            match frame.op if frame is not None else None:
                case Opcode.DISPATCH if frame is not None:
                    await out.send(frame)
                case Opcode.HEARTBEAT:
                    await self._beat_once(socket)
                case Opcode.RECONNECT:
                    self.why = "Discord asks for a new connection"
                    return
                case Opcode.INVALID if frame is not None:
                    self.why, self.invalid = "the session is not valid any more", True
                    self.ending = "resume" if bytes(frame.d) == b"true" else "anew"
                    return
                case Opcode.ACK:
                    self._acknowledged = True

    async def _work(self, waiting: anyio.abc.ObjectReceiveStream[GatewayFrame]) -> None:
        """Handles events in their order. Each is accepted before the next is looked at."""
        async for frame in waiting:
            await self._take(frame)
            if self.point is not None and frame.s is not None:
                self.point = msgspec.structs.replace(self.point, seq=frame.s)
            if anyio.current_time() - self._saved_at >= SAVE_EVERY_S:
                self._saved_at = anyio.current_time()
                await self._events.keep(self.point)

    async def _take(self, frame: GatewayFrame) -> None:
        if frame.t == "READY":
            ready = _decoded(frame.d, ReadyEvent)
            asked = ready.resume_gateway_url
            url = asked if is_same_side(asked, self._url) else self._url
            self._was_given_session = True
            # It goes on from here only when what was missed before is stored: a session that is resumed has no READY.
            await self._events.ready(ready)
            self.point = ResumePoint(ready.session_id, url, frame.s or 0)
            self._saved_at = 0.0
            self.established = True
        elif frame.t == "RESUMED":
            await self._have_resumed()
        elif frame.t is not None:
            if self._resuming is not None:
                await self._have_resumed()  # what was missed comes first, the word for it last
            await self._events.happened(frame.t, frame.d)

    async def _have_resumed(self) -> None:
        if not self.established:
            self.established = True
            if self.point is not None:
                self.point = msgspec.structs.replace(self.point, failed=0)
            await self._events.resumed()


def _frame(data: bytes) -> GatewayFrame | None:
    """Decodes a frame; None if it cannot be read, which is no reason to leave."""
    try:
        return msgspec.json.decode(data, type=GatewayFrame)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        log.warning("Discord's gateway said something that could not be read (%s bytes)", len(data))
        return None


def _decoded(data: msgspec.Raw, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ChannelDown(f"Discord's gateway sent an unreadable {kind.__name__}") from None


def is_same_side(url: str, known: str) -> bool:
    """Whether the address belongs to the same host as before: the token is sent there."""
    there, here = urlsplit(url), urlsplit(known)
    names = [(part.hostname or "").split(".")[-2:] for part in (there, here)]
    return there.scheme == here.scheme and names[0] == names[1]


def _written(op: int, data: Any) -> str:
    return msgspec.json.encode({"op": op, "d": data}).decode()


def _with_version(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path or '/'}?v=10&encoding=json"
