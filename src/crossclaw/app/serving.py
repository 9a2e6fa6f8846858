"""Serving: runs the gateway on its port, and reopens it when its config changes or the database was
lost.

Here lower rooms are given the functions of higher ones: lanes, who executes a run and what follows
from its end; channels, who receives; the sweep, what each kind of timer does.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from socket import socket
from typing import Any

import anyio
import anyio.to_thread

from crossclaw import __version__
from crossclaw.app.leaving import Leaving
from crossclaw.app.links import begin_links
from crossclaw.app.opening import open_gateway
from crossclaw.app.parts import Gateway, GatewayInputs
from crossclaw.app.readiness import Readiness
from crossclaw.app.reloading import ConfigWritten, next_config
from crossclaw.app.shared_config import ConfigTaken
from crossclaw.app.sharing import has_others, publish_leaving
from crossclaw.config import Config, Loaded, Paths
from crossclaw.config.current import CurrentConfig, needs_opening
from crossclaw.config.supported import refuse_unsupported
from crossclaw.config.token import gateway_token
from crossclaw.disk.free_space import free_disk_bytes, is_disk_full
from crossclaw.disk.held import HeldFile
from crossclaw.disk.private import write_file
from crossclaw.domain.authority import HOOKS
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import (
    CrossclawError,
    StoreError,
    StoreFenced,
    StoreFull,
    StoreLocked,
    first_of,
    is_of_the_ledger,
)
from crossclaw.domain.events import SpeechAllowed
from crossclaw.domain.secret import Secret
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller
from crossclaw.gateway.auth import GATEWAY, Authenticator, SecretDigests, gateway_digests
from crossclaw.gateway.certificate import ServedCertificate, open_certificate
from crossclaw.gateway.context import GatewayContext
from crossclaw.gateway.door_secrets import DoorSecrets
from crossclaw.gateway.edge import Endpoint, FindToken, Routes
from crossclaw.gateway.hello import ServerFacts
from crossclaw.gateway.http.following import Followers
from crossclaw.gateway.http.health import ready_endpoint
from crossclaw.gateway.http.hooks import HookDispatch, hook_digests, hook_endpoints
from crossclaw.gateway.http.links import ask_endpoint, link_endpoint
from crossclaw.gateway.http.mcp import mcp_endpoint, mcp_leaving_endpoint
from crossclaw.gateway.http.metrics import EventCounter, metrics_endpoint
from crossclaw.gateway.http.openai import OpenAiRuns
from crossclaw.gateway.http.openai_chat import chat_endpoints
from crossclaw.gateway.http.openai_responses import responses_endpoint
from crossclaw.gateway.http.tools import tools_invoke
from crossclaw.gateway.http.webhooks import Webhooks
from crossclaw.gateway.link_proof import LinkKey, UsedTickets
from crossclaw.gateway.node_calls import connected_clients
from crossclaw.gateway.reception import Admission
from crossclaw.gateway.server import Connected, GatewayServer, bind, listen_host
from crossclaw.gateway.watchdog import Watchdog
from crossclaw.runs.neighbours import ConnectedClients
from crossclaw.sessions.guests import Guests
from crossclaw.tools.guests import GuestTools
from crossclaw.tools.invoke import Invoker

log = logging.getLogger(__name__)


FULL_S = 5.0  # between two looks whether there is room again
LOCKED_S = (
    1.0  # a command took the folder for its one call while the gateway was closed: soon again
)

OnReady = Callable[[str, str], None]
"""Called with the address and the token once the gateway listens."""
OnConfig = Callable[[Config], None]
"""Called with every config that is applied, before the gateway opens with it."""


async def run_gateway(
    loaded: Loaded,
    paths: Paths,
    environ: Mapping[str, str],
    *,
    host: str | None = None,
    port: int | None = None,
    on_ready: OnReady | None = None,
    on_config: OnConfig | None = None,
    leaving: Leaving | None = None,
) -> None:
    """Opens the gateway and serves it on its port, until cancelled or until `leaving` is asked. A
    changed config reopens it; one with which it does not open is replaced by the one before. `host`
    and `port` override the config's."""
    serving = _Serving(paths, environ, host, port, on_ready, on_config)
    await serving.serve(loaded, leaving or Leaving())


