"""Gateways that share one ledger: who is there and until when, who has which role, what the dead have left.

A gateway is in the table as long as its lease runs, by the database's clock. One that is not in it writes nothing: every
transaction of a gateway begins with a look at its own row. So whoever has taken a row away may have what its
gateway had.
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
    """What a gateway tells of itself."""

    gateway_id: str
    """Its name, the same after a restart."""
    address: str = ""
    """Where the others reach it."""
    version: str = ""
    config_hash: str = ""
    """A digest of what the configs must have in common."""
    config_epoch: int = 0
    """The number of the config that it has."""


class SharingGateway(GatewayFacts, frozen=True, kw_only=True):
    """A gateway as the others see it."""

    incarnation: str
    """This start of it: the owner of its runs."""
    joined_at: int
    left_ms: int
    """Of its lease; none left: the others take over what it had."""
    draining: bool = False
    """It claims nothing more."""
    runs: int = 0
    """Under way on it."""
    roles: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    """Those whose workspaces are on its machine."""
    why_no_runs: str | None = None
    """Why it takes no runs; None: it does."""


class Beat(msgspec.Struct, frozen=True):
    """What a gateway learns when it renews its lease."""

    draining: bool = False
    """Somebody has asked it to leave."""
    has_dead: bool = False
    """There is something to take over."""


class Share(msgspec.Struct, frozen=True):
    """Of all that waits, what one gateway looks at: by the number of a run, from its own place among so many on."""

    count: int = 1
    place: int = 0
    width: int = 1
    agents: tuple[str, ...] | None = None
    """Only of these."""


EVERYTHING = Share()


class TakeOver(Op[Recovered], frozen=True):
    """What gateways have left whose lease is over: their rows go, their runs are queued again, each with a new epoch, and their
    roles are free. Suspects are kept for the owner, who lets them begin one group after the other, and so are those that it
    has to end because they are given up."""

    owner: str
    at: int


STOP, INTERRUPT, CREDENTIALS, OUTBOX = "stop", "interrupt", "credentials", "outbox"
APPROVALS = "approvals"
"""Kinds of hints between gateways: a run to be stopped, a session in which a message will not wait, credentials that have
changed, something to be delivered, a question that was answered."""


class TellGateways(Op[None], frozen=True):
    """A hint for the other gateways, beside what is stored."""

    kind: str
    value: str


def encode_stop(run_id: str, reason: str) -> str:
    return msgspec.json.encode((run_id, reason)).decode()


def decode_stop(value: str) -> tuple[str, str]:
    return msgspec.json.decode(value, type=tuple[str, str])


class Membership(Protocol):
    """A shared ledger's gateways, as one of them uses it. Works beside the writer, so that a lease never waits in a
    queue; raises `StoreError` when the database cannot be reached."""

    @property
    def settings(self) -> SharedSettings:
        """What the gateways have in common of their configs, and keys of models."""
        ...

    async def join(self, facts: GatewayFacts) -> None:
        """From now on this gateway is there, and each of its transactions asks for it. Waits for the lease of an
        earlier start under the same name; refuses a name that another gateway goes on using."""
        ...

    async def beat(self) -> Beat:
        """Renew the lease. Raises `StoreFenced` when there is none any more."""
        ...

    async def tell_address(self, address: str) -> None:
        """Where the others reach this gateway, once it listens."""
        ...

    async def tell_config(self, keys: Mapping[str, str], digest: str, epoch: int) -> None:
        """What this gateway's config says, setting by setting, as digests."""
        ...

    async def find_config(self, incarnation: str) -> Mapping[str, str]:
        """That of another gateway; empty when it is gone."""
        ...

    async def tell_agents(self, agents: Sequence[str]) -> None:
        """Whose workspaces are here."""
        ...

    async def tell_why_no_runs(self, why: str | None) -> None:
        """For whoever looks at the gateways; None: it takes runs."""
        ...

    async def leave(self) -> None:
        """The lease is over at once: others go on with what is left."""
        ...

    async def list_gateways(self, *, counted: bool = False) -> Sequence[SharingGateway]:
        """`counted`: with the number of runs under way on each, which may be very many."""
        ...

    async def ask_to_drain(self, gateway_id: str) -> bool:
        """False when there is no such gateway."""
        ...

    async def take_role(self, name: str) -> bool:
        """Whether it is ours: taken now or before. A role is its holder's as long as the gateway is there."""
        ...

    async def leave_role(self, name: str) -> None: ...

    async def list_claimable(self, share: Share = EVERYTHING) -> Sequence[SessionKey]:
        """Sessions whose first run is queued and for anybody, or for us."""
        ...
