"""A proxy between clients and gateway that writes every frame down."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

_NOT_FOR_THE_WIRE = (1005, 1006)


class Recorded(NamedTuple):
    connection: int
    from_gateway: bool
    frame: dict[str, Any]


class Recording:
    def __init__(self, gateway_port: int) -> None:
        self.frames: list[Recorded] = []
        self._gateway_port = gateway_port
        self._connections = 0

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[int]:
        async with serve(self._handle, "127.0.0.1", 0, max_size=None, compression=None) as server:
            yield next(iter(server.sockets)).getsockname()[1]

    async def _handle(self, client: ServerConnection) -> None:
        self._connections += 1
        number = self._connections
        assert client.request is not None
        url = f"ws://127.0.0.1:{self._gateway_port}{client.request.path}"
        headers = client.request.headers
        origin, forwarded = headers.get("Origin"), headers.get("X-Forwarded-For")
        async with (
            connect(
                url,
                origin=Origin(origin) if origin else None,
                additional_headers={"X-Forwarded-For": forwarded} if forwarded else None,
                max_size=None,
                proxy=None,
                compression=None,
            ) as gateway,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self._pump, number, client, gateway, False)
            tasks.start_soon(self._pump, number, gateway, client, True)

    async def _pump(
        self,
        number: int,
        source: ClientConnection | ServerConnection,
        target: ClientConnection | ServerConnection,
        from_gateway: bool,
    ) -> None:
        with suppress(ConnectionClosed):
            async for data in source:
                with suppress(ValueError):
                    self.frames.append(Recorded(number, from_gateway, json.loads(data)))
                await target.send(data)
        code = source.close_code
        usable = code if code and code not in _NOT_FOR_THE_WIRE else 1000
        await target.close(usable, source.close_reason or "")
