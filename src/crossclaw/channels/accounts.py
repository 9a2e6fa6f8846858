"""Live accounts: those that are open in this process, by channel and account."""

from collections.abc import Collection, Iterator
from math import inf
from typing import TYPE_CHECKING

import msgspec

from crossclaw.channels.contract import DEFAULT_ACCOUNT, ChannelAccount
from crossclaw.channels.manifest import Traits
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.addresses import Address
from crossclaw.domain.aliases import Callback

if TYPE_CHECKING:
    from crossclaw.channels.hosting import AccountHost

AccountPlace = tuple[str, str]
"""Channel and account."""


class LiveAccount(msgspec.Struct, frozen=True):
    channel: str
    account_id: str
    account: ChannelAccount
    traits: Traits
    settings: ChannelSettings = ChannelSettings()
    host: "AccountHost | None" = None

    @property
    def place(self) -> AccountPlace:
        return self.channel, self.account_id

    def knows_key(self, tried_at: int, now: int, wait_s: float = 0.0) -> bool:
        """Whether its platform still recognises the delivery key of an attempt after the wait. An attempt in
        the future means that the clock was set back: its age is unknown. Keys of another device are not
        recognised."""
        if self.host is not None and tried_at < self.host.keys_known_since_ms:
            return False
        knows_s, age_s = self.account.knows_key_for_s(), (now - tried_at) / 1000
        return knows_s == inf or 0 <= age_s < knows_s - wait_s


class LiveAccounts(Collection[str]):
    """The open accounts. As a collection: the names of the channels that are set up."""

    def __init__(self) -> None:
        self._open: dict[AccountPlace, LiveAccount] = {}
        self._expected: set[AccountPlace] = set()
        self._is_settled = False
        """Whether `_expected` is complete: all accounts that the config names have been added."""
        self._listeners: list[Callback] = []

    def __contains__(self, name: object) -> bool:
        return any(channel == name for channel, _ in self._expected)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({channel for channel, _ in self._expected}))

    def __len__(self) -> int:
        return len({channel for channel, _ in self._expected})

    def expect(self, place: AccountPlace) -> None:
        """The config names it: it is open, or will be."""
        self._expected.add(place)

    def settle(self) -> None:
        """All that the config names are expected now."""
        self._is_settled = True

    def listen(self, listener: Callback) -> None:
        """Called after one was opened or closed."""
        self._listeners.append(listener)

    def put(self, live: LiveAccount) -> None:
        self._open[live.place] = live
        self._expected.add(live.place)
        self._tell()

    @property
    def are_open(self) -> bool:
        """Whether any account is open."""
        return bool(self._open)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def remove(self, place: AccountPlace, account: ChannelAccount | None = None) -> None:
        """Removes an account that is closed; if `account` is given, only while no other has taken its place."""
        found = self._open.get(place)
        if found is not None and account in (None, found.account):
            del self._open[place]
            self._tell()

    def forget(self, place: AccountPlace) -> None:
        """The config does not name it any more."""
        self._open.pop(place, None)
        self._expected.discard(place)
        self._tell()

    def find(self, where: Address) -> LiveAccount | None:
        """The open account of an address. One that names no account means the default one, or the only one."""
        place = self.place_of(where)
        return place and self._open.get(place)

    def place_of(self, where: Address) -> AccountPlace | None:
        """The place of an address's account, also of one that is not open now. None if the address leaves open
        which it is."""
        if where.account_id is not None:
            return where.channel, where.account_id
        of_channel = sorted(place for place in self._expected if place[0] == where.channel)
        default = (where.channel, DEFAULT_ACCOUNT)
        if default in of_channel:
            return default
        return of_channel[0] if len(of_channel) == 1 else None

    def may_open(self, where: Address) -> bool:
        """Whether its account is to be open, or it is not known yet."""
        return not self._is_settled or self.place_of(where) in self._expected

    def list_open(self) -> list[LiveAccount]:
        return [self._open[place] for place in sorted(self._open)]
