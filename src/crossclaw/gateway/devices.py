"""Devices: an Ed25519 key that signs what its client says when it connects."""

import base64
import binascii
from hashlib import sha256
from typing import Annotated

import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Params

SIGNED_AGO_MAX_MS = 10 * 60 * 1000  # clocks of phones and laptops differ by minutes, not more
KEY_BYTES = 32

DeviceText = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class DeviceRefused(Invalid):
    pass


class Device(Params, frozen=True):
    id: DeviceText
    public_key: DeviceText
    signature: DeviceText
    signed_at: Annotated[int, msgspec.Meta(ge=0)]
    nonce: str | None = None


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What a device signs, beside its own id, time and nonce."""

    client_id: str
    client_mode: str
    role: str
    scopes: tuple[str, ...]
    token: str
    platform: str
    family: str

    def signed_texts(self, device: Device, protocol: int) -> list[bytes]:
        """The texts whose signature is accepted. The first version had no nonce and could be replayed: it is
        not among them."""
        parts = [
            device.id,
            self.client_id,
            self.client_mode,
            self.role,
            ",".join(self.scopes),
            str(device.signed_at),
            self.token,
            device.nonce or "",
        ]
        second = "|".join(["v2", *parts]).encode()
        if protocol == 3:
            return [second]
        third = ["v3", *parts, _plain(self.platform), _plain(self.family)]
        return ["|".join(third).encode(), second]


def check_device(
    device: Device, statement: Statement, *, protocol: int, nonce: str, now_ms: int
) -> None:
    """Checks a device's identity, time, nonce and signature in this order; raises for the first that fails."""
    key = _decode(device.public_key)
    if key is None or sha256(key).hexdigest() != device.id:
        raise DeviceRefused("device identity mismatch")
    if abs(now_ms - device.signed_at) > SIGNED_AGO_MAX_MS:
        raise DeviceRefused("device signature expired")
    if not device.nonce:
        raise DeviceRefused("device nonce required")
    if device.nonce != nonce:
        raise DeviceRefused("device nonce mismatch")
    if len(key) != KEY_BYTES:
        raise DeviceRefused("device public key invalid")
    signature = _decode(device.signature)
    texts = statement.signed_texts(device, protocol)
    if signature is None or not any(_verified(key, signature, text) for text in texts):
        raise DeviceRefused("device signature invalid")


def _verified(key: bytes, signature: bytes, text: bytes) -> bool:
    # Lazy: 40 ms and 8 MB that a gateway without devices never needs.
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PublicKey,
    )

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def _decode(text: str) -> bytes | None:
    """The bytes of base64url text, with or without its padding."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _plain(text: str) -> str:
    """The text trimmed, with ASCII letters in lower case, as the clients write it."""
    return "".join(c.lower() if c.isascii() else c for c in text.strip())
