"""A gateway that reads its config from a file, and the doors by which somebody may be in."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2

from crossclaw import app
from crossclaw.config import Paths, load
from tests.wire.served_gateway import TOKEN, ServedGateway
from tests.wire.serving import Peer, connect_params, dial

NEW = "another-token-that-is-long-enough-to-be-taken-seriously"


@asynccontextmanager
async def serve_file(folder: Path, **sections: Any) -> AsyncGenerator[ServedGateway]:
    """As the command line does it: the token is in the file, and a changed file is taken over."""
    path = folder / "openclaw.json"
    auth = {"auth": {"token": TOKEN}}
    written = {**sections, "gateway": {**sections.get("gateway", {}), **auth}}
    path.write_text(json.dumps(written))
    path.chmod(0o600)
    paths = Paths(home=folder, state_dir=folder / "state", config_path=path)
    ready, found = anyio.Event(), list[str]()

    def on_ready(url: str, _token: str) -> None:
        found.append(url)
        ready.set()

    async def serve() -> None:
        await app.run_gateway(load(path, {}), paths, {}, port=0, on_ready=on_ready)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        yield ServedGateway(found[0], int(found[0].rpartition(":")[2]), folder)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def come_in(
    served_gateway: ServedGateway, token: str = TOKEN, **changes: Any
) -> AsyncGenerator[Peer]:
    async with dial(served_gateway) as peer:
        await peer.next()
        answer = await peer.ask("connect", connect_params(auth={"token": token}, **changes))
        assert answer["ok"], answer
        yield peer


async def patch(peer: Peer, changes: dict[str, Any]) -> dict[str, Any]:
    base = (await peer.ask("config.get", {}))["payload"]["hash"]
    return await peer.ask("config.patch", {"raw": json.dumps(changes), "baseHash": base})


def http(served_gateway: ServedGateway, token: str = TOKEN) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(base_url=served_gateway.url, headers=headers, timeout=30)


def asking(words: str, *, stream: bool) -> dict[str, Any]:
    return {"model": "openclaw", "messages": [{"role": "user", "content": words}], "stream": stream}


async def say(peer: Peer, run_id: str, words: str, key: str = "main") -> None:
    sent = {"sessionKey": key, "message": words, "idempotencyKey": run_id}
    assert (await peer.ask("chat.send", sent))["ok"]
