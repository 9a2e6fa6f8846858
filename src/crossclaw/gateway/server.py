"""The gateway: one port for WebSocket and HTTP, served by uvicorn inside our own task group."""

import errno
import socket
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus
from starlette.types import Receive, Scope, Send
from uvicorn import Server

from crossclaw.config.gateway import GatewayConfig
from crossclaw.domain.errors import ConfigInvalid, CrossclawError
from crossclaw.door.dispatch import Door
from crossclaw.gateway.auth import SecretDigests, is_loopback
from crossclaw.gateway.client import Client
from crossclaw.gateway.connection import Connection
from crossclaw.gateway.context import GatewayContext
from crossclaw.gateway.edge import Edge, Endpoint, Routes
from crossclaw.gateway.handshake import ConnectionFacts, Handshake
from crossclaw.gateway.hello import ListPresence
from crossclaw.gateway.http.health import live_endpoints
from crossclaw.gateway.http.page import page_endpoints
from crossclaw.gateway.origins import Origins, is_loopback_name
from crossclaw.gateway.publisher import EventPublisher
from crossclaw.gateway.reception import Admission, Reception
from crossclaw.gateway.sockets import WireConfig
from crossclaw.gateway.tls import TlsWireConfig
from crossclaw.runs.feed import Feed

_PASSED_ON = {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"}
"""Headers of proxies: behind one, everybody comes from this machine."""
BACKLOG = 2048  # a thousand clients that come back at once are not refused by the kernel
ACCEPTING_TURNS = 5  # of the event loop, from the kernel's accept to a protocol that reads


class CannotListen(CrossclawError):
    pass


class GatewayServer:
    def __init__(
        self,
        door: Door,
        feed: Feed,
        settings: GatewayConfig,
        admission: Admission,
        context: GatewayContext,
        *,
        routes: Routes = Routes(),  # noqa: B008  frozen
    ) -> None:
        self._door = door
        self._feed = feed
        self._authenticator = admission.authenticator
        self._pairings = admission.pairings
        self._settings = settings
        self._context = context
        self._routes = routes
        self._reception = Reception(admission, context)
        self._publisher = EventPublisher(
            self._reception.audience, context.clock, context.limits, context.with_media
        )

    # ── what others may ask ────────────────────────────────────────────────────────────────────

    def presence(self) -> list[dict[str, Any]]:
        return self._reception.presence.entries()

    def presence_here(self) -> list[dict[str, Any]]:
        """The clients of this gateway alone."""
        return self._reception.presence.entries_here()

    def clients(self) -> list[Client]:
        return self._reception.clients

    @property
    def endpoints(self) -> list[Endpoint]:
        """Every HTTP route."""
        ui = self._settings.control_ui
        page = page_endpoints(ui.base_path) if ui.enabled else []
        return [*live_endpoints(), *page, *self._routes.endpoints]

    def rotate(self, door_digests: Mapping[str, SecretDigests]) -> list[str]:
        """Replaces the secrets and closes all clients that came in with the old ones. Returns the doors that
        changed."""
        return self._authenticator.rotate(door_digests)

    # ── serving ────────────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: str,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled; then all clients are notified, and closed within two seconds. The listener
        stays open: whoever connects afterwards waits for the next gateway that serves it."""
        limits = self._context.limits
        application = self._application(host, encrypted=tls is not None)
        wire = TlsWireConfig(application, limits, tls) if tls else WireConfig(application, limits)
        server = _Server(wire, listener)
        with ExitStack() as until_closed:
            until_closed.callback(self._feed.subscribe(self._publisher.on_event, outward=True))
            until_closed.enter_context(self._context.watchdog.watching())
            await self._reception.look_at_health()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve_shielded, name="uvicorn")
                tasks.start_soon(self._publisher.serve, name="event publisher")
                tasks.start_soon(self._reception.serve, name="reception")
                await server.listening.wait()
                task_status.started()
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.CancelScope(shield=True):
                        await server.admit_nobody()
                        self._context.neighbours.close()
                        await self._reception.close("service restart")
                        server.stop.set()

    def _application(self, host: str, *, encrypted: bool) -> Edge:
        settings = self._settings
        origins = Origins(host, settings.control_ui.allowed_origins, encrypted=encrypted)
        handshake = Handshake(self._authenticator, self._pairings, origins, self._context.clock)

        async def upgrade(scope: Scope, receive: Receive, send: Send) -> None:
            await self._serve_client(handshake, scope, receive, send)

        return Edge(
            Routes(self.endpoints, self._routes.find_webhooks),
            upgrade,
            self._authenticator,
            origins,
            self._context.limits,
            settings.trusted_proxies,
        )

    async def _serve_client(
        self, handshake: Handshake, scope: Scope, receive: Receive, send: Send
    ) -> None:
        context = self._context
        await receive()
        await send({"type": "websocket.accept"})
        conn_id = context.ids.new()
        connection = Connection(
            handshake,
            lambda admitted: self._reception.hello(conn_id, admitted, self._door.registry.names),
            _circumstances(scope),
            nonce=context.ids.new(),
            clock=context.clock,
            limits=context.limits,
        )
        client = Client(
            conn_id,
            connection,
            scope["crossclaw.socket"],
            self._door,
            self._reception,
            context,
        )
        await client.serve(receive)


class Connected:
    """Who is connected, for the parts that are built before the server: nobody until it serves."""

    def __init__(self) -> None:
        self._presence: ListPresence = list
        self._clients: Callable[[], list[Client]] = list

    def begin(self, presence: ListPresence, clients: Callable[[], list[Client]]) -> None:
        self._presence, self._clients = presence, clients

    def presence(self) -> list[dict[str, Any]]:
        return self._presence()

    def clients(self) -> list[Client]:
        return self._clients()


def _circumstances(scope: Scope) -> ConnectionFacts:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    host = headers.get(b"host")
    passed_on = any(name in _PASSED_ON for name in headers)
    address = scope["crossclaw.address"]
    return ConnectionFacts(
        address=address,
        host=host,
        origin=headers.get(b"origin"),
        local=is_loopback(address) and is_loopback_name(host) and not passed_on,
    )


class _Server(Server):
    """uvicorn without its signal handlers and without its timer: we say when it ends."""

    def __init__(self, config: WireConfig, listener: socket.socket) -> None:
        super().__init__(config)
        self._unauthenticated = config.unauthenticated
        self._listener = listener.dup()  # uvicorn closes what it is given
        self.listening = anyio.Event()
        self.stop = anyio.Event()

    async def serve_shielded(self) -> None:
        """Serves until `stop` is set, which a cancelled gateway does: so it still closes all connections properly."""
        with anyio.CancelScope(shield=True):
            await self.serve([self._listener])
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()  # those that do not read would never be done
        self._unauthenticated.cut_all()  # those whose handshake of TLS is not done are no connections yet

    async def admit_nobody(self) -> None:
        """Stops accepting before anything else closes. A connection accepted while asyncio's server closes
        would be an open socket that nobody reads; those accepted so far get their turns."""
        loop: Any = anyio.lowlevel.current_token().native_token
        loop.remove_reader(self._listener)
        for _ in range(ACCEPTING_TURNS):
            await anyio.lowlevel.checkpoint()

    async def main_loop(self) -> None:
        self._listener.listen(
            BACKLOG
        )  # asyncio told the kernel the few that it accepts in one turn
        self.listening.set()
        await self.stop.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; with it on, an
    # answer that follows an event waits 40 ms for the client's acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        hint = "; --port takes another one" if error.errno == errno.EADDRINUSE else ""
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}{hint}") from error
    return listener


def listen_host(settings: GatewayConfig) -> str:
    """The address that `gateway.bind` means."""
    match settings.bind:
        case "loopback" | "auto":
            return "127.0.0.1"
        case "lan":
            return "0.0.0.0"
        case "custom" if settings.custom_bind_host:
            return settings.custom_bind_host
        case _:
            raise ConfigInvalid(
                f"gateway.bind {settings.bind} is not supported; use loopback, lan, or custom "
                "with gateway.customBindHost"
            )
