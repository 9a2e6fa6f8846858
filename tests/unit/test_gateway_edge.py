"""The edge: many spellings of requests, on every route, with and without the secret."""

from collections.abc import Callable, MutableMapping
from typing import Any

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from crossclaw.domain.clock import SystemClock
from crossclaw.domain.secret import Secret
from crossclaw.door.principal import Principal
from crossclaw.gateway.auth import Authenticator, secret_digests
from crossclaw.gateway.edge import NOBODY, Edge, Endpoint, Routes
from crossclaw.gateway.http.health import live_endpoints
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.origins import Origins

TOKEN = "t" * 43
BEARER = ("authorization", f"Bearer {TOKEN}")
HOST = ("host", "127.0.0.1:18789")
JSON = ("content-type", "application/json")
NO_ANSWER = 101
"""Upgraded, or dropped without a word."""
ROUTES = [("GET", "/health"), ("GET", "/secret"), ("POST", "/tools/invoke"), ("WS", "/")]

Asking = list[tuple[str, str]]


class Site:
    """The edge around two routes and an upgrade, all of which remember that they were reached."""

    def __init__(self, limits: GatewayLimits | None = None, proxies: tuple[str, ...] = ()) -> None:
        self.reached: list[str] = []
        self.principals: list[Principal] = []
        self.body = b""
        self.body_reads = 0
        limits = limits or GatewayLimits(body_bytes_max=100, body_time_s=0.05)
        self.keeper = Authenticator(
            {"gateway": secret_digests(Secret(TOKEN))}, SystemClock(), limits
        )
        endpoints = [
            *live_endpoints(),
            Endpoint(method="GET", path="/secret", handle=self._handle),
            Endpoint(method="POST", path="/tools/invoke", handle=self._handle),
        ]
        self.app = Edge(
            Routes(endpoints),
            self._upgrade,
            self.keeper,
            Origins("192.168.1.5", ["https://page.example", "http://[::1]:9000"]),
            limits,
            proxies,
        )

    async def _handle(self, request: Request, principal: Principal) -> Response:
        self.reached.append(request.url.path)
        self.principals.append(principal)
        self.body = await request.body()
        return PlainTextResponse("reached")

    async def _upgrade(self, scope: Any, _receive: Any, _send: Any) -> None:
        self.reached.append(f"upgrade {scope['crossclaw.address']}")

    async def ask(
        self,
        method: str,
        path: str,
        headers: Asking,
        chunks: list[bytes] | None = None,
        peer: str = "127.0.0.1",
    ) -> int:
        upgrade = method == "WS"
        scope = {
            "type": "websocket" if upgrade else "http",
            "method": "GET" if upgrade else method,
            "path": path,
            "raw_path": path.encode("latin-1"),
            "query_string": b"",
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in headers],
            "server": ("127.0.0.1", 18789),
            "client": (peer, 5000),
            "scheme": "ws" if upgrade else "http",
            "root_path": "",
        }
        if upgrade:
            del scope["method"]
        left = list(chunks if chunks is not None else [b"{}"])
        status: list[int] = []

        async def receive() -> MutableMapping[str, Any]:
            self.body_reads += 1
            if upgrade:
                return {"type": "websocket.connect"}
            if not left:
                return {"type": "http.disconnect"}
            body = left.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(left)}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"].endswith("response.start"):
                status.append(message["status"])

        await self.app(scope, receive, send)
        return status[0] if status else NO_ANSWER


def good(method: str) -> Asking:
    return [HOST, BEARER, *([JSON] if method == "POST" else [])]


def without(headers: Asking, name: str) -> Asking:
    return [each for each in headers if each[0] != name]


def changed(name: str, value: str) -> Callable[[Asking], Asking]:
    return lambda headers: [*without(headers, name), (name, value)]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_plain_request_with_the_secret_gets_through(method: str, path: str) -> None:
    assert await Site().ask(method, path, good(method)) in (200, 101)


