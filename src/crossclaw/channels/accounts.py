"""Live accounts: those that are open on this start, by channel and account."""

import msgspec

from crossclaw.channels.contract import DEFAULT_ACCOUNT, ChannelAccount
from crossclaw.channels.manifest import Traits
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.addresses import Address

Place = tuple[str, str]
"""Channel and account."""


class LiveAccount(msgspec.Struct, frozen=True):
    channel: str
    account_id: str
    account: ChannelAccount
    traits: Traits
    settings: ChannelSettings | None = None

    @property
    def place(self) -> Place:
        return self.channel, self.account_id


class LiveAccounts:
    def __init__(self) -> None:
        self._accounts: dict[Place, LiveAccount] = {}

    def put(self, live: LiveAccount) -> None:
        self._accounts[live.place] = live

    def remove(self, place: Place) -> None:
        self._accounts.pop(place, None)

    def find(self, where: Address) -> LiveAccount | None:
        """Whose chat an address is. One that names no account means the default one, or the only one."""
        if where.account_id is not None:
            return self._accounts.get((where.channel, where.account_id))
        if found := self._accounts.get((where.channel, DEFAULT_ACCOUNT)):
            return found
        of_channel = [each for each in self._accounts.values() if each.channel == where.channel]
        return of_channel[0] if len(of_channel) == 1 else None
