"""Pairing: which devices may come in, in which role and with which scopes, and by which token.

    stranger ──secret, from here──▶ paired ──its own token──▶ in
        └─secret, from elsewhere──▶ waits ──approval───────▶ paired

A device proves its key with every connection (`devices`). What is remembered of it is one credential
a role, in the ledger with digests only; all of them are held in memory too, so that coming in reads
nothing. The tokens of a device alone never widen what it may: that takes an approval.
"""

import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from crossclaw.domain.agents import DEFAULT_AGENT_ID
from crossclaw.domain.clock import Clock
from crossclaw.domain.credentials import Credential, DeviceDescription
from crossclaw.domain.errors import Busy, CrossclawError, Fenced, Invalid, NotFound
from crossclaw.domain.ids import Ids
from crossclaw.domain.secret import Secret
from crossclaw.door.held_credentials import HeldCredentials
from crossclaw.door.principal import Principal, includes, person_principal
from crossclaw.gateway.auth import DeviceTokenMismatch, SecretDigests
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.jobs import SwitchOffJobs
from crossclaw.ledger.operations import Audit, DeleteCredential, Op, PutCredential
from crossclaw.policy.credentials import Credentials

log = logging.getLogger(__name__)

DEVICES_MAX = (
    1_000  # rows held in memory; a household has ten, a build farm makes new ones each time
)
PENDING_MAX = 100  # a person has to look at each
PENDING_MS = 3_600_000  # who still wants to come in asks again by itself
TOKENS_KEPT = 8  # several programs of one device may come in at once, and share one store
USED_MS = 3_600_000  # how exactly the last use of a token is remembered: not one write a connection

PairingReason = Literal["not-paired", "role-upgrade", "scope-upgrade"]
TellEvent = Callable[[str, dict[str, Any]], None]
"""An event for those who may decide about devices."""


class PairingRequired(CrossclawError):
    code = "NOT_PAIRED"

    def __init__(self, request_id: str, reason: PairingReason) -> None:
        super().__init__(
            "pairing required: approve the device on the gateway's machine, "
            f"crossclaw devices approve {request_id}"
        )
        self.details = {"code": "PAIRING_REQUIRED", "requestId": request_id, "reason": reason}


class PairingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A device that has proved its key, and the role and scopes it asks for."""

    device_id: str
    role: str
    scopes: tuple[str, ...]
    particulars: DeviceDescription
    trusted: bool
    """Whether it is on this machine and has shown the gateway's own secret."""
    token_epoch: int | None = None
    """The epoch of the credential whose token it has shown; None: it has shown the gateway's secret."""


class Paired(msgspec.Struct, frozen=True):
    credential: Credential
    token: Secret | None = None
    """A new token for the device; it is stored nowhere else."""