HOSTS_REFUSED = [
    "evil.test:18789",
    "evil.test",
    "127.evil.test",
    "127.0.0.1.evil.test",
    "localhost.evil.test",
    "localhost.",
    "127.0.0.1.",
    "127.1",
    "0.0.0.0:18789",
    "2130706433",
    "10.0.0.9:18789",
    "[::2]:18789",
    "user@127.0.0.1",
    "127.0.0.1:18789, evil.test",
    "127.0.0.1:port",
    "127.0.0.1:",
    "127.0.0.1/evil",
    "",
    "[",
]
HOSTS_ALLOWED = [
    "127.0.0.1",
    "127.0.0.1:18789",
    "LOCALHOST:18789",
    "localhost:9999",
    "[::1]:18789",
    "192.168.1.5:18789",
    "page.example",
]


@pytest.mark.spec("G1")
@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("host", HOSTS_REFUSED)
async def test_a_request_for_another_host_is_refused(method: str, path: str, host: str) -> None:
    resources = Site()

    assert await resources.ask(method, path, changed("host", host)(good(method))) == 421
    assert resources.reached == []


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("host", HOSTS_ALLOWED)
async def test_our_own_names_are_known(method: str, path: str, host: str) -> None:
    assert await Site().ask(method, path, changed("host", host)(good(method))) in (200, 101)


ORIGINS_REFUSED = [
    "http://evil.test",
    "http://127.0.0.1",
    "http://127.0.0.1:3000",
    "http://localhost:3000",
    "http://127.0.0.1:18789.evil.test",
    "http://127.0.0.1:18789@evil.test",
    "http://page.example",
    "https://page.example:444",
    "https://sub.page.example",
    "null",
    "file://",
    "chrome-extension://abc",
    "",
    "http://[::1",
]
ORIGINS_ALLOWED = [
    "http://127.0.0.1:18789",
    "http://localhost:18789",
    "http://[::1]:18789",
    "https://page.example",
    "https://page.example:443",
    "http://[::1]:9000",
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("origin", ORIGINS_REFUSED)
async def test_foreign_pages_are_refused(method: str, path: str, origin: str) -> None:
    resources = Site()

    assert await resources.ask(method, path, changed("origin", origin)(good(method))) == 403
    assert resources.reached == []


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("origin", ORIGINS_ALLOWED)
async def test_our_own_pages_are_known(method: str, path: str, origin: str) -> None:
    assert await Site().ask(method, path, changed("origin", origin)(good(method))) in (200, 101)


PATHS_REFUSED = [
    "//{path}",
    "{path}/",
    "{path}%2f",
    "%2f{path}",
    "{path}%2F..",
    "{path}%5c",
    "{path}\\",
    "{path};x=1",
    "{path}%3bx",
    "/./{path}",
    "/..{path}",
    "/x/..{path}",
    "{path}/..",
    "{path}/.",
    "{path}%2e",
    "/%2e%2e{path}",
    "{path}%00",
    "{path}%252f",
    "{path}\x00",
    "{path} ",
    "{path}\xff",
    "{path}%20",
    "{upper}",
    "/x{path}",
]


@pytest.mark.parametrize(("method", "path"), [("GET", "/secret"), ("POST", "/tools/invoke")])
@pytest.mark.parametrize("spelled", PATHS_REFUSED)
@pytest.mark.parametrize("known", [True, False])
async def test_no_other_spelling_of_a_path_reaches_it(
    method: str, path: str, spelled: str, known: bool
) -> None:
    resources = Site()
    headers = good(method) if known else without(good(method), "authorization")

    status = await resources.ask(method, spelled.format(path=path, upper=path.upper()), headers)

    assert status in (400, 404)
    assert resources.reached == []


AUTHORIZATIONS_REFUSED = [
    None,
    "",
    "Bearer",
    "Bearer ",
    f"Basic {TOKEN}",
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN.upper()}",
    TOKEN,
    f"Bearer Bearer {TOKEN}",
    f"Bearer x {TOKEN}",
]


@pytest.mark.spec("G3")
@pytest.mark.parametrize(("method", "path"), [("GET", "/secret"), ("POST", "/tools/invoke")])
@pytest.mark.parametrize("value", AUTHORIZATIONS_REFUSED)
async def test_without_the_secret_nothing_works_and_no_body_is_read(
    method: str, path: str, value: str | None
) -> None:
    resources = Site()
    headers = without(good(method), "authorization")
    if value is not None:
        headers.append(("authorization", value))

    assert await resources.ask(method, path, headers) == 401
    assert resources.reached == []
    assert resources.body_reads == 0


