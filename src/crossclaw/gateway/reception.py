"""The connected clients, and the events that all of them get: tick, health, presence, shutdown."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from crossclaw.domain.errors import CrossclawError
from crossclaw.door.dispatch import call_under_way
from crossclaw.door.principal import Principal
from crossclaw.gateway.auth import Authenticator
from crossclaw.gateway.client import Client
from crossclaw.gateway.context import GatewayContext
from crossclaw.gateway.frames import EventFrame, event
from crossclaw.gateway.handshake import POLICY_VIOLATION, Admitted
from crossclaw.gateway.hello import Health, Hello, Presence, ServerFacts
from crossclaw.gateway.pairing import Pairings
from crossclaw.gateway.subscribers import Audience, Subscription

log = logging.getLogger(__name__)

SERVICE_RESTART = 1012
FRAMES_A_BREATH = 500  # events to everybody: others get their turn after so many

ENDED = "unauthorized: the secret has changed"

LookAtHealth = Callable[[], Awaitable[Any]]


class Admission(msgspec.Struct, frozen=True):
    """What is needed to admit clients: secrets, devices, and the facts of hello-ok."""

    authenticator: Authenticator
    pairings: Pairings
    about: ServerFacts
    health: LookAtHealth


class Reception:
    def __init__(self, admission: Admission, context: GatewayContext) -> None:
        about = admission.about
        self._authenticator = admission.authenticator
        self._pairings = admission.pairings
        self._context = context
        self._look = admission.health
        self._authenticator.credentials.listen(self._send_away)
        clock, limits = context.clock, context.limits
        self.audience = Audience(limits)
        self.presence = Presence(about, clock, limits, context.neighbours.presence)
        self._health = Health()
        self._hello = Hello(about, self.presence, self._health, clock, limits)
        self._clients: set[Client] = set()
        self._newcomers: list[Client] = []
        self._changed = anyio.Event()
        self._empty = anyio.Event()
        context.neighbours.listen_to_others(self._others_changed)

    @property
    def ended(self) -> int:
        return self._authenticator.credentials.ended

    def stands(self, principal: Principal) -> bool:
        return self._authenticator.credentials.stands(principal.authority.made_by)

    @property
    def clients(self) -> list[Client]:
        return list(self._clients)

    def hello(self, conn_id: str, admitted: Admitted, methods: Iterable[str]) -> dict[str, Any]:
        return self._hello.payload(conn_id, admitted, methods)

    async def look_at_health(self) -> None:
        try:
            self._health.update(await self._look())
        except CrossclawError as error:
            log.warning("the gateway's health cannot be determined now: %s", error)

    # ── who comes and goes ─────────────────────────────────────────────────────────────────────

    def welcome(self, client: Client, admitted: Admitted) -> Subscription:
        self._clients.add(client)
        self.presence.came(client.conn_id, admitted, client.address)
        self._newcomers.append(client)
        self._here_changed()
        return self.audience.join(client, is_page=admitted.is_page)

    def farewell(self, client: Client) -> None:
        self._clients.discard(client)
        if not self._clients:
            self._empty.set()
        if client.subscription is not None:
            self.audience.leave(client.subscription)
        if self.presence.went(client.conn_id):
            self._here_changed()

    def _here_changed(self) -> None:
        self._changed.set()
        self._context.neighbours.own_changed()

    def _others_changed(self) -> None:
        """Updates presence: somebody came to another gateway, or left it."""
        self.presence.others_changed()
        self._changed.set()

    def _send_away(self) -> None:
        """Closes the clients whose credential is no longer valid. Who has ended its own gets the answer first."""
        call = call_under_way()
        for client in list(self._clients):
            if client.admitted is None or self.stands(client.admitted.principal):
                continue
            if call is not None and call.listening is client.subscription:
                client.leave(ENDED)
            else:
                client.close(POLICY_VIOLATION, ENDED)

    # ── what everybody hears ───────────────────────────────────────────────────────────────────

    async def serve(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tick, name="tick")
            tasks.start_soon(self._tell_health, name="health")
            tasks.start_soon(self._tell_presence, name="presence")

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(self._context.limits.tick_s)
            tick = event("tick", {"ts": self._context.clock.now_ms()}, droppable=True)
            await self._tell_everyone(tick, tick)

    async def _tell_health(self) -> None:
        while True:
            await anyio.sleep(self._context.limits.health_s)
            await self.look_at_health()
            await self._tell_everyone(self._health_frame(True), self._health_frame(False))

    async def _tell_presence(self) -> None:
        """Sends newcomers the gateway's health, and pages who is connected."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            newcomers, self._newcomers = self._newcomers, []
            whole, bare = self._health_frame(True), self._health_frame(False)
            for client in newcomers:
                client.push(whole if _may_read(client) else bare)
            payload = {"presence": self.presence.entries()}
            version = self._hello.state_version()
            presence = event("presence", payload, droppable=True, state_version=version)
            for subscriber in self.audience.watchers():
                subscriber.push(presence)
            await anyio.sleep(self._context.limits.presence_s)

    def _health_frame(self, may_read: bool) -> EventFrame:
        version = self._hello.state_version()
        return event("health", self._health.shown_to(may_read), state_version=version)

    async def _tell_everyone(self, readers: EventFrame, others: EventFrame) -> None:
        for count, client in enumerate(self.clients, 1):
            client.push(readers if _may_read(client) else others)
            if count % FRAMES_A_BREATH == 0:
                await anyio.lowlevel.checkpoint()

    # ── closing ────────────────────────────────────────────────────────────────────────────────

    async def close(self, reason: str) -> None:
        """Announces the shutdown, lets nearly finished answers out, then closes all connections."""
        limits = self._context.limits
        frame = event("shutdown", {"reason": reason})
        for client in list(self._clients):
            client.stop_accepting()
            client.push(frame)
        if any(client.at_work for client in self._clients):
            await anyio.sleep(limits.finish_s)
        self._empty = anyio.Event()
        for client in list(self._clients):
            client.close(SERVICE_RESTART, reason)
        if self._clients:
            with anyio.move_on_after(limits.last_close_s):
                await self._empty.wait()


def _may_read(client: Client) -> bool:
    return client.admitted is not None and client.admitted.may_read
