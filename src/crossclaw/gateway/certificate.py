"""The gateway's certificate: the one that `gateway.tls` names, or one that is made once and kept.

One that was made is signed by nobody else: clients know it by its sha256 fingerprint.
"""

import logging
import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from crossclaw.config.fingerprints import fingerprint_of
from crossclaw.config.gateway import Tls
from crossclaw.config.paths import Paths
from crossclaw.disk.private import make_folder, write_file
from crossclaw.domain.errors import ConfigInvalid

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import GeneralName

VALID_DAYS = 3650  # as OpenClaw's; who pins a fingerprint does not want to do so every year
_END = "-----END CERTIFICATE-----"
_EVERYWHERE = ("0.0.0.0", "::")

log = logging.getLogger(__name__)


class ServedCertificate(msgspec.Struct, frozen=True):
    context: ssl.SSLContext
    fingerprint: str


def open_certificate(settings: Tls, paths: Paths, host: str) -> ServedCertificate | None:
    """The certificate that the gateway shows at `host`, or None without TLS. An unusable one is refused, with
    what to do."""
    if not settings.enabled:
        return None
    made = paths.certificate_dir
    certificate = _given(settings.cert_path, paths) or made / "gateway-cert.pem"
    key = _given(settings.key_path, paths) or made / "gateway-key.pem"
    try:
        _make_missing(settings, certificate, key, host)
        return _load(certificate, key, _given(settings.ca_path, paths))
    except OSError as error:
        where = error.filename or certificate
        raise ConfigInvalid(
            f"gateway.tls: {where} cannot be used: {error.strerror or error}"
        ) from error


def _given(written: str | None, paths: Paths) -> Path | None:
    return paths.resolve(written) if written else None


def _make_missing(settings: Tls, certificate: Path, key: Path, host: str) -> None:
    """Makes certificate and key where neither exists; also where only our own key does: then a start was
    interrupted between the two."""
    is_ours = not (settings.cert_path or settings.key_path)
    missing = [path for path in (certificate, key) if not path.exists()]
    if not missing:
        return
    if settings.auto_generate and (len(missing) == 2 or (is_ours and missing == [certificate])):
        _make(certificate, key, host)
        log.info("a certificate was made for the gateway: %s", certificate)
        return
    what = "certificate" if missing[0] == certificate else "key"
    todo = "leave out gateway.tls.certPath and keyPath, and one is made"
    if is_ours:
        other = key if missing == [certificate] else certificate
        todo = "set gateway.tls.autoGenerate to true" if len(missing) == 2 else f"remove {other}"
        todo += ", and the next start makes one"
    raise ConfigInvalid(
        f"gateway.tls: the {what} {missing[0]} is missing. Put it there; or {todo}."
    )


def _load(certificate: Path, key: Path, authority: Path | None) -> ServedCertificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for path in (certificate, key, *([authority] if authority else [])):
        path.open("rb").close()  # OpenSSL does not say which one it could not read
    try:
        # Without a passphrase of ours, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
        if authority:
            context.load_verify_locations(authority)  # sent along, as far as it leads upwards
        fingerprint = fingerprint_of(_first_of(certificate))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigInvalid(_why(error, certificate, key)) from error
    return ServedCertificate(context, fingerprint)


def _first_of(certificate: Path) -> bytes:
    text = certificate.read_text("ascii", "replace")
    begin = text.index("-----BEGIN CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(text[begin : text.index(_END, begin) + len(_END)])


def _why(error: Exception, certificate: Path, key: Path) -> str:
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return (
            f"gateway.tls: {key} is not the key of {certificate}. Name the two that belong together; or remove "
            "both, and the next start makes new ones."
        )
    return (
        f"gateway.tls: {certificate} and {key} cannot be used: {error}. They must be a certificate and its key in PEM, "
        "the key without a passphrase."
    )


def _make(certificate: Path, key: Path, host: str) -> None:
    """Makes a key and a certificate. The key is written first: with it alone, the next start makes the rest."""
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  slow to import
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    for path in (certificate, key):
        make_folder(path.parent)
    if not key.exists():
        fresh = ec.generate_private_key(ec.SECP256R1())
        text = fresh.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_file(key, text.decode(), replace=False)
    kept = load_pem_private_key(key.read_bytes(), None)
    if not isinstance(kept, ec.EllipticCurvePrivateKey):
        raise ConfigInvalid(
            f"gateway.tls: {key} was not made here. Put its certificate to {certificate}; or remove it, "
            "and the next start makes both."
        )
    write_file(certificate, _signed(kept, host), replace=False)


def _signed(key: "EllipticCurvePrivateKey", host: str) -> str:
    from cryptography import x509  # noqa: PLC0415  slow to import
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "crossclaw gateway")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, SHA256())
    )
    return made.public_bytes(Encoding.PEM).decode()


def _names(host: str) -> list["GeneralName"]:
    """The names by which clients may reach the gateway: this machine's own, and the address that it listens at."""
    from cryptography.x509 import DNSName, IPAddress  # noqa: PLC0415  slow to import

    names = ["localhost", "127.0.0.1", "::1"]
    if host in _EVERYWHERE:
        names.append(socket.gethostname())
    else:
        names.append(host)
    found: list[GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(IPAddress(ip_address(name)))
        except ValueError:
            if name.isascii():
                found.append(DNSName(name))
    return found
