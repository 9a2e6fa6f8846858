"""Hosts and origins: whether a request was meant for us, and which web page it comes from.

A name that an attacker's DNS points at 127.0.0.1 is refused by its Host; a foreign page is refused by its
Origin. Programs send no Origin, and need the secret.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Origins:
    """`allowed` are the origins of `gateway.controlUi.allowedOrigins`; their hosts may name us. `encrypted`: we
    speak TLS ourselves, so a page that came without it is not ours. Otherwise a proxy may add TLS."""

    def __init__(
        self,
        bound_host: str = "127.0.0.1",
        allowed: Iterable[str] = (),
        *,
        encrypted: bool = False,
    ) -> None:
        self._schemes = ("https",) if encrypted else ("http", "https")
        self._allowed = {found for text in allowed if (found := _origin(text)) is not None}
        hosts = {host for _scheme, host, _port in self._allowed}
        self._hosts = LOOPBACK_NAMES | {bound_host.lower()} | hosts

    def host_allowed(self, host_header: str | None, local_address: str | None) -> bool:
        """Whether a Host header is ours. `local_address` is the one the connection came in on: as a number it
        needs no list, because no DNS answer can forge a number."""
        found = _authority(host_header)
        if found is None:
            return False
        host, _port = found
        return host in self._hosts or (host == local_address and _is_number(host))

    def origin_allowed(self, origin: str | None, host_header: str | None) -> bool:
        if origin is None:
            return True
        parsed = _origin(origin)
        if parsed is None:
            return False
        return parsed in self._allowed or (
            parsed[0] in self._schemes and _same(parsed, host_header)
        )


def is_loopback_name(host_header: str | None) -> bool:
    found = _authority(host_header)
    return found is not None and found[0] in LOOPBACK_NAMES


def _same(origin: tuple[str, str, int], host_header: str | None) -> bool:
    """Whether the origin is our own page: served under the name of this request. The names of loopback are one."""
    scheme, host, port = origin
    own = _authority(host_header)
    if own is None:
        return False
    own_host, own_port = own
    both_loopback = host in LOOPBACK_NAMES and own_host in LOOPBACK_NAMES
    return (host == own_host or both_loopback) and port == (own_port or _DEFAULT_PORTS[scheme])


def _origin(text: str) -> tuple[str, str, int] | None:
    parts = _split(text.strip())
    if parts is None or not parts.hostname or parts.scheme not in _DEFAULT_PORTS:
        return None
    if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def _authority(header: str | None) -> tuple[str, int | None] | None:
    if not header or any(c in header for c in "/@?#\\, \t"):
        return None
    parts = _split(f"//{header}")
    if parts is None or not parts.hostname or parts.netloc.endswith(":"):
        return None
    return parts.hostname, parts.port


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises when it is no number
    except ValueError:
        return None
    return parts


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
