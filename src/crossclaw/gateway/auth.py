"""Authentication: secrets kept as digests, and a delay for whoever guesses.

No address is trusted; a connection from this machine needs the secret like any other. The secret is compared
first: a right one enters at once, however many wrong ones others have shown; a wrong one is answered after a
pause, or not at all.
"""

import hmac
import logging
from collections.abc import Mapping
from ipaddress import ip_address

import msgspec

from crossclaw.config.gateway import GatewayAuth
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import ConfigInvalid, Invalid
from crossclaw.domain.secret import Secret
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.pauses import Pauses
from crossclaw.policy.credentials import Credentials

log = logging.getLogger(__name__)

GATEWAY = "gateway"


class Unauthorized(Invalid):
    """The secret is missing or wrong. `kind` is what was expected, `missing` whether none came."""

    def __init__(self, kind: str, *, missing: bool) -> None:
        super().__init__(f"unauthorized: gateway {kind} {'missing' if missing else 'mismatch'}")
        self.details = {"code": f"AUTH_{kind.upper()}_{'MISSING' if missing else 'MISMATCH'}"}


class DeviceTokenMismatch(Unauthorized):
    """A device showed a token that is not, or no longer, its own."""

    def __init__(self) -> None:
        super().__init__("device_token", missing=False)
        self.args = ("unauthorized: device token mismatch",)


class PresentedSecrets(msgspec.Struct, frozen=True):
    """The secrets that a client shows."""

    token: str | None = None
    password: str | None = None
    device_token: str | None = None

    def value(self, kind: str) -> str | None:
        """The one secret of this attempt, the expected kind first: two would be two guesses for one."""
        first, second = self.token, self.password
        if kind == "password":
            first, second = second, first
        return first or second


class SecretDigests(msgspec.Struct, frozen=True):
    """The secrets that open one door, as digests."""

    digests: tuple[bytes, ...]
    kind: str = "token"

    def opened_by(self, value: str) -> bool:
        """Whether one of the secrets matches. Compares with all of them, so that the time reveals nothing."""
        digest, found = Secret(value).digest(), False
        for kept in self.digests:
            found |= hmac.compare_digest(digest, kept)
        return found


def gateway_digests(auth: GatewayAuth, token: Secret, host: str) -> SecretDigests:
    """The secrets that open the gateway. The token always does; in password mode the password as well. A
    guessable one is accepted on loopback only, where existing configs have it."""
    secrets = [token]
    if auth.mode == "password":
        if not auth.password:
            raise ConfigInvalid(
                "gateway.auth.mode is password but gateway.auth.password is not set"
            )
        secrets.append(auth.password)
    elif auth.mode != "token":
        log.warning(
            "gateway.auth.mode %s is not supported: the gateway's token is needed", auth.mode
        )
    _refuse_weak(auth, secrets, host)
    kind = "password" if auth.mode == "password" else "token"
    return SecretDigests(tuple(secret.digest() for secret in secrets), kind)


def secret_digests(secret: Secret) -> SecretDigests:
    return SecretDigests((secret.digest(),))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


CLOSED = SecretDigests(())
"""No secrets at all: nothing opens it."""


class Authenticator:
    """Checks secrets for every transport and every door. A door's own secret is a credential: changing it
    begins a new epoch, and whoever came in before must come in again."""

    def __init__(
        self,
        door_digests: Mapping[str, SecretDigests],
        clock: Clock,
        limits: GatewayLimits | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._door_digests = dict(door_digests)
        self._clock = clock
        self._pauses = Pauses(clock, limits or GatewayLimits())
        self.credentials = credentials or Credentials()
        for door in door_digests:
            if self.credentials.epoch_of(door) is None:
                self.credentials.put(door, clock.now_ms())
        self.verified = 0
        """Secrets looked at so far."""

    async def check(self, address: str, offer: PresentedSecrets, door: str = GATEWAY) -> None:
        expected = self._door_digests.get(door, CLOSED)
        value = offer.value(expected.kind)
        if not value:
            raise Unauthorized(expected.kind, missing=True)
        if self._opened(value, expected) is None:
            await self._pauses.after_a_wrong_secret(address)
            raise Unauthorized(expected.kind, missing=False)

    async def check_device(
        self, address: str, offer: PresentedSecrets, own: SecretDigests
    ) -> SecretDigests:
        """Checks for the gateway's secret or the device's own token; returns which of the two matched. Old
        clients show their device's token where the gateway's belongs."""
        expected = self._door_digests[GATEWAY]
        shown = dict.fromkeys(filter(None, (offer.value(expected.kind), offer.device_token)))
        if not shown:
            raise Unauthorized(expected.kind, missing=True)
        for value in shown:
            if (opened := self._opened(value, expected, own)) is not None:
                return opened
        await self._pauses.after_a_wrong_secret(address)
        raise (
            DeviceTokenMismatch()
            if offer.device_token
            else Unauthorized(expected.kind, missing=False)
        )

    def _opened(self, value: str, *door_digests: SecretDigests) -> SecretDigests | None:
        self.verified += 1
        opened = [expected for expected in door_digests if expected.opened_by(value)]
        return opened[0] if opened else None

    def has(self, door: str) -> bool:
        return door in self._door_digests

    def credential_ref(self, door: str = GATEWAY) -> CredentialRef:
        """The credential that runs begun with a door's own secret carry."""
        return CredentialRef(door, self.credentials.epoch_of(door))

    def rotate(self, door_digests: Mapping[str, SecretDigests]) -> list[str]:
        """Replaces the secrets. Returns the doors whose secrets have changed: their epoch is new at once."""
        before, self._door_digests = self._door_digests, dict(door_digests)
        changed = [
            door
            for door in {**before, **door_digests}
            if before.get(door) != door_digests.get(door)
        ]
        for door in changed:
            if door in door_digests:
                self.credentials.put(door, self.credentials.next_epoch(door, self._clock.now_ms()))
            else:
                self.credentials.drop(door)
        return changed


class RateBudget:
    """A token bucket: so many at once, then one every `refill_s`."""

    __slots__ = ("_at_s", "_left", "_most", "_refill_s")

    def __init__(self, most: int, refill_s: float) -> None:
        self._most, self._refill_s = most, refill_s
        self._left, self._at_s = float(most), 0.0

    def take(self, now_s: float) -> bool:
        passed_s = max(0.0, now_s - self._at_s)  # a wall clock may be set back
        self._left = min(self._most, self._left + passed_s / self._refill_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _refuse_weak(auth: GatewayAuth, secrets: list[Secret], host: str) -> None:
    chars_min = GatewayLimits().secret_chars_min
    weak = [s for s in secrets if len(s.reveal()) < chars_min]
    if not weak and auth.mode != "password":
        return
    what = "a password" if auth.mode == "password" else "a short token"
    if not is_loopback(host):
        raise ConfigInvalid(
            f"{what} could be guessed from the network, and the gateway is to listen on {host}: "
            f"use a random token of at least {chars_min} characters "
            "(gateway.auth.token), or gateway.bind loopback"
        )
    log.warning("the gateway is opened by %s; a random token of 32 characters is safer", what)
