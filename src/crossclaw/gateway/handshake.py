"""The handshake: turns what a client says of itself into a principal, or into a refusal with its close code."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from crossclaw.domain.aliases import Callback, NameText, Positive
from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.clock import Clock
from crossclaw.domain.credentials import DeviceDescription
from crossclaw.domain.errors import Busy, CrossclawError, Invalid
from crossclaw.domain.secret import Secret
from crossclaw.door.dispatch import read_params
from crossclaw.door.principal import Principal, person_principal
from crossclaw.door.registry import Caller, Method, Params
from crossclaw.gateway.auth import GATEWAY, Authenticator, PresentedSecrets, Unauthorized
from crossclaw.gateway.devices import Device, DeviceRefused, Statement, check_device
from crossclaw.gateway.event_types import HelloOk
from crossclaw.gateway.origins import Origins
from crossclaw.gateway.pairing import Paired, PairingRequest, PairingRequired, Pairings

PROTOCOLS = (4, 3)  # the highest that both know is spoken
OPERATOR_SCOPES = frozenset(
    {
        "operator.read",
        "operator.write",
        "operator.admin",
        "operator.approvals",
        "operator.pairing",
    }
)

POLICY_VIOLATION = 1008
PROTOCOL_ERROR = 1002

ShortTexts = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=256)], ...], msgspec.Meta(max_length=512)
]


class ClientSays(Params, frozen=True):
    id: NameText
    version: NameText
    platform: NameText
    mode: NameText
    display_name: str | None = None
    device_family: str | None = None
    model_identifier: str | None = None
    instance_id: str | None = None
    build_id: str | None = None
    time_zone: str | None = None


class AuthSays(Params, frozen=True):
    token: str | None = None
    password: str | None = None
    device_token: str | None = None
    bootstrap_token: str | None = None
    approval_runtime_token: str | None = None
    agent_runtime_identity_token: str | None = None


class ConnectParams(Params, frozen=True):
    min_protocol: Positive
    max_protocol: Positive
    client: ClientSays
    caps: ShortTexts = ()
    commands: ShortTexts = ()
    permissions: dict[str, bool] = msgspec.field(default_factory=dict)
    path_env: str | None = None
    role: str | None = None
    scopes: ShortTexts = ()
    device: Device | None = None
    auth: AuthSays = AuthSays()
    locale: str | None = None
    user_agent: str | None = None
    computer_use: Any = None
    worker_runs: Any = None
    model_catalog: Any = None


class ProtocolMismatch(Invalid):
    def __init__(self) -> None:
        super().__init__("protocol mismatch")
        self.details = {"expectedProtocol": PROTOCOLS[0]}


class ConnectRefused(CrossclawError):
    """The client is refused: it gets an answer to `connect`, then a close."""

    def __init__(self, error: CrossclawError, close_code: int = POLICY_VIOLATION) -> None:
        super().__init__(str(error))
        self.error = error
        self.close_code = close_code


class ConnectionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a connection that are known without asking it."""

    address: str
    host: str | None = None
    origin: str | None = None
    local: bool = False
    """Whether it is a program on this machine, with no proxy between. It still needs a secret."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    protocol: int
    principal: Principal
    role: Literal["operator", "node"]
    client: ClientSays
    caps: frozenset[str]
    device_id: str | None
    commands: tuple[str, ...] = ()
    """The commands that a node offers."""
    method: Literal["token", "device-token"] = "token"
    new_token: Secret | None = None
    """A new token for the device to keep and to come in with."""

    @property
    def shown_scopes(self) -> list[str]:
        return sorted(OPERATOR_SCOPES & self.principal.scopes)

    @property
    def may_read(self) -> bool:
        """Whether the client may read sessions: not a node, nor a client that is there for pairing alone."""
        return self.principal.has("operator.read")

    @property
    def is_page(self) -> bool:
        """Whether it is a page or a chat of protocol 3, which knows no subscriptions: it gets every event
        that it could ask for. What a client calls itself gives it no right."""
        return self.protocol == 3 and self.client.mode in ("webchat", "ui") and self.may_read


async def _only_first(_caller: Caller, _params: ConnectParams) -> Any:
    raise Invalid("connect is only valid as the first request")


CONNECT: Method[ConnectParams] = Method(
    name="connect",
    params=ConnectParams,
    result=HelloOk,
    scope="operator.read",
    effect="read",
    handle=_only_first,
    summary="The first request of a connection.",
    hidden=True,
)


class Handshake:
    def __init__(
        self, authenticator: Authenticator, pairings: Pairings, origins: Origins, clock: Clock
    ) -> None:
        self._authenticator = authenticator
        self._pairings = pairings
        self._origins = origins
        self._clock = clock

    async def admit(
        self, raw: Any, nonce: str, known: ConnectionFacts, on_secret: Callback
    ) -> Admitted:
        """Admits a client or raises. The secret is checked before a signature, which costs more to verify.
        `on_secret` is called as soon as the secret was right."""
        try:
            params = read_params(CONNECT, raw)
        except Invalid as error:
            raise ConnectRefused(error) from None
        protocol = _common_protocol(params)
        role = _role(params)
        self._check_origin(known)
        shown = await self._check_secret(params, role, known)
        on_secret()
        self._check_device(params, protocol, role, nonce)
        scopes = granted_scopes(role, params.scopes, protocol)
        paired = await self._pair(params, role, scopes, known, shown)
        made_by = frozenset({shown, *([paired.credential.ref] if paired else [])})
        self._check_still(made_by)
        device_id = params.device.id if params.device else None
        return Admitted(
            protocol=protocol,
            principal=_principal(params, role, scopes, made_by),
            role=role,
            client=params.client,
            caps=frozenset(params.caps),
            device_id=device_id,
            commands=params.commands,
            method="token" if shown.credential_id == GATEWAY else "device-token",
            new_token=paired.token if paired else None,
        )

    def _check_origin(self, known: ConnectionFacts) -> None:
        if self._origins.origin_allowed(known.origin, known.host):
            return
        raise ConnectRefused(
            Invalid(
                "origin not allowed (open the page from the gateway's own address, "
                "or add its origin to gateway.controlUi.allowedOrigins)"
            )
        )

    async def _check_secret(
        self, params: ConnectParams, role: str, known: ConnectionFacts
    ) -> CredentialRef:
        auth, device = params.auth, params.device
        offer = PresentedSecrets(auth.token, auth.password, auth.device_token)
        gateway = self._authenticator.credential_ref()
        try:
            if device is None:
                await self._authenticator.check(known.address, offer)
                return gateway
            own, credential = (
                self._pairings.lock(device.id, role),
                self._pairings.find(device.id, role),
            )
            opened = await self._authenticator.check_device(known.address, offer, own)
            if opened is own and credential is not None:
                return credential.ref
            return gateway
        except Unauthorized as error:
            raise ConnectRefused(_with_hint(error, params.client)) from None

    def _check_device(self, params: ConnectParams, protocol: int, role: str, nonce: str) -> None:
        if params.device is None:
            return
        client = params.client
        statement = Statement(
            client_id=client.id,
            client_mode=client.mode,
            role=role,
            scopes=params.scopes,
            token=params.auth.token or params.auth.device_token or "",
            platform=client.platform,
            family=client.device_family or "",
        )
        try:
            check_device(
                params.device,
                statement,
                protocol=protocol,
                nonce=nonce,
                now_ms=self._clock.now_ms(),
            )
        except DeviceRefused as error:
            raise ConnectRefused(error) from None

    async def _pair(
        self,
        params: ConnectParams,
        role: str,
        scopes: frozenset[str],
        known: ConnectionFacts,
        shown: CredentialRef,
    ) -> Paired | None:
        if params.device is None:
            return None
        by_secret = shown.credential_id == GATEWAY
        wish = PairingRequest(
            device_id=params.device.id,
            role=role,
            scopes=tuple(sorted(OPERATOR_SCOPES & scopes)),
            particulars=_particulars(params.client, params.device, known),
            trusted=by_secret and known.local,
            token_epoch=None if by_secret else shown.epoch,
        )
        try:
            return await self._pairings.admit(wish)
        except (PairingRequired, Unauthorized, Busy) as error:
            raise ConnectRefused(error) from None

    def _check_still(self, made_by: frozenset[CredentialRef]) -> None:
        """Refuses if the credential has ended while the device was stored."""
        if not self._authenticator.credentials.stands(made_by):
            raise ConnectRefused(Unauthorized("token", missing=False))


def _principal(
    params: ConnectParams,
    role: Literal["operator", "node"],
    scopes: frozenset[str],
    made_by: frozenset[CredentialRef],
) -> Principal:
    """The principal of a client. A node is no person: it sees what was given to it, and what it begins is not
    the owner's."""
    device_id = params.device.id if params.device else None
    name = f"device:{device_id}" if device_id else "token"
    if role == "operator":
        return person_principal(name, scopes, made_by)
    return Principal(
        name=name,
        role="node",
        scopes=scopes,
        sight="node",
        node_id=device_id or params.client.instance_id or params.client.id,
        authority=Authority(made_by=made_by),
    )


