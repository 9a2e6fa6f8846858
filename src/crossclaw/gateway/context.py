"""What everything in the gateway needs: time, ids, its numbers, and who counts when everybody waits."""

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.watchdog import Watchdog


class GatewayContext(msgspec.Struct, frozen=True, kw_only=True):
    clock: Clock
    ids: Ids
    limits: GatewayLimits = GatewayLimits()
    watchdog: Watchdog = msgspec.field(default_factory=Watchdog)
