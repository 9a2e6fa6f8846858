"""gateways.*: the gateways that share a ledger, for the people who operate them."""

from collections.abc import Callable, Sequence

from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.ledger.gateways import Membership, SharingGateway

ALONE = "this gateway has its ledger for itself: nobody shares it"


class GatewaysListParams(Params, frozen=True):
    pass


class GatewayListed(Result, frozen=True):
    id: str
    address: str
    version: str
    joined_at: int
    lease_ms: int
    """Time left of its lease; after that the others take over what it has."""
    draining: bool
    runs: int
    """Runs under way on it."""
    roles: Sequence[str]
    here: bool
    """Whether it is the one that answers."""
    config_hash: str
    """A digest of its config; equal where configs agree."""
    config_epoch: int
    """The number of its config; the highest one counts."""
    agents: Sequence[str] = ()
    """The agents whose workspaces are on its machine."""
    why_no_runs: str | None = None
    """Why it takes no runs: which settings differ from the others', and what would work."""


class GatewaysListResult(Result, frozen=True):
    shared: bool
    gateways: Sequence[GatewayListed]
    why_no_runs: str | None = None
    """Why the gateway that answers takes no runs."""


class GatewaysDrainParams(Params, frozen=True):
    id: str


class GatewaysDrainResult(Result, frozen=True):
    ok: bool


class GatewayMethods:
    """The gateways' methods. `owner` names this gateway's start, as its ledger does."""

    def __init__(
        self, membership: Membership | None, owner: str, why_no_runs: Callable[[], str | None]
    ) -> None:
        self._why_no_runs = why_no_runs
        self._membership = membership
        self._owner = owner

    @method(
        "gateways.list",
        "operator.read",
        "read",
        "Ours: the gateways that share this ledger, each with its lease, roles and runs under way.",
    )
    async def list_all(self, caller: Caller, params: GatewaysListParams) -> GatewaysListResult:
        if self._membership is None:
            return GatewaysListResult(shared=False, gateways=())
        found = await self._membership.list_gateways(counted=True)
        listed = [self._listed(each) for each in found]
        return GatewaysListResult(shared=True, gateways=listed, why_no_runs=self._why_no_runs())

    def _listed(self, gateway: SharingGateway) -> GatewayListed:
        return GatewayListed(
            id=gateway.gateway_id,
            address=gateway.address,
            version=gateway.version,
            joined_at=gateway.joined_at,
            lease_ms=max(0, gateway.left_ms),
            draining=gateway.draining,
            runs=gateway.runs,
            roles=gateway.roles,
            here=gateway.incarnation == self._owner,
            config_hash=gateway.config_hash,
            config_epoch=gateway.config_epoch,
            agents=gateway.agents,
            why_no_runs=gateway.why_no_runs,
        )

    @method(
        "gateways.drain",
        "operator.admin",
        "change",
        "Ours: one of the gateways that share this ledger begins nothing more, and leaves when its runs have ended.",
    )
    async def drain(self, caller: Caller, params: GatewaysDrainParams) -> GatewaysDrainResult:
        if self._membership is None:
            raise Invalid(f"{ALONE}; gateway.stop with drain ends it")
        if not await self._membership.ask_to_drain(params.id):
            raise NotFound(
                f"there is no gateway {params.id!r}; gateways.list names them (crossclaw gateways list)"
            )
        return GatewaysDrainResult(ok=True)
