"""Proof that a config in the ledger was stored by a gateway: whoever can only write to the database changes no config by it.

A config is stored with a seal by the gateways' token, and with one by the ledger key where one is given: that one still holds
after a change of the token. One of them is enough.
"""

import hmac
from collections.abc import Iterator
from hashlib import sha256

import msgspec

from crossclaw.config.ledger_key import LedgerKey
from crossclaw.domain.secret import Secret
from crossclaw.ledger.shared_settings import AgreedConfig


class ConfigProof:
    """`token`: the secret that all gateways have, as it is now."""

    def __init__(self, token: Secret, key: LedgerKey | None) -> None:
        self.token, self._key = token, key

    def sealed(self, config: AgreedConfig) -> AgreedConfig:
        return msgspec.structs.replace(config, seal=" ".join(self._seals(config)))

    def is_proven(self, config: AgreedConfig) -> bool:
        shown = config.seal.encode().split()
        return any(
            hmac.compare_digest(right.encode(), each)
            for right in self._seals(config)
            for each in shown
        )

    def _seals(self, config: AgreedConfig) -> Iterator[str]:
        """The number is part of it: an old config is not put in a newer one's place."""
        keys = sorted(config.keys.items())
        said = [config.epoch, config.digest, keys, config.text, config.secrets, config.by]
        words = msgspec.json.encode(said)
        secret = f"crossclaw config {self.token.reveal()}".encode()
        yield hmac.new(secret, words, sha256).hexdigest()
        if self._key is not None:
            yield from self._key.marks(words, "config")
