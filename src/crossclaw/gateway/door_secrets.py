"""The gateway's own secrets as credentials: recognised after a restart, so that changing one ends what the old
one began, also when it was changed while no gateway ran.

Only a slow digest with a salt of its own is kept: a config may have a short token or a password, and a copy of
the ledger must not reveal it.
"""

import hashlib
import hmac
import os
from collections.abc import Mapping

import anyio.to_thread

from crossclaw.domain.clock import Clock
from crossclaw.domain.credentials import Credential, DeviceDescription
from crossclaw.domain.errors import ConfigInvalid, Fenced
from crossclaw.gateway.auth import SecretDigests
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import DeleteCredential, PutCredential
from crossclaw.policy.credentials import Credentials

SALT_BYTES = 16
SCRYPT = {"n": 2**14, "r": 8, "p": 1, "maxmem": 64 * 2**20}  # 16 MB and some 40 ms for each guess


class DoorSecrets:
    def __init__(self, ledger: Ledger, credentials: Credentials, clock: Clock) -> None:
        self._ledger = ledger
        self._credentials = credentials
        self._clock = clock

    async def settle(
        self, door_digests: Mapping[str, SecretDigests], *, is_agreed: bool = False
    ) -> None:
        """Gives each door its epoch at the start: a new one if its secret has changed. `is_agreed`: the
        stored secrets open other gateways, so this one must have the same."""
        kept = {each.credential_id: each for each in await self._doors()}
        for door, digests in door_digests.items():
            known = kept.get(door)
            if known is not None and await _is_of(known, digests):
                self._credentials.put(door, known.epoch)
                continue
            if known is not None and is_agreed:
                raise ConfigInvalid(
                    f"the secret of {door} is another one than on the gateways that share this ledger: give "
                    "all of them the same gateway.auth.token (and hooks.token)"
                )
            self._credentials.put(door, self._credentials.next_epoch(door, self._clock.now_ms()))
            await self.keep(door, digests)
        for door in kept.keys() - door_digests.keys():
            await self._ledger.do(DeleteCredential(credential_id=door))

    async def keep(self, door: str, digests: SecretDigests | None) -> None:
        """Stores the secret that opens a door from now on; None: the door is closed for good. Where another
        gateway has stored the same secret already, its epoch counts here too, so that no client is sent away
        again."""
        known = {each.credential_id: each for each in await self._doors()}
        if digests is not None and door in known and await _is_of(known[door], digests):
            self._credentials.put(door, known[door].epoch)
            return
        if digests is None:
            if door in known:
                await self._ledger.do(DeleteCredential(credential_id=door))
            return
        epoch = self._credentials.epoch_of(door)
        assert epoch is not None, door
        salt = os.urandom(SALT_BYTES)
        digest = await anyio.to_thread.run_sync(_digest, digests, salt)
        credential = Credential(
            credential_id=door,
            kind="door",
            subject=door,
            role="operator",
            scopes=(),
            epoch=epoch,
            created_at=self._clock.now_ms(),
            particulars=DeviceDescription(public_key=""),
            digests=(salt.hex(), digest.hex()),
        )
        over = known[door].epoch if door in known else 0
        try:
            await self._ledger.do(PutCredential(credential=credential, over=over))
        except Fenced:  # another gateway was quicker, most likely with the same secret
            await self.keep(door, digests)

    async def _doors(self) -> list[Credential]:
        return [each for each in await self._ledger.list_credentials() if each.kind == "door"]


async def _is_of(known: Credential, digests: SecretDigests) -> bool:
    salt, kept = known.digests
    found = await anyio.to_thread.run_sync(_digest, digests, bytes.fromhex(salt))
    return hmac.compare_digest(found.hex(), kept)


def _digest(digests: SecretDigests, salt: bytes) -> bytes:
    """A digest of all secrets that open it, in any order."""
    return hashlib.scrypt(b"".join(sorted(digests.digests)), salt=salt, **SCRYPT)
