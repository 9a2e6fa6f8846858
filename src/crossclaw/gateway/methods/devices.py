"""device.*: which devices may come in, decided by those who may, and revoked at once.

A device that is no administrator decides about itself only, and nobody can grant more than they have.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from crossclaw.domain.clock import Clock
from crossclaw.domain.credentials import Credential
from crossclaw.domain.errors import Forbidden, NotFound
from crossclaw.door.dispatch import MissingScope
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.gateway.client import Client
from crossclaw.gateway.devices import DeviceText
from crossclaw.gateway.frames import event
from crossclaw.gateway.handshake import POLICY_VIOLATION
from crossclaw.gateway.pairing import Pairings, TellEvent, described, shown_device
from crossclaw.runs.neighbours import Neighbours

ListClients = Callable[[], Sequence[Client]]
EndRuns = Callable[[], Awaitable[Sequence[str]]]
"""Ends the runs whose credentials have ended; returns their ids."""


class RequestParams(Params, frozen=True):
    request_id: DeviceText


class DeviceParams(Params, frozen=True):
    device_id: DeviceText


class TokenParams(Params, frozen=True):
    device_id: DeviceText
    role: DeviceText


class RotateParams(TokenParams, frozen=True):
    scopes: tuple[DeviceText, ...] | None = None


class PairList(Result, frozen=True):
    pending: list[dict[str, Any]]
    paired: list[dict[str, Any]]


class Approved(Result, frozen=True):
    request_id: str
    device: dict[str, Any]


class Rejected(Result, frozen=True):
    request_id: str
    device_id: str


class Removed(Result, frozen=True):
    device_id: str
    ended_runs: tuple[str, ...] = ()
    """Ours, as in the two below: runs that ended with the credential."""
    stopped_jobs: tuple[str, ...] = ()
    """Ours: its jobs, which are switched off now."""


class Rotated(Result, frozen=True):
    device_id: str
    role: str
    scopes: list[str]
    rotated_at_ms: int
    token_delivery: str
    token: str | None = None
    ended_runs: tuple[str, ...] = ()


class Revoked(Result, frozen=True):
    device_id: str
    role: str
    revoked_at_ms: int
    ended_runs: tuple[str, ...] = ()
    stopped_jobs: tuple[str, ...] = ()


def telling(clients: ListClients) -> TellEvent:
    """News of devices are for those who may decide about them."""

    def tell(name: str, payload: dict[str, Any]) -> None:
        frame = event(name, payload)
        for client in clients():
            if client.admitted and client.admitted.principal.has("operator.pairing"):
                client.push(frame)

    return tell


class Devices:
    """The device methods. `clients` returns who is connected."""

    def __init__(
        self,
        pairings: Pairings,
        clients: ListClients,
        end_runs: EndRuns,
        clock: Clock,
        neighbours: Neighbours,
    ) -> None:
        self._neighbours = neighbours
        self._pairings = pairings
        self._end_runs = end_runs
        self._clients = clients
        self._clock = clock

    @method(
        "device.pair.list",
        "operator.pairing",
        "read",
        "The devices that may come in, and those that wait.",
    )
    async def list_devices(self, caller: Caller, params: NoParams) -> PairList:
        mine = _bound_to(caller.principal)
        known = {each.subject: self._pairings.of(each.subject) for each in self._pairings.devices}
        return PairList(
            pending=[
                described(each)
                for each in self._pairings.pending
                if mine is None or each.subject == mine
            ],
            paired=[
                self._device(credentials)
                for device_id, credentials in known.items()
                if mine is None or device_id == mine
            ],
        )

    @method("device.pair.approve", "operator.pairing", "change", "Let a waiting device in.")
    async def approve(self, caller: Caller, params: RequestParams) -> Approved:
        request = self._request(caller, params.request_id)
        self._refuse_more_than_own(caller.principal, request)
        await self._pairings.approve(params.request_id, caller.principal)
        device = self._device(self._pairings.of(request.subject))
        return Approved(request_id=params.request_id, device=device)

    @method("device.pair.reject", "operator.pairing", "change", "Do not let a waiting device in.")
    async def reject(self, caller: Caller, params: RequestParams) -> Rejected:
        self._request(caller, params.request_id)
        rejected = await self._pairings.reject(params.request_id, caller.principal)
        return Rejected(request_id=params.request_id, device_id=rejected.subject)

    @method(
        "device.pair.remove",
        "operator.pairing",
        "change",
        "Forget a device and close its connections.",
    )
    async def remove(self, caller: Caller, params: DeviceParams) -> Removed:
        _refuse_others(caller.principal, params.device_id)
        stopped = await self._pairings.remove(params.device_id, caller.principal)
        self._send_away(caller, params.device_id, None, "device removed")
        ended = tuple(await self._end_runs())
        return Removed(device_id=params.device_id, ended_runs=ended, stopped_jobs=tuple(stopped))

    @method(
        "device.token.rotate",
        "operator.pairing",
        "change",
        "A new token for a device in place of the old ones.",
    )
    async def rotate(self, caller: Caller, params: RotateParams) -> Rotated:
        """Gives the device a new token. Only the device itself gets it; any other caller learns that it was
        changed."""
        _refuse_others(caller.principal, params.device_id)
        paired = await self._pairings.rotate(
            params.device_id, params.role, params.scopes, caller.principal
        )
        self._send_away(caller, params.device_id, params.role, "device token rotated")
        mine = caller.principal.name == f"device:{params.device_id}" and paired.token is not None
        return Rotated(
            device_id=params.device_id,
            role=params.role,
            scopes=list(paired.credential.scopes),
            rotated_at_ms=self._clock.now_ms(),
            token_delivery="in-band" if mine else "withheld-cross-device",
            token=paired.token.reveal() if mine and paired.token else None,
            ended_runs=tuple(await self._end_runs()),
        )

    @method(
        "device.token.revoke",
        "operator.pairing",
        "change",
        "Take a device's token away and close its connections.",
    )
    async def revoke(self, caller: Caller, params: TokenParams) -> Revoked:
        _refuse_others(caller.principal, params.device_id)
        ended, stopped = await self._pairings.revoke(
            params.device_id, params.role, caller.principal
        )
        self._send_away(caller, params.device_id, params.role, "device token revoked")
        return Revoked(
            device_id=params.device_id,
            role=params.role,
            revoked_at_ms=ended.revoked_at or 0,
            ended_runs=tuple(await self._end_runs()),
            stopped_jobs=tuple(stopped),
        )

    # ── who may what ───────────────────────────────────────────────────────────────────────────

    def _request(self, caller: Caller, request_id: str) -> Credential:
        """Finds a request. To a device, another device's request is the same as none."""
        request, mine = self._pairings.request(request_id), _bound_to(caller.principal)
        if mine is not None and request.subject != mine:
            raise NotFound("unknown requestId")
        return request

    def _refuse_more_than_own(self, principal: Principal, request: Credential) -> None:
        if request.role != "operator" and not principal.has("operator.admin"):
            raise MissingScope("operator.admin")
        for scope in request.scopes:
            if not principal.has(scope):  # type: ignore[arg-type]
                raise MissingScope(scope)  # type: ignore[arg-type]

    def _send_away(self, caller: Caller, device_id: str, role: str | None, why: str) -> None:
        """Closes a device's connections at once, with all their open requests; the caller's own after its answer."""
        for client in self._clients():
            admitted = client.admitted
            if admitted is None or admitted.device_id != device_id:
                continue
            if role is not None and admitted.role != role:
                continue
            if client.subscription is caller.listening:
                client.leave(why)
            else:
                client.close(POLICY_VIOLATION, why)

    # ── showing ────────────────────────────────────────────────────────────────────────────────

    def _device(self, credentials: Sequence[Credential]) -> dict[str, Any]:
        newest = max(credentials, key=lambda each: each.created_at)
        return shown_device(
            newest,
            roles=sorted(each.role for each in credentials),
            scopes=sorted({scope for each in credentials for scope in each.scopes}),
            tokens=[_token(each) for each in credentials],
            createdAtMs=min(each.created_at for each in credentials),
            approvedAtMs=newest.created_at,
            connected=newest.subject in self._connected(),
        )

    def _connected(self) -> set[str | None]:
        here = {client.admitted.device_id for client in self._clients() if client.admitted}
        return here | self._neighbours.devices()


def _bound_to(principal: Principal) -> str | None:
    """The device that a caller is confined to; None: it may decide about all."""
    kind, _, device_id = principal.name.partition(":")
    return device_id if kind == "device" and not principal.has("operator.admin") else None


def _refuse_others(principal: Principal, device_id: str) -> None:
    mine = _bound_to(principal)
    if mine is not None and mine != device_id:
        raise Forbidden("a device without operator.admin decides about itself only")


def _token(credential: Credential) -> dict[str, Any]:
    shown = {
        "role": credential.role,
        "scopes": list(credential.scopes),
        "createdAtMs": credential.created_at,
        "revokedAtMs": credential.revoked_at,
        "lastUsedAtMs": credential.used_at,
    }
    return _without_nothing(shown.items())


def _without_nothing(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if value not in (None, "")}
