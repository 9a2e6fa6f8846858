"""The ledger key: with it, gateways that share a ledger encrypt the secrets that are kept there.

It is given to each gateway (`CROSSCLAW_LEDGER_KEY`, or a file that `ledger.keyFile` names) and is never in the
ledger. Each secret is encrypted and authenticated by AES-256-GCM, together with what it is for: a row that was
put in another row's place cannot be decrypted.
"""

import base64
import hmac
import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from crossclaw.config.model import Config
from crossclaw.config.paths import Paths
from crossclaw.domain.errors import ConfigInvalid

KEY_VARIABLE = "CROSSCLAW_LEDGER_KEY"
KEY_CHARS_MIN = (
    32  # so that nobody guesses it who has the database; no passphrase is as long by chance
)
KEYS_MAX = 4  # the one in use, and those before it
_BYTES_MAX = 4_096
_NONCE_BYTES = 12
HOW = (
    f"set {KEY_VARIABLE} (or ledger.keyFile) to one and the same key on every gateway, as `openssl rand -base64 32` makes "
    "it, and start them again"
)


class NotOpened(ConfigInvalid):
    """A secret in the ledger that this gateway's key does not decrypt."""


class LedgerKey:
    """One or several keys: the first one encrypts, any of them decrypts."""

    def __init__(self, written: str) -> None:
        keys = written.split()
        if not keys or len(keys) > KEYS_MAX or min(map(len, keys)) < KEY_CHARS_MIN:
            raise ConfigInvalid(
                f"the ledger key must have at least {KEY_CHARS_MIN} characters (at most {KEYS_MAX} keys, with a space "
                "between): `openssl rand -base64 32` makes one"
            )
        self._keys = [
            blake2b(each.encode(), digest_size=32, person=b"ledger key").digest() for each in keys
        ]

    def seal(self, text: str, about: str) -> str:
        """Encrypts a text. `about`: what it is for; it can be decrypted for nothing else."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _cipher(self._keys[0]).encrypt(nonce, text.encode(), about.encode())
        return base64.b64encode(nonce + sealed).decode()

    def marks(self, words: bytes, about: str) -> Iterator[str]:
        """Proofs, one with each key, that these words come from a holder of it."""
        for key in self._keys:
            marking = hmac.new(key, f"mark of {about}".encode(), sha256).digest()
            yield hmac.new(marking, words, sha256).hexdigest()

    def unseal(self, sealed: str, about: str) -> str:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  only where secrets are shared

        try:
            data = base64.b64decode(sealed, validate=True)
        except ValueError:
            data = b""
        for key in self._keys:
            try:
                opened = _cipher(key).decrypt(
                    data[:_NONCE_BYTES], data[_NONCE_BYTES:], about.encode()
                )
            except (InvalidTag, ValueError):
                continue
            return bytes(opened).decode()
        raise NotOpened(f"the ledger has secrets that another ledger key has encrypted: {HOW}")


def find_ledger_key(config: Config, paths: Paths, environ: Mapping[str, str]) -> LedgerKey | None:
    """The key from the environment or a file; None: none is given."""
    if given := environ.get(KEY_VARIABLE, "").strip():
        return LedgerKey(given)
    if not config.ledger.key_file:
        return None
    return LedgerKey(_read(paths.resolve(config.ledger.key_file)))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_BYTES_MAX).decode("ascii", "replace")
    except OSError as error:
        raise ConfigInvalid(f"ledger.keyFile: {path} cannot be read: {error.strerror}") from None


def _cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  only where secrets are shared

    return AESGCM(key)
