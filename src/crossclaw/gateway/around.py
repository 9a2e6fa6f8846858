"""What surrounds the gateway: time, ids, and its numbers."""

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.gateway.limits import Limits


class Around(msgspec.Struct, frozen=True, kw_only=True):
    clock: Clock
    ids: Ids
    limits: Limits = Limits()