class _Serving:
    def __init__(
        self,
        paths: Paths,
        environ: Mapping[str, str],
        host: str | None,
        port: int | None,
        on_ready: OnReady | None,
        on_config: OnConfig | None,
    ) -> None:
        self._paths, self._environ, self._host, self._port = paths, environ, host, port
        self._on_ready, self._on_config = on_ready, on_config
        self._listeners: dict[tuple[str, int], socket] = {}
        """The listening socket, by the address that was asked for. It stays open while the gateway
        reopens: clients that connect meanwhile wait a moment."""
        self._good: Loaded | None = None
        self._link: LinkKey
        self._failed: Loaded | None = None
        self._began_ms = SystemClock().now_ms()
        self._served_port = HeldFile(paths.port_path)

    async def serve(self, loaded: Loaded, leaving: Leaving) -> None:
        self._leaving = leaving
        going_on: Loaded | None = loaded
        try:
            while going_on is not None and not leaving.is_requested:
                going_on = await self._next(going_on)
        finally:
            for listener in self._listeners.values():
                listener.close()
            self._served_port.remove()
            if self._good is not None:
                self._paths.fingerprint_path.unlink(missing_ok=True)

    async def _next(self, loaded: Loaded) -> Loaded | None:
        """Serves with this config, if possible; returns the config to go on with, or None to
        end."""
        try:
            return await self._until_changed(loaded)
        except ConfigTaken as taken:
            log.info("%s: it opens with that", taken)
            return taken.loaded
        except StoreLocked:
            if self._good is None:
                raise
            log.warning("another process has the store; the gateway opens again when it is free")
            await anyio.sleep(LOCKED_S)
            return loaded
        except Exception as error:
            if is_disk_full(error):
                return await self._wait_for_room(loaded, error)
            trouble = StoreFenced if self._good is None else StoreError
            if loaded.config.ledger.shared and is_of_the_ledger(error, trouble):
                return await self._begin_anew(loaded, first_of(error))
            if self._good is None or self._good is loaded:
                raise
            why = first_of(error)
            log.error(
                "the changed config does not work; the gateway goes on with the old one: %s",
                why,
                exc_info=None if isinstance(why, CrossclawError | OSError) else why,
            )
            self._failed = loaded
            return self._good

    async def _begin_anew(self, loaded: Loaded, why: BaseException) -> Loaded:
        """Returns the config to reopen with, after this one of several gateways was cut off from
        the database. It has lost its work to the others and is of use again once it is back. That
        holds for one that was just being started too: nobody may be watching any more."""
        log.error("this gateway drops what it had under way, and opens anew: %s", why)
        await anyio.sleep(LOCKED_S)
        return self._good or loaded

    async def _wait_for_room(self, loaded: Loaded, error: Exception) -> Loaded:
        """Waits for free disk space, then returns the config to reopen with. A gateway that is
        being started raises instead: whoever started it is there to read what to do."""
        folder = self._paths.state_dir
        full = f"the disk that holds {folder} is full ({free_disk_bytes(folder) // 1024:,} KB left)"
        if self._good is None:
            raise StoreFull(
                f"{full}: make room there, then start the gateway again. Nothing that it accepted is lost."
            ) from error
        log.error("%s: the gateway opens again when there is room", full)
        await anyio.sleep(FULL_S)
        return loaded

    def _note_where(self, number: int, shown: ServedCertificate | None) -> None:
        """Writes port and certificate fingerprint to files, so that the command line finds a
        gateway on another port than configured and recognises its certificate. The port comes last:
        whoever finds it finds the rest."""
        if shown is None:
            self._paths.fingerprint_path.unlink(missing_ok=True)
        else:
            write_file(self._paths.fingerprint_path, f"{shown.fingerprint}\n")
        self._served_port.write(f"{number}\n")

    def _tell_config(self, loaded: Loaded) -> None:
        if self._on_config is not None:
            self._on_config(loaded.config)
        if self._good is not None and self._good is not loaded:
            for text in loaded.all_warnings:
                log.warning("%s: %s", loaded.path.name, text)

    async def _until_changed(self, loaded: Loaded) -> Loaded | None:
        self._tell_config(loaded)
        settings = loaded.config.gateway
        where = self._host or listen_host(settings)
        token = gateway_token(loaded.config, self._paths, self._environ)
        door_digests = _door_digests(loaded.config, token, where)
        shown = await anyio.to_thread.run_sync(open_certificate, settings.tls, self._paths, where)
        connected = Connected()
        config = CurrentConfig.of(loaded.config)
        written = ConfigWritten()
        inputs = GatewayInputs(
            environ=self._environ,
            loaded=loaded,
            take_rules=written.take,
            leave=self._leaving.ask,
            began_ms=self._began_ms,
            presence=connected.presence,
            clients=connected.clients,
        )
        async with open_gateway(config, self._paths, inputs) as gateway:
            is_agreed = await has_others(gateway.ledger.gateways)
            secrets = DoorSecrets(gateway.ledger, gateway.credentials, inputs.clock)
            await secrets.settle(door_digests, is_agreed=is_agreed)
            self._link = LinkKey(token)
            server = build_server(config, inputs, gateway, door_digests, self._link)
            await gateway.revoking.end_runs()
            connected.begin(server.presence, server.clients)
            take_rules = partial(self._take_rules, config, where, gateway, server)
            written.begin(take_rules)
            async with anyio.create_task_group() as tasks:
                listener = self._listen(where, settings.port if self._port is None else self._port)
                await tasks.start(server.serve, where, listener, shown and shown.context)
                number = listener.getsockname()[1]
                tasks.start_soon(gateway.places.tell_of_open_host, name="look at the host")
                for text in gateway.about.key_faults():  # now, and not only with the first message
                    log.warning("%s", text)
                await anyio.to_thread.run_sync(self._note_where, number, shown)
                scheme = "https" if shown else "http"
                address = f"{scheme}://{where}:{number}"
                await begin_links(tasks, gateway, address, self._link)
                self._ready(loaded, address, token, shown)

                def at_work() -> bool:
                    return gateway.lanes.at_work or gateway.outbox.at_work

                fresh = await self._leaving.unless_requested(
                    partial(
                        next_config,
                        loaded,
                        self._environ,
                        at_work,
                        self._failed,
                        take_rules,
                        written,
                    )
                )
                if fresh is None:
                    await publish_leaving(gateway.ledger.gateways, loaded.config, self._paths)
                    shared = loaded.config.ledger.shared
                    await self._leaving.drain(gateway.slots, at_work, among_others=shared)
                tasks.cancel_scope.cancel()
        if fresh is not None:
            log.info("the gateway opens again with the changed config")
        return fresh

    async def _take_rules(
        self,
        config: CurrentConfig,
        where: str,
        gateway: Gateway,
        server: GatewayServer,
        fresh: Loaded,
    ) -> str | None:
        """Puts the rules and secrets of a changed config in force; returns why not, if it
        cannot."""
        try:
            refuse_unsupported(fresh.config)
            token = await anyio.to_thread.run_sync(
                gateway_token, fresh.config, self._paths, self._environ
            )
            door_digests = _door_digests(fresh.config, token, where)
        except CrossclawError as error:
            log.warning("the changed config is not taken over, the one before holds on: %s", error)
            return str(error)
        if gateway.shared_config is not None:
            gateway.shared_config.take_config(fresh)
        if self._good is not None and not needs_opening(self._good.raw, fresh.raw):
            self._good = fresh
        if config.take_rules(fresh.config):
            log.info("the changed rules of the config hold from now on")
            await _tell_who_may_speak(gateway)
        if changed := server.rotate(door_digests):
            log.info(
                "the secret of %s has changed: what came by the old one ends", ", ".join(changed)
            )
            self._link.take_secret(token)
            if gateway.shared_config is not None:
                gateway.shared_config.take_token(token)
            secrets = DoorSecrets(gateway.ledger, gateway.credentials, SystemClock())
            for door in changed:
                await secrets.keep(door, door_digests.get(door))
            await gateway.revoking.end_runs()
        return None

    def _listen(self, where: str, port: int) -> socket:
        if (found := self._listeners.get((where, port))) is None:
            found = bind(where, port)
            for other in self._listeners.values():
                other.close()
            self._listeners = {(where, port): found}
        return found

    def _ready(
        self, loaded: Loaded, url: str, token: Secret, shown: ServedCertificate | None
    ) -> None:
        log.info("the gateway listens at %s", url)
        if shown is not None:
            log.info("its certificate has the sha256 fingerprint %s", shown.fingerprint)
        if self._good is None and self._on_ready is not None:
            self._on_ready(url, token.reveal())
        self._good = loaded


