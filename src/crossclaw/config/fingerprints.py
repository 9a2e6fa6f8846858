"""Fingerprints: the sha256 of a certificate, by which clients recognise a gateway whose certificate no
authority has signed."""

import hashlib
import re

from crossclaw.domain.errors import ConfigInvalid

_HEX = re.compile(r"[0-9a-f]{64}")


def fingerprint_of(certificate: bytes) -> str:
    """The fingerprint of a certificate in DER: 64 hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def clean_fingerprint(written: str) -> str:
    """A fingerprint without what people and openssl add: `sha256:` before it, colons, capitals."""
    text = written.strip().lower().removeprefix("sha256").lstrip(":= ").replace(":", "")
    text = text.replace(" ", "").replace("fingerprint=", "")
    if not _HEX.fullmatch(text):
        raise ConfigInvalid(
            f"{written!r} is no sha256 fingerprint of a certificate, which has 64 hexadecimal digits; "
            "a gateway says its own when it starts"
        )
    return text
