"""A connection to a gateway that reconnects by itself.

A gateway that takes over a changed config, or is started again, closes its connections and is there again
within seconds. A request that may be repeated is, under the same idempotency key; listeners get the event
`MISSED`, and look at what is stored before going on.
"""

import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskStatus

from crossclaw.client.errors import ClientError, GatewayDown, plain_errors
from crossclaw.client.finding import GatewayAddress
from crossclaw.client.peer import MISSED, Event, EventQueue, GatewayDefaults, Listeners
from crossclaw.client.wire import ClientName, WireConnection, open_wire
from crossclaw.domain.aliases import Callback, Tell
from crossclaw.domain.errors import CrossclawError

AWAY_S_MAX = (
    30.0  # a gateway that is started again is there by then; longer away, a person asks why
)
LOST_MAX = 20  # connections in one call: a gateway that loses more is not one to talk with
_WAIT_S_MIN, _WAIT_S_MAX = 0.1, 2.0
_TELL_AFTER = 3  # attempts: who takes over a config is back before, and nobody has noticed
_STEADY_S = 5.0  # a connection that lasted this long: the next one may be tried at once again

FindGateway = Callable[[], GatewayAddress]


class ReconnectingPeer:
    """A lasting connection. `away_s` is how long a caller or listener waits for a gateway that is away; 0:
    not at all, the first lost connection is the last."""

    embedded = False

    def __init__(
        self,
        find: FindGateway,
        scopes: Sequence[str],
        name: ClientName,
        away_s: float,
        tell: Tell | None,
    ) -> None:
        self.place = ""
        self.defaults = GatewayDefaults("main", "agent:main:main")
        self._find = find
        self._scopes = tuple(scopes)
        self._name = name
        self._away_s = away_s
        self._tell = tell or (lambda text: None)
        self._listeners = Listeners()
        self._wire: WireConnection | None = None
        self._over: ClientError | CrossclawError | None = None
        self._changed = anyio.Event()

    @property
    def is_away(self) -> bool:
        return self._wire is None

    def listen(self) -> AbstractContextManager[EventQueue]:
        return self._listeners.listen()

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout_s: float = 30,
        final: bool = False,
        repeat: bool | None = None,
    ) -> Any:
        may_repeat = "idempotencyKey" in params if repeat is None else repeat
        until = anyio.current_time() + timeout_s
        for left in reversed(range(LOST_MAX)):
            wire = await self._connection(until)
            left_s = max(0.0, until - anyio.current_time())
            try:
                return await wire.call(method, params, timeout_s=left_s, final=final)
            except GatewayDown as lost:
                self._lose(wire)
                if not left or (lost.may_have_arrived and not may_repeat):
                    raise
        raise AssertionError("the last attempt returned or raised")

    async def _connection(self, until: float) -> WireConnection:
        patience_s = min(until - anyio.current_time(), self._away_s)
        with anyio.move_on_after(max(0.0, patience_s)):
            while self._wire is None and self._over is None:
                await self._changed.wait()
        if self._wire is not None:
            return self._wire
        raise self._over or self._stays_away(patience_s)

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Keeps one connection after the other until cancelled. The first one must succeed."""
        try:
            with plain_errors():
                await self._hold(task_status.started)
            await self._come_back()
        except (ClientError, CrossclawError) as error:
            if self._wire is None and not self.place:
                raise
            self._end(error)

    async def _come_back(self) -> None:
        wait_s, lost_at = _WAIT_S_MIN, anyio.current_time()
        for attempt in itertools.count(1):
            if self._away_s <= 0:
                raise GatewayDown(f"lost the gateway at {self.place}: the connection ended")
            # First of all: a gateway that lets us in and cuts the line is not run into.
            await anyio.sleep(wait_s)
            wait_s = min(2 * wait_s, _WAIT_S_MAX)
            try:
                began = anyio.current_time()
                with plain_errors():
                    await self._hold(lambda: self._tell("the gateway was away; it is there again"))
                lost_at = anyio.current_time()
                wait_s = _WAIT_S_MIN if lost_at - began > _STEADY_S else wait_s
            except GatewayDown:
                if attempt == _TELL_AFTER:
                    self._tell(f"the gateway is away; waiting for it, up to {self._away_s:.0f} s")
                if anyio.current_time() - lost_at > self._away_s:
                    self._listeners.end(self._stays_away(self._away_s))

    async def _hold(self, connected: Callback) -> None:
        """Holds one connection, from its greeting until it is lost. The address is looked up each time:
        another config may say another port or token."""
        address = self._find()
        async with open_wire(address, self._scopes, self._name, self._listeners.put) as wire:
            self._take(wire, address)
            connected()
            await wire.ended.wait()
        self._lose(wire)

    def _take(self, wire: WireConnection, address: GatewayAddress) -> None:
        is_first = not self.place
        self.place, self.defaults, self._wire = address.url, wire.defaults, wire
        if not is_first:
            self._listeners.put(Event(MISSED, {}))
        self._announce_change()

    def _lose(self, wire: WireConnection) -> None:
        if self._wire is wire:
            self._wire = None

    def _end(self, error: ClientError | CrossclawError) -> None:
        self._over = error
        down = error if isinstance(error, ClientError) else GatewayDown(str(error))
        self._listeners.end(down)
        self._announce_change()

    def _announce_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _stays_away(self, patience_s: float) -> GatewayDown:
        return GatewayDown(
            f"the gateway at {self.place} went away and is not back after {patience_s:.0f} s",
            hint="crossclaw doctor looks for what is wrong; crossclaw gateway starts one here",
        )

    def close(self) -> None:
        self._listeners.close()


@asynccontextmanager
async def open_reconnecting(
    find: FindGateway,
    scopes: Sequence[str],
    *,
    name: ClientName | None = None,
    away_s: float = AWAY_S_MAX,
    tell: Tell | None = None,
) -> AsyncGenerator[ReconnectingPeer]:
    """Opens a lasting connection. `tell` is called with a sentence for a person when the gateway goes away or
    comes back."""
    line = ReconnectingPeer(find, scopes, name or ClientName(), away_s, tell)
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            await tasks.start(line.serve)
            try:
                yield line
            finally:
                line.close()
                tasks.cancel_scope.cancel()