async def _tell_who_may_speak(gateway: Gateway) -> None:
    """Publishes who may speak now: the send policy may have changed under replies that are being
    written."""
    for run in gateway.lanes.under_way:
        session = await gateway.ledger.find_session(run.key)
        gateway.feed.publish(SpeechAllowed(run.key, gateway.endings.may_say(run.key, session)))


def _door_digests(config: Config, token: Secret, where: str) -> dict[str, SecretDigests]:
    door_digests = {GATEWAY: gateway_digests(config.gateway.auth, token, where)}
    if (hooks := hook_digests(config.hooks, token, where)) is not None:
        door_digests[HOOKS] = hooks
    return door_digests


def build_server(
    config: Config,
    inputs: GatewayInputs,
    gateway: Gateway,
    door_digests: Mapping[str, SecretDigests],
    link: LinkKey | None = None,
) -> GatewayServer:
    """Builds the server. `link` is the key by which gateways that share the ledger know each
    other."""
    context = GatewayContext(
        clock=inputs.clock,
        ids=inputs.ids,
        with_media=gateway.ledger.with_media,
        neighbours=gateway.neighbours,
    )
    admission = Admission(
        Authenticator(door_digests, inputs.clock, context.limits, gateway.credentials),
        gateway.pairings,
        ServerFacts(
            version=__version__,
            default_agent_id=config.agents.default_id,
            session_scope=config.session.scope,
            began_ms=inputs.began_ms,
        ),
        gateway.about.snapshot,
    )
    server = GatewayServer(
        gateway.door,
        gateway.feed,
        config.gateway,
        admission,
        context,
        routes=Routes(
            [
                *_endpoints(config, inputs, gateway, context.watchdog),
                *_link_endpoints(inputs, gateway, link),
            ],
            Webhooks(gateway.webhooks.find).find_endpoints,
        ),
    )
    gateway.neighbours.begin_telling(partial(_clients_here, server, gateway.guests))
    return server


