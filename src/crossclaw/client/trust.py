"""Trust: which certificate a gateway must show before a credential is sent to it.

The gateway of this state folder stores its fingerprint there, as it stores its token there; one elsewhere is
known by `gateway.remote.tlsFingerprint`, or by an authority that this machine trusts.
"""

import ssl
from urllib.parse import urlsplit

from crossclaw.client.errors import GatewayDown
from crossclaw.client.finding import GatewayAddress
from crossclaw.config.fingerprints import fingerprint_of

TLS_PORT = 443


def tls_of(address: GatewayAddress) -> ssl.SSLContext | bool | None:
    """The TLS context of a connection on which `check_certificate` is called before anything is sent. True:
    an authority is asked; None: there is no TLS."""
    if not address.url.startswith("wss://"):
        return None
    return unchecked_context() if address.fingerprint else True


def unchecked_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def check_certificate(shown: bytes | None, address: GatewayAddress) -> None:
    if address.fingerprint is None:
        return
    found = fingerprint_of(shown or b"")
    if found != address.fingerprint:
        raise GatewayDown(
            f"{address.url} shows another certificate than the one that is trusted; nothing was sent to it. "
            f"Its sha256 fingerprint is {found}",
            hint=None
            if address.is_local
            else "If its owner changed it: crossclaw config set gateway.remote.tlsFingerprint <fingerprint>",
        )


def checked_context(address: GatewayAddress) -> ssl.SSLContext | None:
    """A TLS context for libraries that do not show us the certificate: it is fetched and checked first, and
    from then on no other is accepted."""
    if address.fingerprint is None:
        return None
    parts = urlsplit(address.url)
    where = (parts.hostname or "", parts.port or TLS_PORT)
    try:
        text = ssl.get_server_certificate(where, timeout=10)
    except OSError as error:
        raise GatewayDown(f"no gateway answers at {address.url}: {error}") from None
    check_certificate(ssl.PEM_cert_to_DER_cert(text), address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=text)
    return context
