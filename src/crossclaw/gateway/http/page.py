"""The control page: served without a secret, and holds none."""

import gzip
from functools import lru_cache
from pathlib import Path

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import crossclaw
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint, RequestHandler

FILES_MAX = 64  # of the page, kept compressed; it has some thirty
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
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types crossclaw"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "vary": "accept-encoding",
    "cache-control": "no-store",  # a page and a gateway of two versions would not understand each other
}


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


def _serving(file: Path) -> RequestHandler:
    async def handle(request: Request, _principal: Principal) -> Response:
        small = "gzip" in request.headers.get("accept-encoding", "")
        try:
            body = await anyio.to_thread.run_sync(_read, file, small)
        except FileNotFoundError:
            return PlainTextResponse("Not Found", 404)
        headers = _HEADERS | ({"content-encoding": "gzip"} if small else {})
        return Response(body, headers=headers, media_type=_KINDS[file.suffix])

    return handle


def _read(file: Path, small: bool) -> bytes:
    """A file's bytes, cached by its time of change, so that whoever works on the page sees changes."""
    return _kept(file, file.stat().st_mtime_ns, small)


@lru_cache(FILES_MAX)
def _kept(file: Path, _changed_at: int, small: bool) -> bytes:
    body = file.read_bytes()
    return gzip.compress(body, mtime=0) if small else body
