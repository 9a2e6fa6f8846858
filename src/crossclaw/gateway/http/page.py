"""The control page and the sign of life: what is served without a secret, and holds none."""

from pathlib import Path

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import crossclaw
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint, Handle
from crossclaw.gateway.http.answers import json_answer

WEB = Path(crossclaw.__file__).parent / "web"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",  # a page and a gateway of two versions would not understand each other
}


def health_endpoint() -> Endpoint:
    async def handle(_request: Request, _principal: Principal) -> Response:
        return json_answer({"ok": True})

    return Endpoint(method="GET", path="/health", handle=handle, door=None)


def page_endpoints(base_path: str = "/", folder: Path = WEB) -> list[Endpoint]:
    """Every file of the folder has its own route; no path is ever put together from a request."""
    base = "/" + base_path.strip("/")
    below = base if base.endswith("/") else base + "/"
    routes = {
        below: folder / "index.html",
        **({base: folder / "index.html"} if base != below else {}),
    }
    for file in sorted(folder.rglob("*")):
        if file.suffix in _KINDS and file.is_file():
            routes[f"{below}static/{file.relative_to(folder).as_posix()}"] = file
    return [
        Endpoint(method="GET", path=path, handle=_serving(file), door=None)
        for path, file in routes.items()
    ]


def _serving(file: Path) -> Handle:
    async def handle(_request: Request, _principal: Principal) -> Response:
        try:
            body = await anyio.Path(file).read_bytes()
        except FileNotFoundError:
            return PlainTextResponse("Not Found", 404)
        return Response(body, headers=_HEADERS, media_type=_KINDS[file.suffix])

    return handle
