"""Egress: the one way by which tools reach addresses that a model chose.

A name is resolved once, every address that it has must be public, and the connection goes to one of
those very addresses, so that a second answer of the name server changes nothing. Each redirect is a
new request and is checked like the first.
"""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from crossclaw.domain.errors import Forbidden, Invalid, ToolFailed

if TYPE_CHECKING:
    import httpx2

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) → its addresses."""
IsPublic = Callable[[str], bool]

USER_AGENT = "crossclaw web_fetch"
_CLOTHES = [
    IPv6Network("::ffff:0:0/96"),  # mapped
    IPv6Network("::/96"),  # compatible, long given up and still understood by some
    IPv6Network("::ffff:0:0:0/96"),  # translated
    IPv6Network("64:ff9b::/96"),  # NAT64
]
"""Networks of IPv6 addresses whose last 32 bits are an IPv4 address, which is the one that answers."""
_GIVEN_OUT = IPv6Network("2000::/3")
_CLOSED = [IPv6Network("3fff::/20"), IPv6Network("2001:db8::/32")]  # for examples only
_CLOUDS = {
    ip_address("168.63.129.16"),  # Azure's, to every machine of its own
    ip_address("169.254.169.254"),  # nearly everybody's, of machines and their credentials
    ip_address("169.254.170.2"),  # of containers on AWS
    ip_address("100.100.100.200"),  # Alibaba's
    ip_address("192.0.0.192"),  # Oracle's older one
    ip_address("fd00:ec2::254"),  # AWS's
    ip_address("fd20:ce::254"),  # Google's
}
"""Addresses of clouds that give the machine's secrets to whoever asks from it. Most are not public anyway; one is."""


def is_installed() -> bool:
    """Whether the extra `web` is installed, which brings the client and what makes text of pages."""
    return find_spec("httpx2") is not None and find_spec("markdownify") is not None


def is_public(text: str) -> bool:
    """Whether it is an address of the open internet, also when it is an IPv4 one inside an IPv6 one."""
    address = ip_address(text.partition("%")[0])
    return all(map(_is_open, _meant(address)))


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is public. Python's tables of reserved addresses are as old as the Python, so an IPv6
    address must also be in a range that has been allocated."""
    if isinstance(address, IPv6Address) and address not in _GIVEN_OUT:
        return False
    is_closed = address in _CLOUDS or any(address in net for net in _CLOSED)
    return address.is_global and not address.is_multicast and not is_closed


def _meant(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The addresses that a packet to it may reach."""
    if isinstance(address, IPv4Address):
        return [address]
    if any(address in net for net in _CLOTHES):
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    if address.sixtofour is not None:
        return [address.sixtofour]
    return [address, *(address.teredo or ())]


async def resolve(host: str, port: int) -> list[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


class Egress:
    def __init__(self, resolve: Resolve = resolve, is_public: IsPublic = is_public) -> None:
        self._resolve = resolve
        self._is_public = is_public

    @asynccontextmanager
    async def get(
        self, url: str, *, timeout_s: float, redirects_max: int
    ) -> AsyncGenerator["httpx2.Response"]:
        """Requests an address; yields the streamed answer. `timeout_s` is for everything until the block is left."""
        await anyio.to_thread.run_sync(import_module, "httpx2")  # 0.2 s, while others go on
        import httpx2  # noqa: PLC0415  loaded by now

        try:
            with anyio.fail_after(timeout_s):
                async with (
                    httpx2.AsyncClient(
                        transport=self._transport(),
                        follow_redirects=True,
                        max_redirects=redirects_max,
                        timeout=timeout_s,
                        trust_env=False,
                        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
                    ) as client,
                    client.stream("GET", url) as response,
                ):
                    yield response
        except TimeoutError:
            raise ToolFailed(f"{url} took longer than {timeout_s:g} s") from None
        except httpx2.TooManyRedirects:
            raise ToolFailed(f"{url} redirects more than {redirects_max} times") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ToolFailed(f"{url} cannot be fetched: {error or type(error).__name__}") from None

    def _transport(self) -> "httpx2.AsyncBaseTransport":
        import httpx2  # noqa: PLC0415  loaded by now

        check = self._checked_address

        class Checked(httpx2.AsyncHTTPTransport):
            async def handle_async_request(self, request: "httpx2.Request") -> "httpx2.Response":
                # A request of its own: the old one still says what a redirect is relative to.
                direct = httpx2.Request(
                    request.method,
                    request.url.copy_with(host=await check(request.url)),
                    headers=request.headers,
                    stream=request.stream,
                    extensions={**request.extensions, "sni_hostname": request.url.host},
                )
                return await super().handle_async_request(direct)

        return Checked(trust_env=False)

    async def _checked_address(self, url: "httpx2.URL") -> str:
        if url.scheme not in ("http", "https") or not url.host:
            raise Invalid(f"only http and https addresses can be fetched, not {url}")
        if url.userinfo:
            raise Invalid("an address with a user name or password in it is not fetched")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await self._resolve(url.host, port)
        if not addresses or not all(self._is_public(address) for address in addresses):
            raise Forbidden(f"{url.host} is not on the public internet; only that can be fetched")
        return addresses[0]
