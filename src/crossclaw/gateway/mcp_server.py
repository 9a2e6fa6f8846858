"""The MCP server: session tools for agents outside of the gateway. Imported when a client asks for it.

It keeps nothing between two requests, so its clients do not notice a restart of the gateway. A client that says
hello is given a session id all the same: it identifies the client, and tells two apart.
"""

from collections.abc import MutableMapping
from typing import Any, Protocol
from uuid import uuid4

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp.types import Tool as McpTool
from starlette.types import ASGIApp, Receive, Scope, Send

from crossclaw import __version__
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.texts import text_or_json
from crossclaw.door.principal import Principal
from crossclaw.gateway.frames import log_unforeseen
from crossclaw.providers.contract import ToolSpec

UNNAMED = "guest"
SESSION_ID = "mcp-session-id"
INSTRUCTIONS = (
    "You are a guest among the agents of a gateway and have a session of your own. sessions_list shows the "
    "others, sessions_send talks to one of them and waits for its reply. Others can send to you: call "
    "sessions_wait in a loop, and answer each message with sessions_reply. An answer of exactly "
    "REPLY_SKIP ends an exchange."
)


class McpTools(Protocol):
    async def list(self, principal: Principal, name: str) -> list[ToolSpec]: ...

    async def call(
        self,
        principal: Principal,
        name: str,
        tool_name: str,
        arguments: dict[str, Any],
        client_id: str | None,
    ) -> Any: ...


def mcp_application(
    tools: McpTools, principal: Principal, name: str | None, client_id: str | None, receive: Receive
) -> ASGIApp:
    """Answers one request, whose body comes from `receive`. `name` is what the address says; else the
    client's own word counts."""

    async def list_tools(
        context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        specs = await tools.list(principal, name or own_word(context) or UNNAMED)
        return ListToolsResult(tools=[described(spec) for spec in specs])

    async def call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        who = name or own_word(context) or UNNAMED
        try:
            arguments = params.arguments or {}
            result = await tools.call(principal, who, params.name, arguments, client_id)
        except CrossclawError as error:
            return answered(str(error), is_error=True)
        except Exception as error:  # noqa: BLE001  a tool's bug is an answer to its caller
            log_unforeseen(f"tool {params.name} over MCP", error)
            return answered("the tool failed; the gateway's log says why", is_error=True)
        return answered(result)

    server = Server(
        "crossclaw",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )

    async def application(scope: Scope, _receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(server, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, *_named_at_hello(receive, send))

    return application


class _JsonRpcMethod(msgspec.Struct):
    method: str = ""


def _named_at_hello(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Adds a session id for the client to the answer to `initialize`."""
    is_hello = False

    async def receive_named() -> MutableMapping[str, Any]:
        nonlocal is_hello
        message = await receive()
        if body := message.get("body"):
            try:
                is_hello = msgspec.json.decode(body, type=_JsonRpcMethod).method == "initialize"
            except msgspec.DecodeError:
                is_hello = False  # the server says what is wrong with it
        return message

    async def send_named(message: MutableMapping[str, Any]) -> None:
        if is_hello and message["type"] == "http.response.start" and message["status"] == 200:
            named = (SESSION_ID.encode(), uuid4().hex.encode())
            message = {**message, "headers": [*message.get("headers", ()), named]}
        await send(message)

    return receive_named, send_named


def described(spec: ToolSpec) -> McpTool:
    return McpTool(name=spec.name, description=spec.description, input_schema=spec.schema)


def answered(result: Any, *, is_error: bool = False) -> CallToolResult:
    plain = msgspec.to_builtins(result)
    data = plain if isinstance(plain, dict) else None
    return CallToolResult(
        content=[TextContent(type="text", text=text_or_json(plain))],
        structured_content=data,
        is_error=is_error,
    )


def own_word(context: ServerRequestContext[Any]) -> str | None:
    said = context.session.client_params
    return said.client_info.name if said is not None and said.client_info is not None else None
