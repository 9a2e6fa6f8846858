"""The bridge between an MCP client on standard input and the gateway's /mcp. Needs the extra `mcp`."""

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp.types.version import LATEST_MODERN_VERSION

from crossclaw import __version__
from crossclaw.gateway.mcp_server import INSTRUCTIONS, SESSION_ID, UNNAMED, own_word

LEAVE_S = 2.0  # for the good-bye
ANSWER_S_MAX = 24 * 3600.0  # as long as sessions_send may wait; the gateway says when it is over


class Bridge:
    def __init__(
        self, url: str, token: str, name: str | None, trusted: ssl.SSLContext | None = None
    ) -> None:
        self._url = url
        self._verify: ssl.SSLContext | bool = trusted or True
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._headers[SESSION_ID] = uuid4().hex
        self._name = name

    async def look(self) -> int | None:
        """The status of the gateway's answer to an empty request; None: nobody answers."""
        async with self._http() as http:
            try:
                return (await http.post(self._url, json={})).status_code
            except httpx2.TransportError:
                return None

    async def serve(self) -> None:
        server = Server(
            "crossclaw",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            with anyio.move_on_after(LEAVE_S, shield=True):
                await self._leave()

    async def _leave(self) -> None:
        """Tells the gateway that this client leaves: so the next one under this name need not wait until it
        is clear that this one is gone."""
        async with self._http() as http:
            with suppress(httpx2.HTTPError):
                kind = {"content-type": "application/json"}
                await http.request("DELETE", self._url, headers=kind)

    async def _list_tools(
        self, context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        async with self._gateway(context) as gateway:
            return await gateway.list_tools()

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        try:
            async with self._gateway(context) as gateway:
                return await gateway.call_tool(params.name, params.arguments)
        except* (MCPError, httpx2.HTTPError) as group:
            reason = _first(group)
        text = (
            f"the gateway did not answer ({reason}); is it running? Start it: crossclaw gateway run"
        )
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)

    @asynccontextmanager
    async def _gateway(self, context: ServerRequestContext[Any]) -> AsyncGenerator[Client]:
        """A client for one request. In this version of the protocol every request stands for itself: there is
        no session that a restart of the gateway could lose."""
        name = self._name or own_word(context) or UNNAMED
        url = f"{self._url}?{urlencode({'name': name})}"
        async with self._http() as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=LATEST_MODERN_VERSION, cache=None) as client:
                yield client

    def _http(self) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(30.0, read=ANSWER_S_MAX)
        return httpx2.AsyncClient(headers=self._headers, timeout=timeout, verify=self._verify)


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
