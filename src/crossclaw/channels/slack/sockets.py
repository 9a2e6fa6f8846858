"""Slack's Socket Mode: envelopes come over a WebSocket, and each is acknowledged after its event was accepted.

What is not acknowledged comes again, also over another connection. Slack closes every connection after a while
and says so before; then the next is opened at once. From
https://docs.slack.dev/apis/events-api/using-socket-mode, October 2026.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.slack.payloads import SlackEnvelope
from crossclaw.channels.websocket import Dial, SocketDown, Websocket, open_websocket, pause_if_short
from crossclaw.domain.aliases import Callback
from crossclaw.domain.errors import AccountBroken, ChannelDown, CrossclawError

log = logging.getLogger(__name__)

ENVELOPE_BYTES_MAX = 8 * 2**20
QUIET_S_MAX = 60.0  # Slack pings every few seconds: a socket that is silent for so long is deaf
LOOK_S = 15.0
HELLO_S_MAX = 30.0


class SocketEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The callbacks of Socket Mode. `happened` returns when an event is stored or known to be irrelevant."""

    find: Callable[[], Awaitable[str]]
    connected: Callable[[int | None, bool], Awaitable[None]]
    """Called with the number of connections of this app, and whether messages may have been missed before."""
    happened: Callable[[msgspec.Raw], Awaitable[None]]
    heard: Callback


async def serve_socket_mode(events: SocketEvents, dial: Dial) -> None:
    """Keeps connections until cancelled. One that never got through raises ChannelDown: the caller waits
    before it starts again."""
    short, gap = 0, True
    while True:
        began = anyio.current_time()
        connection = _SocketModeConnection(events, gap)
        url = await events.find()
        try:
            async with open_websocket(url, bytes_max=ENVELOPE_BYTES_MAX, dial=dial) as socket:
                await connection.run(socket)
        except SocketDown as error:
            connection.why = str(error)
        if connection.error is not None:
            raise connection.error
        if not connection.greeted:
            raise ChannelDown(f"Slack's Socket Mode: {connection.why}")
        gap = not connection.was_requested
        short = await pause_if_short(short, anyio.current_time() - began)
        log.info("Slack's Socket Mode is opened again: %s", connection.why)


class _SocketModeConnection:
    def __init__(self, events: SocketEvents, gap: bool) -> None:
        self._events = events
        self._gap = gap
        self.greeted = False
        self.was_requested = False
        """Whether Slack asked for a new connection, and keeps for it what comes meanwhile."""
        self.why = "the connection ended"
        self.error: CrossclawError | None = None

    async def run(self, socket: Websocket) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, socket, tasks)
            try:
                await self._read(socket)
            except SocketDown as down:
                self.why = str(down)
            except CrossclawError as error:
                self.error = error
            tasks.cancel_scope.cancel()

    async def _watch(self, socket: Websocket, tasks: anyio.abc.TaskGroup) -> None:
        began = anyio.current_time()
        while True:
            await anyio.sleep(LOOK_S)
            now = anyio.current_time()
            if now - socket.heard_at > QUIET_S_MAX:
                self.why = "nothing was heard for too long"
                break
            if not self.greeted and now - began > HELLO_S_MAX:
                self.why = "no greeting came"
                break
        tasks.cancel_scope.cancel()

    async def _read(self, socket: Websocket) -> None:
        while True:
            data = await socket.receive()
            self._events.heard()
            envelope = _envelope(data)
            if envelope is None:
                continue
            if envelope.type == "hello":
                self.greeted = True
                await self._events.connected(envelope.num_connections, self._gap)
            elif envelope.type == "disconnect":
                self._leave(envelope.reason)
                return
            else:
                await self._take(socket, envelope)

    def _leave(self, reason: str | None) -> None:
        self.why, self.was_requested = f"Slack asks for a new connection ({reason})", True
        if reason == "link_disabled":
            self.error = AccountBroken(
                "Socket Mode is off for this app: switch it on at https://api.slack.com/apps → your app → Socket Mode"
            )

    async def _take(self, socket: Websocket, envelope: SlackEnvelope) -> None:
        if envelope.type == "events_api":
            await self._events.happened(envelope.payload)
        if envelope.envelope_id is not None:
            await socket.send(msgspec.json.encode({"envelope_id": envelope.envelope_id}).decode())


def _envelope(data: bytes) -> SlackEnvelope | None:
    try:
        return msgspec.json.decode(data, type=SlackEnvelope)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        log.warning("Slack said something that could not be read (%s bytes)", len(data))
        return None
