"""Settings that gateways on one ledger share, as the ledger stores them: the config, and model
keys.

A config has a number (its epoch), and the highest one counts. A new one is stored only by a gateway
that knows the one before it: of two that change the config at once, one is refused. Secrets are
there only encrypted (`config/ledger_key`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

EPOCHS_KEPT = 1_000
"""How many older configs are kept as digests: a gateway that missed so many changes is still known
to be behind."""

CONFIG, MODEL_KEYS = "config", "keys"
"""Two kinds of hints between gateways."""


class SealedSecret(msgspec.Struct, frozen=True):
    """A secret of the config that was set over the wire."""

    path: tuple[str | int, ...]
    epoch: int
    """The epoch of the change that set it: a gateway that has applied that one has it."""
    sealed: str


class AgreedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that all gateways share from some change on."""

    epoch: int
    digest: str
    keys: Mapping[str, str]
    """The settings, each as a digest."""
    text: str
    """The settings as JSON, without secrets."""
    secrets: tuple[SealedSecret, ...] = ()
    by: str = ""
    """The name of the gateway that has stored it."""
    seal: str = ""
    """Proves that a gateway has stored it: whoever can only write to the database cannot make
    it."""


class SealedModelKey(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    base_url: str | None = None
    """The only address that it may be sent to."""
    sealed: str


class SharedSettings(Protocol):
    async def newest_config(self, after: int) -> AgreedConfig | None:
        """The newest config; None if none is newer than `after`."""
        ...

    async def find_epoch(self, digest: str) -> int | None:
        """The number of the newest config with this digest."""
        ...

    async def put_config(self, config: AgreedConfig, after: int) -> bool:
        """Stores a config if `after` is still the newest; otherwise False, and nothing is
        stored."""
        ...

    async def list_model_keys(self) -> Sequence[SealedModelKey]: ...

    async def put_model_key(self, key: SealedModelKey) -> None:
        """Stores a provider's key in place of the one it had."""
        ...

    async def delete_model_key(self, provider: str) -> bool:
        """Deletes a provider's key; returns whether there was one."""
        ...
