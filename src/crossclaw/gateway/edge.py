"""The edge: the checks that every HTTP request and every upgrade passes before anything else looks at it.

In this order: the path is plain, the Host is ours, no foreign page asks, the route exists, the secret is right,
the body is declared as JSON (hooks need not) and is not too large. A body is not read before all that.
"""

import re
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from crossclaw.domain import untrusted
from crossclaw.domain.authority import HOOKS, Authority
from crossclaw.door.open_calls import OpenCalls
from crossclaw.door.principal import Principal, person_principal
from crossclaw.gateway.auth import GATEWAY, Authenticator, PresentedSecrets, Unauthorized
from crossclaw.gateway.handshake import OPERATOR_SCOPES
from crossclaw.gateway.http.answers import invalid, too_large, unauthorized
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.origins import Origins
from crossclaw.gateway.pauses import TooManyGuesses

FindToken = Callable[[str], Principal | None]
"""Whose token it is, of those that open one route only."""
RequestHandler = Callable[[Request, Principal], Awaitable[ASGIApp]]

# Spellings that one reader takes for a separator and another does not.
_ODD_PATH = re.compile(rb"%(?:2f|5c|2e|25|00|3b)|//|\.\.|[;\\\x00-\x20\x7f-\xff]|/\./|/\.$", re.I)
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

