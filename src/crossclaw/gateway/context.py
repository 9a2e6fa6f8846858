"""What everything in the gateway needs: time, ids, its numbers, and the watchdog of the event loop."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.domain.media import Kinds
from crossclaw.domain.sessions import Entry
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.watchdog import Watchdog
from crossclaw.runs.neighbours import Neighbours

WithMedia = Callable[[Sequence[Entry], Kinds], Awaitable[list[Entry]]]


class GatewayContext(msgspec.Struct, frozen=True, kw_only=True):
    clock: Clock
    ids: Ids
    limits: GatewayLimits = GatewayLimits()
    watchdog: Watchdog = msgspec.field(default_factory=Watchdog)
    with_media: WithMedia | None = None
    """The ledger's reading of media, for events of messages with pictures. None: events only name the pictures."""
    neighbours: Neighbours = msgspec.field(default_factory=Neighbours)
    """The other gateways on the same ledger."""
