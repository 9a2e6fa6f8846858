"""Finding the gateway: which address, and which credential may be sent there.

    --url                             only with its own --token-file, unless it is the local gateway
    OPENCLAW_GATEWAY_URL              with OPENCLAW_GATEWAY_TOKEN
    gateway.mode "remote"             gateway.remote.url with gateway.remote.token
    else the local gateway            127.0.0.1, OPENCLAW_GATEWAY_PORT, or where the running one
                                      says it listens, or gateway.port; with
                                      OPENCLAW_GATEWAY_TOKEN, gateway.auth or the kept token

A credential is only ever sent to the address it was given for.
"""

import os
import socket
from urllib.parse import urlsplit

import msgspec

from crossclaw.client.errors import BadAddress, NobodyListens
from crossclaw.client.location import StateLocation
from crossclaw.config.fingerprints import clean_fingerprint
from crossclaw.config.token import TOKEN_VARIABLE, gateway_token
from crossclaw.disk.held import read_held
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret

URL_VARIABLE = "OPENCLAW_GATEWAY_URL"
PORT_VARIABLE = "OPENCLAW_GATEWAY_PORT"
PASSWORD_VARIABLE = "OPENCLAW_GATEWAY_PASSWORD"

PROBE_S = 0.5  # a port on this machine answers at once

TOKEN_HINT = (
    "Its token is in credentials/gateway-token of its state folder, unless gateway.auth.token or\n"
    "OPENCLAW_GATEWAY_TOKEN was set where it runs. Give it here with --token-file or OPENCLAW_GATEWAY_TOKEN."
)

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


class ConnectOptions(msgspec.Struct, frozen=True):
    """The options that name a gateway; mostly none."""

    url: str | None = None
    token: str | None = None
    password: str | None = None


class GatewayAddress(msgspec.Struct, frozen=True):
    url: str
    token: Secret | None = None
    password: Secret | None = None
    is_local: bool = False
    """Whether it is the gateway of this very config: when it does not run, one can be started for the call."""
    is_unnamed: bool = False
    """Whether no option or variable named it: only a gateway of this state folder is meant."""
    fingerprint: str | None = None
    """The fingerprint of the one certificate that is trusted there; None: whichever an authority vouches for."""

    @property
    def is_open_line(self) -> bool:
        """Whether a credential would travel over a network without encryption."""
        return self.url.startswith("ws://") and not _is_loopback(self.url)


def find_serving(wanted: ConnectOptions, place: StateLocation) -> GatewayAddress:
    """Finds like `find_gateway`, for connecting now. A gateway of this state folder says where it listens;
    another program on that port must not get our token."""
    address = find_gateway(wanted, place)
    if address.is_unnamed and served_port(place) is None:
        raise NobodyListens(
            taken_port(address) or f"no gateway answers at {address.url}",
            hint=how_to_start(address),
        )
    return address


def find_gateway(wanted: ConnectOptions, place: StateLocation) -> GatewayAddress:
    own = GatewayAddress("", _secret(wanted.token), _secret(wanted.password))
    if wanted.url:
        return _elsewhere(wanted.url, own, place, "--url needs its own --token-file")
    if url := place.environ.get(URL_VARIABLE, "").strip():
        given = _or(own, place.environ.get(TOKEN_VARIABLE), place.environ.get(PASSWORD_VARIABLE))
        return _elsewhere(url, given, place, f"{URL_VARIABLE} needs {TOKEN_VARIABLE} beside it")
    remote = place.config.gateway.remote
    if place.config.gateway.mode == "remote" and remote.url:
        address = clean_url(remote.url)
        token, password = own.token or remote.token, own.password or remote.password
        return GatewayAddress(address, token, password, fingerprint=_trusted(address, place))
    return _local(own, place)


def _elsewhere(
    url: str, given: GatewayAddress, place: StateLocation, refusal: str
) -> GatewayAddress:
    address = clean_url(url)
    if given.token or given.password:
        return GatewayAddress(
            address,
            given.token,
            given.password,
            _is_ours(address, place),
            fingerprint=_trusted(address, place),
        )
    if _is_ours(address, place):
        return _local(given, place)
    raise BadAddress(
        f"{refusal}: the local gateway's token is not sent to {address}",
        hint="Add --token-file, or leave the address away to use the local gateway.",
    )


