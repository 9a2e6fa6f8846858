"""Credentials: the devices that may come in, and those that asked for it. Secrets are kept only as digests."""

from typing import Literal

import msgspec

from crossclaw.domain.authority import CredentialRef

CredentialKind = Literal["device", "pairing", "door", "guest"]
"""device: a device that was let in, in one role. pairing: a device that waits for approval. door: a secret of
the gateway itself. guest: an MCP client, with the name it is bound to."""


class DeviceDescription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a device said of itself. For people to recognise it; nothing is decided by it."""

    public_key: str
    client_id: str = ""
    client_mode: str = ""
    platform: str = ""
    display_name: str | None = None
    device_family: str | None = None
    remote_ip: str = ""
    silent: bool = False
    """Whether it was let in without asking, because it came from this machine with the gateway's own secret."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    credential_id: str
    kind: CredentialKind
    subject: str
    """The device's id: the digest of its public key."""
    role: str
    scopes: tuple[str, ...]
    epoch: int
    """A number that grows when its tokens are changed or taken away: what an older one began ends."""
    created_at: int
    particulars: DeviceDescription
    digests: tuple[str, ...] = ()
    used_at: int | None = None
    """The time at which one of its tokens was last shown; None: never."""
    revoked_at: int | None = None

    @property
    def ref(self) -> CredentialRef:
        return CredentialRef(self.credential_id, self.epoch)
