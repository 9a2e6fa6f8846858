"""Gateways that share one ledger: which exist and until when, who has which role, what dead ones
have left.

A gateway is in the table as long as its lease runs, by the database's clock. One that is not in it
writes nothing: every transaction of a gateway begins by checking its own row. So whoever removes a
row may take over what its gateway had.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.operations import Op, Recovered
from crossclaw.ledger.shared_settings import SharedSettings

LEASE_S = (
    3.0  # a gateway that stops is noticed within this, and a second later its runs go on elsewhere
)
BEAT_S = 1.0
GATEWAYS_MAX = 1_000  # rows that a list shows; a database carries far fewer
LANES_LOOKED_AT = 1_000  # sessions that wait for somebody; the others are found by the next look


class GatewayFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway publishes about itself."""

    gateway_id: str
    """The gateway's name, the same after a restart."""
    address: str = ""
    """The address at which the others reach it."""
    version: str = ""
    config_hash: str = ""
    """A digest of the settings that all configs must share."""
    config_epoch: int = 0
    """The number of its config."""


class SharingGateway(GatewayFacts, frozen=True, kw_only=True):
    """A gateway as the others see it."""

    incarnation: str
    """The id of this start of the gateway, the owner of its runs."""
    joined_at: int
    left_ms: int
    """How long its lease is still valid; at 0 the others take over what it had."""
    draining: bool = False
    """Whether it is draining: it claims nothing more."""
    runs: int = 0
    """How many runs are under way on it."""
    roles: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    """The agents whose workspaces are on its machine."""
    why_no_runs: str | None = None
    """Why it takes no runs; None if it does."""


class LeaseRenewal(msgspec.Struct, frozen=True):
    """The result of renewing a lease."""

    draining: bool = False
    """Whether somebody has asked this gateway to leave."""
    has_dead: bool = False
    """Whether a dead gateway has left something to take over."""


class Partition(msgspec.Struct, frozen=True):
    """The part of the waiting runs that one gateway considers: run numbers modulo `count`, from
    `place` on."""

    count: int = 1
    place: int = 0
    width: int = 1
    agents: tuple[str, ...] | None = None
    """The agents whose runs are meant; None: all."""


EVERYTHING = Partition()


class TakeOver(Op[Recovered], frozen=True):
    """Take over what gateways with expired leases have left: remove their rows, queue their runs
    again, each with a new epoch, and free their roles. Suspects are reserved for the owner, which
    lets them begin one group after the other, and so are runs that it has to end because they are
    given up."""

    owner: str
    at: int


STOP, INTERRUPT, CREDENTIALS, OUTBOX = "stop", "interrupt", "credentials", "outbox"
APPROVALS = "approvals"
"""Kinds of hints between gateways, in this order: a run to be stopped, a session with an
interrupting message, changed credentials, something to deliver, an answered approval."""


class TellGateways(Op[None], frozen=True):
    """Send a hint to the other gateways, beside what is stored."""

    kind: str
    value: str


def encode_stop(run_id: str, reason: str) -> str:
    return msgspec.json.encode((run_id, reason)).decode()


def decode_stop(value: str) -> tuple[str, str]:
    return msgspec.json.decode(value, type=tuple[str, str])


class Membership(Protocol):
    """The gateways on a shared ledger, as one of them uses them. Works beside the writer, so that a
    lease never waits in a queue; raises `StoreError` if the database cannot be reached."""

    @property
    def settings(self) -> SharedSettings:
        """The settings and model keys that the gateways share."""
        ...

    async def join(self, facts: GatewayFacts) -> None:
        """Joins: each transaction of this gateway checks its row from now on. Waits for the lease
        of an earlier start under the same name; refuses a name that another gateway goes on
        using."""
        ...

    async def beat(self) -> LeaseRenewal:
        """Renews the lease. Raises `StoreFenced` if it was lost."""
        ...

    async def publish_address(self, address: str) -> None:
        """Publishes where the others reach this gateway, once it listens."""
        ...

    async def publish_config(self, keys: Mapping[str, str], digest: str, epoch: int) -> None:
        """Publishes this gateway's config, setting by setting, as digests."""
        ...

    async def find_config(self, incarnation: str) -> Mapping[str, str]:
        """The config of another gateway, as digests; empty if it is gone."""
        ...

    async def publish_agents(self, agents: Sequence[str]) -> None:
        """Publishes whose workspaces are here."""
        ...

    async def publish_why_no_runs(self, why: str | None) -> None:
        """Publishes why this gateway takes no runs, for whoever lists the gateways; None: it takes
        runs."""
        ...

    async def leave(self) -> None:
        """Ends the lease at once, so that others continue what is left."""
        ...

    async def list_gateways(self, *, counted: bool = False) -> Sequence[SharingGateway]:
        """All gateways; with `counted`, also the number of runs under way on each, which may be
        very many."""
        ...

    async def ask_to_drain(self, gateway_id: str) -> bool:
        """Asks a gateway to drain; False if there is no such gateway."""
        ...

    async def take_role(self, name: str) -> bool:
        """Takes a role; returns whether it is ours, now or before. A gateway keeps its roles as
        long as its lease."""
        ...

    async def leave_role(self, name: str) -> None: ...

    async def list_claimable(self, share: Partition = EVERYTHING) -> Sequence[SessionKey]:
        """Sessions whose first run is queued and open to any gateway, or reserved for us."""
        ...
