"""What surrounds the gateway: time, ids, its numbers, and who counts when everybody waits."""

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.gateway.limits import Limits
from crossclaw.gateway.watchdog import Watchdog


class Around(msgspec.Struct, frozen=True, kw_only=True):
    clock: Clock
    ids: Ids
    limits: Limits = Limits()
    watchdog: Watchdog = msgspec.field(default_factory=Watchdog)