async def test_a_guesser_is_dropped_over_http_too_and_the_right_secret_is_not() -> None:
    resources, answers = Site(), list[int]()
    wrong = changed("authorization", "Bearer wrong")(good("GET"))

    async def guess() -> None:
        answers.append(await resources.ask("GET", "/secret", wrong, chunks=[]))

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(guess)
        await anyio.wait_all_tasks_blocked()
        assert answers == [NO_ANSWER] * (100 - GatewayLimits().pauses_per_address_max)
        assert await resources.ask("GET", "/secret", good("GET")) == 200

    assert answers.count(401) == GatewayLimits().pauses_per_address_max


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonx",
    ],
)
async def test_only_json_is_posted(kind: str | None) -> None:
    resources = Site()
    headers = without(good("POST"), "content-type")
    if kind is not None:
        headers.append(("content-type", kind))

    assert await resources.ask("POST", "/tools/invoke", headers) == 415
    assert resources.body_reads == 0


@pytest.mark.parametrize("site_says", ["same-origin", "same-site", "none", "cross-site"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_what_a_browser_says_of_another_site_changes_nothing_here(
    method: str, path: str, site_says: str
) -> None:
    status = await Site().ask(method, path, [*good(method), ("sec-fetch-site", site_says)])

    refused = site_says == "cross-site" and method != "GET"
    assert status == 403 if refused else status in (200, 101)


@pytest.mark.parametrize("name", ["host", "origin", "authorization", "content-type"])
async def test_a_header_that_decides_comes_once(name: str) -> None:
    headers = [*good("POST"), ("origin", "http://127.0.0.1:18789")]
    value = dict(headers)[name]

    assert await Site().ask("POST", "/tools/invoke", [*headers, (name, value)]) == 400


async def test_a_body_is_bounded_by_what_it_says_and_by_what_it_is() -> None:
    resources = Site()
    says = [*good("POST"), ("content-length", "101")]

    assert await resources.ask("POST", "/tools/invoke", says) == 413
    assert resources.body_reads == 0
    assert await resources.ask("POST", "/tools/invoke", good("POST"), [b"x" * 60, b"y" * 60]) == 413
    assert await resources.ask("POST", "/tools/invoke", good("POST"), [b"x" * 60, b"y" * 40]) == 200
    assert resources.body == b"x" * 60 + b"y" * 40


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/tools/invoke", 405),
        ("DELETE", "/secret", 405),
        ("OPTIONS", "/tools/invoke", 405),
        ("TRACE", "/health", 405),
        ("HEAD", "/health", 200),
        ("HEAD", "/secret", 200),
        ("GET", "/nowhere", 404),
    ],
)
async def test_routes_are_exact(method: str, path: str, status: int) -> None:
    assert await Site().ask(method, path, good(method)) == status


async def test_health_is_open_and_has_no_rights() -> None:
    assert await Site().ask("GET", "/health", [HOST]) == 200
    assert not any(NOBODY.has(scope) for scope in ("operator.read", "operator.admin", "node"))


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        ((), "203.0.113.9", "10.0.0.1"),
        (("10.0.0.1",), "203.0.113.9", "203.0.113.9"),
        (("10.0.0.1",), "127.0.0.1, 203.0.113.9", "203.0.113.9"),
        (("10.0.0.1", "10.0.0.2"), "203.0.113.9, 10.0.0.2", "203.0.113.9"),
        (("10.0.0.1",), "nonsense", "10.0.0.1"),
        (("10.0.0.1",), "", "10.0.0.1"),
    ],
)
async def test_only_a_listed_proxy_is_believed(
    proxies: tuple[str, ...], forwarded: str, address: str
) -> None:
    resources = Site(proxies=proxies)

    await resources.ask("WS", "/", [HOST, ("x-forwarded-for", forwarded)], peer="10.0.0.1")

    assert resources.reached == [f"upgrade {address}"]