def _local(given: GatewayAddress, place: StateLocation) -> GatewayAddress:
    auth, environ = place.config.gateway.auth, place.environ
    if not (given.token or given.password):
        given = _or(given, environ.get(TOKEN_VARIABLE), environ.get(PASSWORD_VARIABLE))
    token = given.token or auth.token or _kept(place)
    fingerprint = served_fingerprint(place)
    scheme = "wss" if fingerprint or place.config.gateway.tls.enabled else "ws"
    url = f"{scheme}://127.0.0.1:{local_port(place)}"
    unnamed = named_port(place) is None and not (given.token or given.password)
    return GatewayAddress(url, token, given.password or auth.password, True, unnamed, fingerprint)


def local_port(place: StateLocation) -> int:
    """The port at which to look for the gateway of this state folder."""
    return named_port(place) or served_port(place) or place.config.gateway.port


def named_port(place: StateLocation) -> int | None:
    """The port in the environment, which goes before the config's."""
    text = place.environ.get(PORT_VARIABLE, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) > 65_535:
        raise BadAddress(f"{PORT_VARIABLE} is {text!r}, which is no port")
    return int(text)


def served_port(place: StateLocation) -> int | None:
    """The port at which a gateway of this very state folder says that it listens. What a killed one has left
    behind is not believed: another program on that port would be sent the token."""
    text = (read_held(place.paths.port_path) or "").strip()
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text) <= 65_535 else None


def served_fingerprint(place: StateLocation) -> str | None:
    """The fingerprint of the certificate that it says it shows; None if it speaks no TLS."""
    try:
        return clean_fingerprint(place.paths.fingerprint_path.read_text("ascii"))
    except (OSError, UnicodeDecodeError, ConfigInvalid):
        return None


def _trusted(url: str, place: StateLocation) -> str | None:
    """The fingerprint that was given for this very address."""
    if _is_ours(url, place):
        return served_fingerprint(place) if url.startswith("wss://") else None
    remote = place.config.gateway.remote
    if not (remote.url and remote.tls_fingerprint and clean_url(remote.url) == url):
        return None
    if not url.startswith("wss://"):
        raise BadAddress(
            f"gateway.remote.tlsFingerprint is set, but {url} is not encrypted",
            hint="Write gateway.remote.url with wss://",
        )
    return clean_fingerprint(remote.tls_fingerprint)


def is_taken(number: int) -> bool:
    """Whether any program listens on this port here."""
    with socket.socket() as probe:
        probe.settimeout(PROBE_S)
        return probe.connect_ex(("127.0.0.1", number)) == 0


def taken_port(address: GatewayAddress) -> str | None:
    """A sentence about another program that has the port of this folder's gateway; None if there is none."""
    number = urlsplit(address.url).port
    if not (address.is_unnamed and number and is_taken(number)):
        return None
    return f"no gateway of this state folder runs, and another program has port {number}"


def how_to_start(address: GatewayAddress) -> str | None:
    if not address.is_local:
        return None
    elsewhere = " --port 0 (a free one; or set gateway.port)" if taken_port(address) else ""
    return f"Start it with: crossclaw gateway{elsewhere}"


def clean_url(text: str) -> str:
    try:
        parts = urlsplit(text if "://" in text else f"ws://{text}")
        good = parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, half an IPv6 address
        good = False
    if not good:
        raise BadAddress(f"{text!r} is no gateway address", hint="Example: ws://127.0.0.1:18789")
    return parts._replace(scheme=_SCHEMES[parts.scheme], fragment="").geturl()


def _is_ours(url: str, place: StateLocation) -> bool:
    """Whether it is the local gateway by another spelling: its port on loopback, while none is configured away."""
    port = urlsplit(url).port
    return _is_loopback(url) and port == local_port(place) and place.config.gateway.mode != "remote"


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK


def _kept(place: StateLocation) -> Secret | None:
    """The token that the gateway stores, if it has ever been started."""
    if not os.path.lexists(place.paths.token_path):
        return None
    return gateway_token(place.config, place.paths, {})


def _or(own: GatewayAddress, token: str | None, password: str | None) -> GatewayAddress:
    if own.token or own.password:
        return own
    return GatewayAddress("", _secret(token), _secret(password))


def _secret(text: str | None) -> Secret | None:
    return Secret(text.strip()) if text and text.strip() else None
