"""Gateways with their ports and links, in one process: what one's clients do is looked at through the other."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from crossclaw import app
from crossclaw.app.links import begin_links
from crossclaw.channels.contract import GivenChannel
from crossclaw.config import Config, Paths
from crossclaw.domain.authority import HOOKS
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import GATEWAY, secret_digests
from crossclaw.gateway.door_secrets import DoorSecrets
from crossclaw.gateway.http.hooks import hook_digests
from crossclaw.gateway.link_proof import LinkKey
from crossclaw.gateway.server import Connected
from crossclaw.providers.contract import Provider
from crossclaw.testing.gateway import config_for
from tests.ending import SOON_S
from tests.wire.served_gateway import TOKEN, ServedGateway, serve_somewhere

LEASED_S = 120.0


@dataclass
class Linked(ServedGateway):
    gateway: app.Gateway
    cut: Callable[[], None]
    """Its port closes, with all that is connected to it."""


@asynccontextmanager
async def linked(
    folder: Path,
    url: str,
    name: str,
    model: Provider,
    raw: Any = None,
    *,
    served: Sequence[str] | None = None,
    channels: Sequence[GivenChannel] = (),
) -> AsyncGenerator[Linked]:
    """`served`: the agents whose runs it takes."""
    ledger = {"url": url, "shared": True, "gateway": name, "agents": served}
    config = msgspec.convert(
        {**(raw or {}), "ledger": ledger}, Config, dec_hook=lambda kind, value: kind(value)
    )
    connected = Connected()
    outside = app.GatewayInputs(
        environ={},
        providers={model.name: model},
        channels=tuple(channels),
        clients=connected.clients,
        presence=connected.presence,
    )
    place = folder / name
    place.mkdir(exist_ok=True)
    paths = Paths(home=place, state_dir=place / "state", config_path=place / "openclaw.json")
    config, key = config_for(model, config), LinkKey(Secret(TOKEN))
    async with app.open_gateway(config, paths, outside) as gateway:
        door_digests = {GATEWAY: secret_digests(Secret(TOKEN))}
        if (hooks := hook_digests(config.hooks, Secret(TOKEN), "127.0.0.1")) is not None:
            door_digests[HOOKS] = hooks
        await DoorSecrets(gateway.ledger, gateway.credentials, outside.clock).settle(
            door_digests, is_agreed=False
        )
        server = app.build_server(config, outside, gateway, door_digests, key)
        connected.begin(server.presence, server.clients)
        scope = anyio.CancelScope()

        async def serve(*, task_status: anyio.abc.TaskStatus[int]) -> None:
            with scope:
                async with anyio.create_task_group() as serving:
                    port = await serving.start(serve_somewhere, server)
                    await begin_links(serving, gateway, f"http://127.0.0.1:{port}", key)
                    task_status.started(port)

        async with anyio.create_task_group() as tasks:
            port = await tasks.start(serve)
            yield Linked(f"http://127.0.0.1:{port}", port, place, gateway, scope.cancel)
            tasks.cancel_scope.cancel()


async def until(holds: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(SOON_S):
        while True:
            held = holds()
            if held if isinstance(held, bool) else await held:
                return
            await anyio.sleep(0.01)


async def see_each_other(*servers: Linked) -> None:
    """All links are made."""

    def all_linked() -> bool:
        known = [[n for n in each.gateway.neighbours if n.clients.presence] for each in servers]
        return all(len(others) == len(servers) - 1 for others in known)

    await until(all_linked)
