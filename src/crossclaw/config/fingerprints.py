"""Fingerprints: a certificate's sha256, by which a gateway is known that no authority vouches for."""

import hashlib
import re

from crossclaw.domain.errors import ConfigInvalid

_HEX = re.compile(r"[0-9a-f]{64}")


def fingerprint_of(certificate: bytes) -> str:
    """Of a certificate in DER: 64 hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def clean_fingerprint(written: str) -> str:
    """As people and openssl write it: with `sha256:` before it, with colons, in capitals."""
    text = written.strip().lower().removeprefix("sha256").lstrip(":= ").replace(":", "")
    text = text.replace(" ", "").replace("fingerprint=", "")
    if not _HEX.fullmatch(text):
        raise ConfigInvalid(
            f"{written!r} is no sha256 fingerprint of a certificate, which has 64 hexadecimal digits; "
            "a gateway says its own when it starts"
        )
    return text
