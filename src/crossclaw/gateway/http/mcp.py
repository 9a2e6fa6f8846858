"""POST /mcp: the session tools for MCP clients. A client comes with a guest's token, which is bound to its
name, or with a device's or the gateway's and its name in the address: /mcp?name=codex."""

from importlib import import_module

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from crossclaw.disk.extras import how_to_install_there
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint, FindToken
from crossclaw.gateway.http.answers import problem
from crossclaw.sessions.guest_clients import CLIENT_ID_CHARS_MAX
from crossclaw.tools.guests import GuestTools


def mcp_endpoint(tools: GuestTools, find_token: FindToken) -> Endpoint:
    async def handle(request: Request, principal: Principal) -> ASGIApp:
        try:
            # Lazy: an extra, and half a second that a gateway without such clients never needs. In a thread, so
            # that the others do not wait for it either.
            await anyio.to_thread.run_sync(import_module, "crossclaw.gateway.mcp_server")
            from crossclaw.gateway.mcp_server import mcp_application  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
                raise
            text = f"MCP clients need an extra: {how_to_install_there('mcp')}; then start the gateway anew"
            return problem(text, "not_installed", 501)
        name, bound = request.query_params.get("name"), tools.bound_name(principal)
        return mcp_application(
            tools, principal, name or bound, _client_id(request), request.receive
        )

    return Endpoint(method="POST", path="/mcp", handle=handle, find_token=find_token)


def mcp_leaving_endpoint(tools: GuestTools, find_token: FindToken) -> Endpoint:
    """DELETE /mcp: a client ends its session, as MCP defines it."""

    async def handle(request: Request, _principal: Principal) -> ASGIApp:
        if client_id := _client_id(request):
            tools.left(client_id)
        return Response(status_code=204)

    return Endpoint(method="DELETE", path="/mcp", handle=handle, find_token=find_token)


def _client_id(request: Request) -> str | None:
    said = request.headers.get("mcp-session-id", "")
    return said if 0 < len(said) <= CLIENT_ID_CHARS_MAX else None
