"""Proof that a gateway has stored the config in the ledger.

Whoever can only write to the database cannot change a config: it is stored with a seal by the
gateways' token, and with one by the ledger key if there is one, which stays valid after a change of
the token. One of them is enough. A token may be short, and a copy of the ledger must not reveal it:
so its seal is made with a slow digest of it and a salt, as `gateway/door_secrets` does.
"""

import hashlib
import hmac
import os
from collections.abc import Iterator
from hashlib import sha256

import msgspec

from crossclaw.config.ledger_key import LedgerKey
from crossclaw.domain.secret import Secret
from crossclaw.gateway.door_secrets import SALT_BYTES, SCRYPT
from crossclaw.ledger.shared_settings import AgreedConfig

SEALS_MAX = 8  # that are looked at: each with another salt costs a slow digest
DIGESTS_KEPT = 16


class ConfigProof:
    """Seals configs and checks the seals. `token` is the secret that all gateways share, as it is
    now. Slow: called in threads."""

    def __init__(self, token: Secret, key: LedgerKey | None) -> None:
        self.token, self._key = token, key
        self._salt = os.urandom(SALT_BYTES).hex()
        self._digests: dict[tuple[str, str], bytes] = {}

    def take_token(self, token: Secret) -> None:
        self.token = token

    def sealed(self, config: AgreedConfig) -> AgreedConfig:
        words = _words(config)
        seals = [self._by_token(words, self._salt), *self._by_key(words)]
        return msgspec.structs.replace(config, seal=" ".join(seals))

    def is_proven(self, config: AgreedConfig) -> bool:
        words, shown = _words(config), config.seal.split()[:SEALS_MAX]
        by_key = list(self._by_key(words))
        if any(_same(right, each) for right in by_key for each in shown):
            return True
        salted = [(each.partition(".")[0], each) for each in shown if "." in each]
        return any(_same(self._by_token(words, salt), each) for salt, each in salted)

    def _by_key(self, words: bytes) -> Iterator[str]:
        if self._key is not None:
            yield from self._key.marks(words, "config")

    def _by_token(self, words: bytes, salt: str) -> str:
        return f"{salt}.{hmac.new(self._digest(salt), words, sha256).hexdigest()}"

    def _digest(self, salt: str) -> bytes:
        known = self.token.reveal(), salt
        if known not in self._digests:
            if len(self._digests) >= DIGESTS_KEPT:
                self._digests.clear()
            token, salted = known[0].encode("utf-8", "surrogatepass"), f"config {salt}".encode()
            self._digests[known] = hashlib.scrypt(token, salt=salted, **SCRYPT)
        return self._digests[known]


def _words(config: AgreedConfig) -> bytes:
    """The bytes that are sealed. The epoch is among them, so that an old config cannot replace a
    newer one."""
    keys = sorted(config.keys.items())
    said = [config.epoch, config.digest, keys, config.text, config.secrets, config.by]
    return msgspec.json.encode(said)


def _same(right: str, shown: str) -> bool:
    return hmac.compare_digest(right.encode(), shown.encode("utf-8", "replace"))
