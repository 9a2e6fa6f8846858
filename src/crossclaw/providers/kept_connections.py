"""Connections to a model service: HTTP connections that are kept for the next call.

Each line is an HTTP client with a connection of its own. One client for all of them would go
through its whole pool at the beginning and at the end of every call: at 64 calls at once that is a
quarter of what a call costs.
"""

import importlib
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.request import getproxies
from weakref import WeakKeyDictionary, WeakSet

import anyio
import anyio.to_thread

from crossclaw.disk.extras import how_to_install_there
from crossclaw.domain.errors import ProviderMissing, ProviderRefused

if TYPE_CHECKING:
    import httpx2

    from crossclaw.providers.direct import DirectTransport

KEPT_S = 30.0  # without a call; services hang up after about a minute, and sockets are not free

EXTRA = "models"
"""The extra of this package that installs it."""


class _Idle(NamedTuple):
    since: float
    client: "httpx2.AsyncClient"


class KeptConnections:
    """Connections that are kept: as many as there are calls at once, which the caller limits."""

    def __init__(self, connect_s: float, silence_s: float) -> None:
        self._connect_s, self._silence_s = connect_s, silence_s
        self._idle: deque[_Idle] = deque()
        """Idle connections; the one used last is on the right and is taken first."""
        self._used: WeakSet[httpx2.AsyncClient] = WeakSet()
        self._direct: WeakKeyDictionary[httpx2.AsyncClient, DirectTransport] = WeakKeyDictionary()
        self._trust: ssl.SSLContext | None = None
        self._loading = anyio.Lock()

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator["httpx2.AsyncClient"]:
        client = self._idle.pop().client if self._idle else self._open(await self._load())
        try:
            yield client
        finally:
            self._idle.append(_Idle(anyio.current_time(), client))
            self._used.add(client)
        await self._close_unused()

    def was_used(self, client: "httpx2.AsyncClient") -> bool:
        """Whether its connection may be an old one, which the server has closed meanwhile."""
        direct = self._direct.get(client)
        return client in self._used if direct is None else direct.is_reusing

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().client.aclose()

    async def _close_unused(self) -> None:
        while self._idle and self._idle[0].since < anyio.current_time() - KEPT_S:
            await self._idle.popleft().client.aclose()

    def _open(self, trust: ssl.SSLContext) -> "httpx2.AsyncClient":
        import httpx2  # noqa: PLC0415  # loaded by now

        from crossclaw.providers.direct import DirectTransport  # noqa: PLC0415  # likewise

        # Which requests go by a proxy is for the client to say, so then it has its own transport for all of them.
        proxied = getproxies().keys() & {"http", "https", "all"}
        direct = None if proxied else DirectTransport(trust, KEPT_S)
        client = httpx2.AsyncClient(
            verify=trust,
            mounts=None if direct is None else {"all://": direct},
            timeout=httpx2.Timeout(self._silence_s, connect=self._connect_s),
            limits=httpx2.Limits(max_connections=1, keepalive_expiry=KEPT_S),
            follow_redirects=True,
            event_hooks={"response": [_stay_there]},
        )
        if direct is not None:
            self._direct[client] = direct
        return client

    async def _load(self) -> ssl.SSLContext:
        async with self._loading:
            if self._trust is None:
                self._trust = await load_client()
            return self._trust


async def load_client() -> ssl.SSLContext:
    """Load the HTTP client's package and the certificates that this machine trusts: a quarter of a second, off the
    loop, once in a process. A cancelled run need not wait; the next one finds it done."""
    return await anyio.to_thread.run_sync(_trust, abandon_on_cancel=True)


async def _stay_there(response: "httpx2.Response") -> None:
    """Refuses a redirect to another host, which would get the conversation and the key though the
    owner never named it, or make us call addresses inside our own network."""
    if not response.has_redirect_location:
        return
    here, there = response.request.url, response.request.url.join(response.headers["location"])
    is_safer = (here.scheme, there.scheme) == ("http", "https") and here.host == there.host
    if not is_safer and (here.scheme, here.host, here.port) != (
        there.scheme,
        there.host,
        there.port,
    ):
        raise ProviderRefused(
            f"{here.host} sends its callers elsewhere, to {there.scheme}://{there.host}, which is not followed; if that "
            "is where the service is now, set baseUrl to it"
        )


def forget_client() -> None:
    """Has the certificates read anew by the next that asks."""
    _trust.cache_clear()


@cache
def _trust() -> ssl.SSLContext:
    try:
        httpx2 = importlib.import_module("httpx2")
    except ModuleNotFoundError as error:
        raise ProviderMissing(
            f"the httpx2 package is not installed ({error}); {how_to_install_there(EXTRA)}"
        ) from error
    context: ssl.SSLContext = httpx2.create_ssl_context()
    return context
