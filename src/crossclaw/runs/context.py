"""The service context: what nearly every service needs, passed as one."""

import msgspec

from crossclaw.config.current import CurrentConfig
from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.ledger.contract import Ledger
from crossclaw.policy.credentials import Credentials
from crossclaw.runs.feed import Feed


class ServiceContext(msgspec.Struct, frozen=True):
    config: CurrentConfig
    ledger: Ledger
    feed: Feed
    clock: Clock
    ids: Ids
    credentials: Credentials