class Pairings(HeldCredentials):
    def __init__(
        self,
        ledger: Ledger,
        tell: TellEvent,
        clock: Clock,
        ids: Ids,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(ledger, credentials or Credentials())
        self._tell = tell
        self._clock = clock
        self._ids = ids
        self._devices: dict[str, Credential] = {}
        self._pending: dict[str, Credential] = {}

    async def _load(self) -> None:
        """Reads the devices; sends events of requests that came and were answered on another gateway."""
        waited = {each.credential_id: each for each in self.pending}
        stored = [
            each
            for each in await self._ledger.list_credentials()
            if each.kind in ("device", "pairing")
        ]
        there = {each.credential_id for each in stored}
        held = [*self._devices.values(), *self._pending.values()]
        self._forget([each for each in held if each.credential_id not in there])
        for each in stored:
            self._remember(each)
        waiting = {each.credential_id: each for each in self.pending}
        for name in waiting.keys() - waited.keys():
            self._tell("device.pair.requested", described(waiting[name]))
        for name in waited.keys() - there:
            gone = waited[name]
            found = self.find(gone.subject, gone.role)
            stands = found is not None and found.revoked_at is None
            is_approved = stands and found is not None and covers(found.scopes, gone.scopes)
            self._resolved(name, gone.subject, "approved" if is_approved else "rejected")

    # ── what is known ──────────────────────────────────────────────────────────────────────────

    def find(self, device_id: str, role: str) -> Credential | None:
        return self._devices.get(_credential_id(device_id, role))

    def lock(self, device_id: str, role: str) -> SecretDigests:
        """The device's tokens, as digests; nothing matches an unknown one's."""
        found = self.find(device_id, role)
        return SecretDigests(tuple(bytes.fromhex(each) for each in found.digests) if found else ())

    def find_token(self, value: str) -> Principal | None:
        """The device whose token this is, where it cannot sign: as a person's client, with what it was
        granted. Tokens are random, so a lookup by value reveals nothing by its timing."""
        digest = Secret(value).digest().hex()
        for each in self._devices.values():
            if each.role == "operator" and digest in each.digests:
                return person_principal(f"device:{each.subject}", each.scopes, [each.ref])
        return None

    def of(self, device_id: str) -> list[Credential]:
        return [each for each in self._devices.values() if each.subject == device_id]

    @property
    def devices(self) -> list[Credential]:
        return list(self._devices.values())

    @property
    def pending(self) -> list[Credential]:
        oldest = self._clock.now_ms() - PENDING_MS
        return [each for each in self._pending.values() if each.created_at > oldest]

    def request(self, request_id: str) -> Credential:
        for each in self.pending:
            if each.credential_id == request_id:
                return each
        raise NotFound("unknown requestId")

    # ── coming in ──────────────────────────────────────────────────────────────────────────────

    async def admit(self, wish: PairingRequest) -> Paired:
        async with self._changing:
            found = self.find(wish.device_id, wish.role)
            if wish.token_epoch is not None and (found is None or found.epoch != wish.token_epoch):
                raise DeviceTokenMismatch()  # taken away while it was on its way in
            if found is not None and found.revoked_at is None and covers(found.scopes, wish.scopes):
                return await self._welcome_back(found, wish)
            if wish.trusted and not (found and found.revoked_at):
                return await self._let_in(found, wish)
            raise PairingRequired(await self._ask(wish), self._why(found, wish))

    async def _welcome_back(self, found: Credential, wish: PairingRequest) -> Paired:
        """Admits a paired device. A token that was never shown may have been lost on its way: another one is
        given."""
        now, used_at = self._clock.now_ms(), found.used_at
        if wish.token_epoch is None:
            return await self._give_token(found) if used_at is None else Paired(found)
        if used_at is None or now - used_at > USED_MS:
            found = msgspec.structs.replace(found, used_at=now)
            await self._put(found)
        return Paired(found)

    async def _let_in(self, found: Credential | None, wish: PairingRequest) -> Paired:
        particulars = msgspec.structs.replace(wish.particulars, silent=True)
        credential = self._credential(found, wish.device_id, wish.role, wish.scopes, particulars)
        gone = self._crowded()
        paired = await self._give_token(credential, *_deleting(gone))
        self._forget(gone)
        self._resolved(self._ids.new(), wish.device_id, "approved")
        return paired

    async def _give_token(self, credential: Credential, *more: Op[Any]) -> Paired:
        token = Secret(secrets.token_urlsafe(32))
        digests = (token.digest().hex(), *credential.digests)[:TOKENS_KEPT]
        given = msgspec.structs.replace(credential, digests=digests)
        await self._put(given, *more)
        return Paired(given, token)

    def _credential(
        self,
        found: Credential | None,
        device_id: str,
        role: str,
        scopes: Iterable[str],
        particulars: DeviceDescription,
    ) -> Credential:
        """The device's credential with all that was granted before, unless that was revoked."""
        now = self._clock.now_ms()
        if found is not None and found.revoked_at is None:
            wider = tuple(sorted({*found.scopes, *scopes}))
            return msgspec.structs.replace(found, scopes=wider, particulars=particulars)
        return Credential(
            credential_id=_credential_id(device_id, role),
            kind="device",
            subject=device_id,
            role=role,
            scopes=tuple(sorted(scopes)),
            epoch=self._credentials.next_epoch(_credential_id(device_id, role), now),
            created_at=now,
            particulars=particulars,
        )

    def _crowded(self) -> list[Credential]:
        """The device that is removed for a new one when there are too many: one that was let in without
        asking can be let in so again."""
        if len(self._devices) < DEVICES_MAX:
            return []
        silent = [each for each in self._devices.values() if each.particulars.silent]
        if not silent:
            raise Busy(f"{DEVICES_MAX} devices are paired; remove one first")
        return [min(silent, key=lambda each: each.used_at or each.created_at)]

    # ── asking ─────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, wish: PairingRequest) -> str:
        """Stores a request for approval, one a device and role. Asking again for the same is the same request."""
        known = [each for each in self.pending if each.subject == wish.device_id]
        former = next((each for each in known if each.role == wish.role), None)
        if former is not None and former.scopes == wish.scopes:
            return former.credential_id
        gone = [*self._expired(), *([former] if former else [])]
        if len(self._pending) - len(gone) >= PENDING_MAX:
            raise Busy(f"{PENDING_MAX} devices wait to be approved already; try again later")
        now = self._clock.now_ms()
        request = Credential(
            credential_id=self._ids.new(),
            kind="pairing",
            subject=wish.device_id,
            role=wish.role,
            scopes=wish.scopes,
            epoch=now,
            created_at=now,
            particulars=wish.particulars,
        )
        await self._put(request, *_deleting(gone))
        self._forget(gone)
        if former is not None:
            self._resolved(former.credential_id, wish.device_id, "rejected")
        log.info("a device waits: crossclaw devices approve %s", request.credential_id)
        self._tell("device.pair.requested", described(request))
        return request.credential_id

    def _expired(self) -> list[Credential]:
        current = {each.credential_id for each in self.pending}
        return [each for name, each in self._pending.items() if name not in current]

    def _why(self, found: Credential | None, wish: PairingRequest) -> PairingReason:
        if found is not None and found.revoked_at is None:
            return "scope-upgrade"
        others = [each for each in self.of(wish.device_id) if each.role != wish.role]
        return "role-upgrade" if others else "not-paired"

    # ── deciding ───────────────────────────────────────────────────────────────────────────────

    async def approve(self, request_id: str, by: Principal) -> Credential:
        async with self._changing:
            request = self.request(request_id)
            found = self.find(request.subject, request.role)
            asked = request.particulars
            given = self._credential(found, request.subject, request.role, request.scopes, asked)
            gone = [request, *([] if found else self._crowded())]
            audit = self._audit(by, "device.pair.approve", request.subject)
            await self._put(given, *_deleting(gone), audit)
            self._forget(gone)
        self._resolved(request_id, request.subject, "approved")
        return given

    async def reject(self, request_id: str, by: Principal) -> Credential:
        async with self._changing:
            request = self.request(request_id)
            audit = self._audit(by, "device.pair.reject", request.subject)
            await self._ledger.commit(*_deleting([request]), audit)
            self._forget([request])
        self._resolved(request_id, request.subject, "rejected")
        return request

    async def remove(self, device_id: str, by: Principal) -> list[str]:
        """Removes a device in every role. Returns its jobs, which stop."""
        async with self._changing:
            known = [each for each in self._pending.values() if each.subject == device_id]
            rows = [*self.of(device_id), *known]
            if not rows:
                raise NotFound("unknown deviceId")
            audit = self._audit(by, "device.pair.remove", device_id)
            off = self._switching_off(rows)
            *_, stopped = await self._ledger.commit(*_deleting(rows), audit, off)
            self._forget(rows)
        return list(stopped)

    def _switching_off(self, gone: Iterable[Credential]) -> SwitchOffJobs:
        return SwitchOffJobs(
            credential_ids=tuple(each.credential_id for each in gone),
            reason="the device that made this job was revoked or removed; switch the job on to take it over",
            at=self._clock.now_ms(),
        )

    async def rotate(
        self, device_id: str, role: str, scopes: tuple[str, ...] | None, by: Principal
    ) -> Paired:
        """Gives a new token in place of all earlier ones; it may have fewer scopes, never more."""
        async with self._changing:
            found = self._get(device_id, role)
            if found.revoked_at is not None:
                raise Invalid("this token was revoked: the device has to be approved anew")
            if scopes is not None and not covers(found.scopes, scopes):
                raise Invalid("a token cannot be given more scopes than were approved")
            fresh = msgspec.structs.replace(
                found,
                scopes=found.scopes if scopes is None else tuple(sorted(scopes)),
                digests=(),
                epoch=found.epoch + 1,
                used_at=None,
            )
            return await self._give_token(fresh, self._audit(by, "device.token.rotate", device_id))

    async def revoke(
        self, device_id: str, role: str, by: Principal
    ) -> tuple[Credential, list[str]]:
        """Revokes a device's role: no token opens it, and the next time somebody has to approve it, wherever
        it is. Its jobs stop."""
        async with self._changing:
            found = self._get(device_id, role)
            ended = msgspec.structs.replace(
                found,
                digests=(),
                epoch=found.epoch + 1,
                used_at=None,
                revoked_at=self._clock.now_ms(),
            )
            audit = self._audit(by, "device.token.revoke", device_id)
            stopped = await self._put(ended, audit, self._switching_off([ended]))
            return ended, list(stopped)

    def _get(self, device_id: str, role: str) -> Credential:
        found = self.find(device_id, role)
        if found is None:
            raise NotFound("unknown deviceId/role")
        return found

    # ── keeping ────────────────────────────────────────────────────────────────────────────────

    async def _put(self, credential: Credential, *more: Op[Any]) -> Any:
        """Stores a credential; returns what the last of `more` returns. Refused if another gateway has
        changed it meanwhile."""
        held = self._devices.get(credential.credential_id)
        put = PutCredential(credential=credential, over=held.epoch if held else 0)
        try:
            *_, last = await self._ledger.commit(put, *more)
        except (Fenced, NotFound) as late:
            await self._load()
            raise Busy("this device was changed by another gateway; try again") from late
        self._remember(credential)
        return last

    def _remember(self, credential: Credential) -> None:
        if credential.kind == "pairing":
            self._pending[credential.credential_id] = credential
            return
        self._devices[credential.credential_id] = credential
        self._credentials.put(credential.credential_id, credential.epoch)
        if credential.revoked_at is not None:
            self._credentials.drop(credential.credential_id)

    def _forget(self, gone: Iterable[Credential]) -> None:
        for each in gone:
            self._devices.pop(each.credential_id, None)
            self._pending.pop(each.credential_id, None)
            self._credentials.drop(each.credential_id)

    def _audit(self, by: Principal, action: str, device_id: str) -> Audit:
        return Audit(
            at=self._clock.now_ms(),
            agent_id=DEFAULT_AGENT_ID,
            principal=by.name,
            action=action,
            target=device_id,
            allowed=True,
            reason="asked by one who may",
        )

    def _resolved(self, request_id: str, device_id: str, decision: str) -> None:
        payload = {
            "requestId": request_id,
            "deviceId": device_id,
            "decision": decision,
            "ts": self._clock.now_ms(),
        }
        self._tell("device.pair.resolved", payload)


def described(request: Credential) -> dict[str, Any]:
    """A request as OpenClaw's clients show it."""
    return shown_device(
        request,
        requestId=request.credential_id,
        roles=[request.role],
        scopes=list(request.scopes),
        ts=request.created_at,
    )


def shown_device(credential: Credential, **more: Any) -> dict[str, Any]:
    """The device's own data and what is known of it; unknown fields are left out."""
    said = credential.particulars
    shown = {
        "deviceId": credential.subject,
        "publicKey": said.public_key,
        "displayName": said.display_name,
        "platform": said.platform,
        "deviceFamily": said.device_family,
        "clientId": said.client_id,
        "clientMode": said.client_mode,
        "role": credential.role,
        "remoteIp": said.remote_ip,
        **more,
    }
    return {name: value for name, value in shown.items() if value not in (None, "")}


def covers(granted: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether all that is wanted is in what was granted; a scope includes others."""
    return all(includes(frozenset(granted), scope) for scope in wanted)


def _deleting(gone: Iterable[Credential]) -> list[Op[Any]]:
    return [DeleteCredential(credential_id=each.credential_id) for each in gone]


def _credential_id(device_id: str, role: str) -> str:
    return f"device:{role}:{device_id}"
