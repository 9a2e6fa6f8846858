"""Shared keys of model services: set on one of several gateways, stored encrypted in the ledger,
used by all.

Key files (`credentials/`) stay each machine's own, and are used after these. A shared key is in
clear only in memory.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread

from crossclaw.config.ledger_key import HOW, LedgerKey, NotOpened
from crossclaw.config.profiles import NamedKey, forget_key, keep_key
from crossclaw.domain.errors import Invalid
from crossclaw.domain.secret import Secret
from crossclaw.ledger.shared_settings import SealedModelKey, SharedSettings

NO_KEY = f"a key of a model service is kept for all gateways, and only encrypted: {HOW}. Nothing was kept"

RenewKey = Callable[[str], None]
"""Puts the key of a service in force that has changed."""


def _nothing_to_renew(_provider: str) -> None:
    """Does nothing: used where no provider has been made yet."""


class SharedModelKeys:
    """Keys as the ledger has them, as far as they can be decrypted here."""

    def __init__(self, settings: SharedSettings, key: LedgerKey | None) -> None:
        self._settings, self._key = settings, key
        self._rows: Mapping[str, SealedModelKey] = {}
        self.found: dict[str, NamedKey] = {}
        """The keys that could be decrypted, by the name of the service."""

    async def look(self, renew: RenewKey = _nothing_to_renew) -> str | None:
        """Reads the keys from the ledger, and calls `renew` for each service whose key has changed.
        Returns why this gateway cannot use them, or None."""
        rows = {each.provider: each for each in await self._settings.list_model_keys()}
        changed = sorted(
            name
            for name in self._rows.keys() | rows.keys()
            if self._rows.get(name) != rows.get(name)
        )
        self._rows = rows
        for name in changed:
            self.found.pop(name, None)
            if (row := rows.get(name)) is not None and (opened := self._opened(row)) is not None:
                self.found[name] = opened
            renew(name)
        return self._unread(sorted(rows.keys() - self.found.keys()))

    def _opened(self, row: SealedModelKey) -> NamedKey | None:
        if self._key is None:
            return None
        try:
            text = self._key.unseal(row.sealed, _about(row.provider, row.base_url))
        except NotOpened:
            return None
        return NamedKey(f"the key of {row.provider} in the ledger", Secret(text), row.base_url)

    def _unread(self, names: Sequence[str]) -> str | None:
        if not names:
            return None
        said = ", ".join(names)
        if self._key is None:
            return f"the key of {said} is kept in the ledger, and no ledger key is set here: {HOW}"
        return f"the key of {said} was encrypted in the ledger with another ledger key: {HOW}"

    async def put(self, provider: str, key: Secret, base_url: str | None) -> None:
        """Stores a key for all gateways, which use it when they have looked. Raises `Invalid` without
        a ledger key."""
        if self._key is None:
            raise Invalid(NO_KEY)
        sealed = self._key.seal(key.reveal(), _about(provider, base_url))
        row = SealedModelKey(provider=provider, base_url=base_url, sealed=sealed)
        await self._settings.put_model_key(row)

    async def remove(self, provider: str) -> bool:
        """Removes a key; returns whether there was one."""
        return await self._settings.delete_model_key(provider)


class LocalKeyStore:
    """Keys in the files of this machine (`credentials/`)."""

    def __init__(self, state_dir: Path, renew: RenewKey) -> None:
        self._state_dir, self.renew = state_dir, renew

    async def keep(self, provider: str, key: Secret, base_url: str | None) -> None:
        keep = partial(keep_key, self._state_dir, provider, key, base_url)
        await anyio.to_thread.run_sync(keep)

    async def forget(self, provider: str) -> bool:
        return await anyio.to_thread.run_sync(forget_key, self._state_dir, provider)


class SharedKeyStore(LocalKeyStore):
    """Keys for all gateways. Removing one removes this machine's own too."""

    def __init__(self, state_dir: Path, renew: RenewKey, shared: SharedModelKeys) -> None:
        super().__init__(state_dir, renew)
        self._shared = shared

    async def keep(self, provider: str, key: Secret, base_url: str | None) -> None:
        await self._shared.put(provider, key, base_url)
        await self._shared.look(self.renew)

    async def forget(self, provider: str) -> bool:
        here = await super().forget(provider)
        there = await self._shared.remove(provider)
        await self._shared.look(self.renew)
        return there or here


def _about(provider: str, base_url: str | None) -> str:
    """What a key is bound to: it opens for this service at this address only, so whoever can write
    in the ledger cannot send it elsewhere."""
    return f"model key {provider} {base_url or ''}"
