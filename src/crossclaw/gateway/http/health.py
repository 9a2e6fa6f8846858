"""Health checks, for whoever restarts a gateway or sends it clients: no secret is needed, and no detail revealed."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.http.answers import json_answer

IsReady = Callable[[], Awaitable[bool]]
"""Whether a client that comes now is served."""


def live_endpoints() -> list[Endpoint]:
    """The liveness check: while it answers, the gateway need not be restarted."""

    async def handle(_request: Request, _principal: Principal) -> Response:
        return json_answer({"ok": True})

    return [
        Endpoint(method="GET", path=path, handle=handle, door=None)
        for path in ("/health", "/health/live")
    ]


def ready_endpoint(is_ready: IsReady) -> Endpoint:
    """The readiness check: 503 tells clients to go elsewhere, or to wait."""

    async def handle(_request: Request, _principal: Principal) -> Response:
        is_so = await is_ready()
        return json_answer({"ok": is_so}, 200 if is_so else 503)

    return Endpoint(method="GET", path="/health/ready", handle=handle, door=None)