def _clients_here(server: GatewayServer, guests: Guests) -> ConnectedClients:
    return connected_clients(server.presence_here(), server.clients(), guests.list_here())


def _link_endpoints(
    inputs: GatewayInputs, gateway: Gateway, link: LinkKey | None
) -> list[Endpoint]:
    if link is None or gateway.lease is None:
        return []
    own, clock, neighbours = gateway.ledger.owner, inputs.clock, gateway.neighbours
    used = UsedTickets()
    return [
        link_endpoint(gateway.feed, neighbours, link, own, clock, used),
        ask_endpoint(neighbours, link, own, clock, used),
    ]


def _endpoints(
    config: Config, inputs: GatewayInputs, gateway: Gateway, watchdog: Watchdog
) -> list[Endpoint]:
    """The HTTP endpoints beside the page and the health check."""
    door, ids, clock = gateway.door, inputs.ids, inputs.clock

    def model_of(agent_id: str) -> str:
        return config.model_for(agent_id, inputs.environ).primary

    invoker = Invoker(gateway.door, gateway.toolsets, gateway.resolver, config, model_of)
    guest_tools = GuestTools(
        gateway.context, door, gateway.toolsets, gateway.guests, gateway.guest_names, model_of
    )
    asking = OpenAiRuns(door, Followers(gateway.feed), config, ids)
    meter = EventCounter(
        gateway.feed,
        lambda: gateway.slots.taken,
        lambda: len(inputs.clients()),
        watchdog,
        gateway.ledger.unreadable,
        gateway.ledger.monitoring.open_runs,
    )
    chat, responses = (
        config.gateway.http.endpoints.chat_completions,
        config.gateway.http.endpoints.responses,
    )
    ready = Readiness(gateway.ledger, gateway.slots, gateway.lease, gateway.claiming)
    return [
        ready_endpoint(ready.is_ready),
        tools_invoke(invoker.invoke),
        mcp_endpoint(guest_tools, _guest_of(gateway)),
        mcp_leaving_endpoint(guest_tools, _guest_of(gateway)),
        metrics_endpoint(meter, door),
        *hook_endpoints(config.hooks, _dispatching(gateway)),
        *(chat_endpoints(asking, clock, chat.max_body_bytes) if chat.enabled else []),
        *(
            [responses_endpoint(asking, clock, responses.max_body_bytes)]
            if responses.enabled
            else []
        ),
    ]


def _guest_of(gateway: Gateway) -> FindToken:
    """Finds a token: a guest's own, or a device's."""
    return lambda value: gateway.guest_names.find_token(value) or gateway.pairings.find_token(value)


def _dispatching(gateway: Gateway) -> HookDispatch:
    async def dispatch(principal: Principal, method: str, params: dict[str, Any]) -> Any:
        return await gateway.door.dispatch(Caller(principal=principal), method, params)

    return dispatch