NOBODY = Principal(
    name="nobody",
    role="operator",
    scopes=frozenset(),
    sight="nothing",
    authority=Authority(may_spawn=False),
)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One route. Its callers have shown the secret of `door`, unless it is open."""

    method: str
    path: str
    """One that ends in /* stands for all below it."""
    handle: RequestHandler
    door: str | None = GATEWAY
    """The secret that opens the route; None: anybody may call it, and learns nothing by it."""
    find_token: FindToken | None = None
    """Tokens of others that open it as well."""
    body_bytes_max: int | None = None


FindEndpoints = Callable[[str], Mapping[str, Endpoint] | None]
"""Finds routes that come and go by their path: method → endpoint."""


def no_webhooks(_path: str) -> None:
    """Finds no webhook: used where no chat account has one."""


class Routes(msgspec.Struct, frozen=True):
    """The routes that are served over HTTP."""

    endpoints: Sequence[Endpoint] = ()
    find_webhooks: FindEndpoints = no_webhooks
    """Finds the webhooks of chat accounts, which come and go; asked for paths that no endpoint has."""


class EdgeRefusal(Exception):
    """A request that is refused at the edge, with its answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class Edge:
    """The ASGI application around all others. `upgrade` serves WebSockets, on any path."""

    def __init__(
        self,
        routes: Routes,
        upgrade: ASGIApp,
        authenticator: Authenticator,
        origins: Origins,
        limits: GatewayLimits,
        proxies: Iterable[str] = (),
    ) -> None:
        self._find_webhooks = routes.find_webhooks
        self._routes: dict[str, dict[str, Endpoint]] = {}
        for endpoint in routes.endpoints:
            self._routes.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        self._upgrade = upgrade
        self._authenticator = authenticator
        self._origins = origins
        self._limits = limits
        self._proxies = frozenset(proxies)
        self._calls = OpenCalls(authenticator.credentials)
        self._unsigned = _SharedRoom(limits.unsigned_bytes_max, limits.unsigned_small_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "websocket":
                self._inspect(scope)
                await self._upgrade(scope, receive, send)
                return
            await self._serve(scope, self._inspect(scope), receive, send)
            return
        except TooManyGuesses:
            await _drop(scope, receive)
            return
        except EdgeRefusal as refused:
            answer = refused.response
            if scope["type"] == "websocket":
                await receive()  # the upgrade itself; it is answered like any other request
            else:
                # The rest of a refused body is not worth reading.
                refused.response.headers["connection"] = "close"
        await answer(scope, receive, send)

    def _inspect(self, scope: Scope) -> Mapping[str, str]:
        headers = read_headers(scope)
        scope["crossclaw.address"] = remote_address(scope, headers, self._proxies)
        check_path(scope)
        if not self._webhooks(
            scope
        ):  # platforms call by names that we do not know, and sign what they send
            self._check_source(scope, headers)
        return headers

    def _webhooks(self, scope: Scope) -> Mapping[str, Endpoint] | None:
        """The webhooks of chat accounts at this path, if the gateway has no route of its own there."""
        path = scope["path"]
        if scope["type"] != "http" or path in self._routes or _above(self._routes, path):
            return None
        return self._find_webhooks(path)

    def _check_source(self, scope: Scope, headers: Mapping[str, str]) -> None:
        host, local = headers.get("host"), (scope.get("server") or (None,))[0]
        if not self._origins.host_allowed(host, local):
            raise EdgeRefusal(PlainTextResponse("this gateway has another name", 421))
        if not self._origins.origin_allowed(headers.get("origin"), host):
            raise EdgeRefusal(PlainTextResponse("origin not allowed", 403))
        changing = scope["type"] == "websocket" or scope["method"] in _CHANGING
        if changing and headers.get("sec-fetch-site", "none") == "cross-site":
            raise EdgeRefusal(PlainTextResponse("requests of other sites are not allowed", 403))

    async def _serve(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        """Serves one request until it is answered, or until the credential that was shown ends: then a stream
        that has begun is cut off."""
        webhooks = self._webhooks(scope)
        routes = {scope["path"]: webhooks} if webhooks else self._routes
        endpoint = find_endpoint(routes, scope["method"], scope["path"])
        principal = await self._principal(endpoint, scope, headers)
        saying = _TrackedSend(send)
        with self._calls.hold(principal.authority) as held:
            answer = await self._answer(endpoint, principal, scope, headers, receive)
            await answer(scope, receive, saying)
        if held.cancelled_caught and not saying.begun:
            raise EdgeRefusal(unauthorized())

    async def _answer(
        self,
        endpoint: Endpoint,
        principal: Principal,
        scope: Scope,
        headers: Mapping[str, str],
        receive: Receive,
    ) -> ASGIApp:
        if scope["method"] not in _CHANGING:
            return await endpoint.handle(Request(scope, receive), principal)
        if endpoint.door not in (HOOKS, None):
            check_json(headers)
        most = endpoint.body_bytes_max or self._limits.body_bytes_max
        with self._unsigned.hold() as grown:
            is_known = endpoint.door is not None
            body = await read_body(
                headers, receive, most, self._limits.body_time_s, _freely if is_known else grown
            )
            return await endpoint.handle(Request(scope, _replay(body, receive)), principal)

    async def _principal(
        self, endpoint: Endpoint, scope: Scope, headers: Mapping[str, str]
    ) -> Principal:
        if endpoint.door is None:
            return NOBODY
        offer, maker = (
            PresentedSecrets(bearer(headers)),
            self._authenticator.credential_ref(endpoint.door),
        )
        find = endpoint.find_token or (lambda _value: None)
        if offer.token and (found := find(offer.token)) is not None:
            _make_known(scope)
            return found
        try:
            await self._authenticator.check(scope["crossclaw.address"], offer, endpoint.door)
        except Unauthorized:
            raise EdgeRefusal(unauthorized()) from None
        _make_known(scope)
        if endpoint.door == GATEWAY:
            return person_principal(f"http:{GATEWAY}", OPERATOR_SCOPES, [maker])
        return Principal(
            name=f"http:{endpoint.door}",
            role="operator",
            scopes=frozenset({"hook"}),
            sight="nothing",  # a hook's own settings give it the session that it speaks in
            authority=Authority(made_by=frozenset({maker})),
        )


class _SharedRoom:
    """Memory for bodies of callers that are not authenticated yet: webhooks are signed over the whole body.
    Small bodies need none of it, so whoever fills it keeps out large ones alone."""

    def __init__(self, bytes_max: int, small: int) -> None:
        self._left, self._small = bytes_max, small

    @contextmanager
    def hold(self) -> Generator[Callable[[int], None]]:
        held = 0

        def grown(size: int) -> None:
            nonlocal held
            more = size - held if size > self._small else 0
            if more > self._left:
                raise EdgeRefusal(PlainTextResponse("busy", 503, headers={"retry-after": "5"}))
            self._left -= more
            held += more

        try:
            yield grown
        finally:
            self._left += held


def _freely(_size: int) -> None:
    """Reserves nothing: an authenticated caller is bounded by the limit of the route alone."""


def _make_known(scope: Scope) -> None:
    if (pending := scope.get("crossclaw.pending")) is not None:
        pending.known()


# ── single checks ──────────────────────────────────────────────────────────────────────────────


def read_headers(scope: Scope) -> Mapping[str, str]:
    """The headers, one value a name. A second value of a header that decides something is refused: each
    reader might see another one."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        value = raw_value.decode("latin-1").strip()
        if name in found and name in ("host", "origin", "authorization", "content-type"):
            raise EdgeRefusal(PlainTextResponse(f"two headers {name}", 400))
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def check_path(scope: Scope) -> None:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    if not raw.startswith(b"/") or _ODD_PATH.search(raw):
        raise EdgeRefusal(PlainTextResponse("odd path", 400))


def find_endpoint(routes: Mapping[str, Mapping[str, Endpoint]], method: str, path: str) -> Endpoint:
    methods = routes.get(path) or _above(routes, path)
    if methods is None:
        raise EdgeRefusal(PlainTextResponse("Not Found", 404))
    endpoint = methods.get("GET" if method == "HEAD" else method)
    if endpoint is None:
        allow = {"Allow": ", ".join(sorted(methods))}
        raise EdgeRefusal(PlainTextResponse("Method Not Allowed", 405, headers=allow))
    return endpoint


def _above(
    routes: Mapping[str, Mapping[str, Endpoint]], path: str
) -> Mapping[str, Endpoint] | None:
    """The route with /* that covers this path."""
    below = (route for route in routes if route.endswith("/*") and path.startswith(route[:-1]))
    return routes.get(next(below, ""))


def bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("x-openclaw-token") or None


def check_json(headers: Mapping[str, str]) -> None:
    """Requires JSON: a foreign page may send forms and plain text without the browser asking first, JSON it
    may not. Hooks are exempt: many senders name no type, and no page can add the header with their secret."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise EdgeRefusal(invalid("content-type must be application/json", 415))


async def read_body(
    headers: Mapping[str, str],
    receive: Receive,
    bytes_max: int,
    time_s: float,
    grown: Callable[[int], None],
) -> bytes:
    """Reads a body within its limits. `grown` is called with the length so far, and refuses what there is no
    room for."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > bytes_max:
        raise EdgeRefusal(too_large(bytes_max))
    body = bytearray()
    more = True
    with anyio.move_on_after(time_s) as waiting:
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise EdgeRefusal(invalid("the body ended early"))
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > bytes_max:
                raise EdgeRefusal(too_large(bytes_max))
            grown(len(body))
    if waiting.cancelled_caught:
        raise EdgeRefusal(invalid("the body took too long", 408))
    return _weighed(bytes(body))


def _weighed(body: bytes) -> bytes:
    """Refuses JSON that is too heavy to decode: decoding happens in the event loop."""
    try:
        untrusted.check(body)
    except untrusted.TooHeavy as error:
        raise EdgeRefusal(invalid(str(error), 413)) from None
    return body


def remote_address(scope: Scope, headers: Mapping[str, str], proxies: frozenset[str]) -> str:
    """The address that a request comes from: the peer, or what a listed proxy says of its own peer."""
    peer: str = (scope.get("client") or ("unknown",))[0]
    if peer not in proxies:
        return peer
    for hop in reversed(headers.get("x-forwarded-for", "").split(",")):
        if (address := _address(hop.strip())) and address not in proxies:
            return address
    return peer


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None


# ── answering ──────────────────────────────────────────────────────────────────────────────────


async def _drop(scope: Scope, receive: Receive) -> None:
    """Ends the connection without an answer; it is closed when this returns."""
    if (pending := scope.get("crossclaw.pending")) is not None:
        pending.cut()
    while (await receive())["type"] != "http.disconnect":
        pass


class _TrackedSend:
    """Wraps ASGI send and remembers whether a response has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        self.begun = True
        await self._send(message)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