def _particulars(client: ClientSays, device: Device, known: ConnectionFacts) -> DeviceDescription:
    return DeviceDescription(
        public_key=device.public_key,
        client_id=client.id,
        client_mode=client.mode,
        platform=client.platform,
        display_name=client.display_name,
        device_family=client.device_family,
        remote_ip=known.address,
    )


def granted_scopes(role: str, wanted: Sequence[str], protocol: int) -> frozenset[str]:
    """The scopes that are granted: with the shared secret all of an operator's, narrowed by what the client
    asks for. A client of protocol 3 that asks for nothing gets all, any other one none."""
    if role == "node":
        return frozenset({"node"})
    if not wanted and protocol == 3:
        return frozenset({"operator.admin"})
    return OPERATOR_SCOPES.intersection(wanted)


def _common_protocol(params: ConnectParams) -> int:
    for protocol in PROTOCOLS:
        if params.min_protocol <= protocol <= params.max_protocol:
            return protocol
    raise ConnectRefused(ProtocolMismatch(), PROTOCOL_ERROR)


def _role(params: ConnectParams) -> Literal["operator", "node"]:
    role = params.role or "operator"
    if role == "operator":
        return "operator"
    if role == "node":
        return "node"
    raise ConnectRefused(Invalid("invalid role"))


def _with_hint(error: Unauthorized, client: ClientSays) -> Unauthorized:
    """Adds where the right secret is entered in the program that the person uses."""
    if client.id == "cli":
        hint = "set gateway.remote.token to the gateway's token"
    elif client.mode == "webchat":
        hint = "put the gateway's token into the page's field or settings"
    else:
        hint = "send the gateway's token as auth.token"
    error.args = (f"{error} ({hint})",)
    return error
