"""The whole gateway behind its gateway, on a free port, with the rehearsal model."""

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskStatus

from crossclaw import app
from crossclaw.config import Config, Loaded, Paths
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import GATEWAY, secret_digests
from crossclaw.gateway.server import GatewayServer, bind

TOKEN = "a-token-that-is-long-enough-to-be-taken-seriously"


@dataclass
class ServedGateway:
    url: str
    port: int
    folder: Path

    @property
    def ws(self) -> str:
        return self.url.replace("http", "ws", 1)

    @property
    def environ(self) -> dict[str, str]:
        """For programs that look for a gateway."""
        return {
            "HOME": str(self.folder),
            "OPENCLAW_STATE_DIR": str(self.folder / "state"),
            "OPENCLAW_GATEWAY_PORT": str(self.port),
            "OPENCLAW_GATEWAY_TOKEN": TOKEN,
        }


@asynccontextmanager
async def serve_gateway(
    folder: Path, *, port: int = 0, **sections: Any
) -> AsyncGenerator[ServedGateway]:
    """`sections` of the config, which is not read again: a test changes its file at any pace. The same
    folder again is the same gateway after a restart."""
    server = {"reload": {"mode": "off"}, **sections.pop("gateway", {})}
    config = msgspec.convert({**sections, "gateway": server}, Config)
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    loaded = Loaded(config, paths.config_path, False, {}, (), ())
    ready, found = anyio.Event(), list[str]()

    def on_ready(url: str, _token: str) -> None:
        found.append(url)
        ready.set()

    async def serve() -> None:
        environ = {"OPENCLAW_GATEWAY_TOKEN": TOKEN}
        await app.run_gateway(loaded, paths, environ, port=port, on_ready=on_ready)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        yield ServedGateway(found[0], int(found[0].rpartition(":")[2]), folder)
        tasks.cancel_scope.cancel()


async def serve_somewhere(
    server: GatewayServer,
    given: socket | None = None,
    tls: ssl.SSLContext | None = None,
    *,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """On a free port, with which it starts, or on this one."""
    with bind("127.0.0.1", 0) if given is None else given.dup() as listener:
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.serve, "127.0.0.1", listener, tls)
            task_status.started(listener.getsockname()[1])


@asynccontextmanager
async def open_with_server(folder: Path) -> AsyncGenerator[tuple[app.Gateway, GatewayServer]]:
    """Gateway and gateway, to be looked at; nothing is served."""
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    outside = app.GatewayInputs(environ={})
    async with app.open_gateway(Config(), paths, outside) as gateway:
        yield (
            gateway,
            app.build_server(Config(), outside, gateway, {GATEWAY: secret_digests(Secret(TOKEN))}),
        )
