"""Settings that gateways which share a ledger have in common, as the ledger keeps them: the config, and keys of models.

A config has a number (its epoch), and the highest one counts. A new one is stored only by a gateway that knows the one before
it: of two that change the config at once, one is refused. What is secret is there only encrypted (`config/ledger_key`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

EPOCHS_KEPT = 1_000
"""Older configs as digests: a gateway that was away for so many changes is still known to be behind."""

CONFIG, MODEL_KEYS = "config", "keys"
"""Kinds of hints between gateways."""


class SealedSecret(msgspec.Struct, frozen=True):
    """A secret of the config that was set over the wire."""

    path: tuple[str | int, ...]
    epoch: int
    """Of the change that set it: who has taken that one over has it."""
    sealed: str


class AgreedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the configs of all gateways have in common from some change on."""

    epoch: int
    digest: str
    keys: Mapping[str, str]
    """Setting by setting, as digests."""
    text: str
    """As JSON, without secrets."""
    secrets: tuple[SealedSecret, ...] = ()
    by: str = ""
    """The gateway that has stored it."""
    seal: str = ""
    """Proves that a gateway has: who can only write here has no way to make it."""


class SealedModelKey(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    base_url: str | None = None
    """The only address that it may go to."""
    sealed: str


class SharedSettings(Protocol):
    async def newest_config(self, after: int) -> AgreedConfig | None:
        """None when there is none newer than that."""
        ...

    async def find_epoch(self, digest: str) -> int | None:
        """Of the newest config that was this one."""
        ...

    async def put_config(self, config: AgreedConfig, after: int) -> bool:
        """False, and nothing is stored, when the newest is another one than that."""
        ...

    async def list_model_keys(self) -> Sequence[SealedModelKey]: ...

    async def put_model_key(self, key: SealedModelKey) -> None:
        """In place of the one that the provider had."""
        ...

    async def delete_model_key(self, provider: str) -> bool:
        """Whether there was one."""
        ...
