"""RecordingHost: what an account tells the gateway, written down; for tests of one account without the gateway."""

from crossclaw.channels.contract import AccountFacts, Received
from crossclaw.channels.http import HttpClients
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import StoreError
from tests.channels.fake_http import FakeTransport


class RecordingHost:
    """`received` has each message once, as the ledger would; `arrived` has every call. Cursors outlive an account."""

    account_id = "default"

    def __init__(self, channel: str, transport: FakeTransport, clock: Clock) -> None:
        self.channel = channel
        self.http = HttpClients(transport)
        self._clock = clock
        self.cursors: dict[str, str] = {}
        self.received: list[Inbound] = []
        self.arrived: list[Inbound] = []
        self.drops: set[str] = set()
        """Chats and senders that may not talk."""
        self.failures = 0
        """So many of the next messages cannot be stored."""
        self.facts: AccountFacts | None = None
        self.troubles: list[str] = []
        self.heard_at: list[int] = []

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.received]

    async def receive(self, inbound: Inbound) -> Received:
        self.arrived.append(inbound)
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk is full")
        if self.drops & {inbound.sender, inbound.chat_id, inbound.parent_chat_id, inbound.guild_id}:
            return Received(what="dropped", why="may not talk")
        if inbound.dedupe_key not in {each.dedupe_key for each in self.received}:
            self.received.append(inbound)
        return Received(what="accepted", run_id="run")

    async def may_talk(self, inbound: Inbound) -> bool:
        return inbound.sender not in self.drops

    async def load_cursor(self, name: str) -> str | None:
        return self.cursors.get(name)

    async def save_cursor(self, name: str, value: str) -> None:
        self.cursors[name] = value

    async def confirm_delivery(self, delivery_key: str, platform_id: str | None = None) -> None:
        raise AssertionError("this channel never tells later")

    async def fail_delivery(self, delivery_key: str, error: str) -> None:
        raise AssertionError("this channel never tells later")

    async def connected(self, facts: AccountFacts) -> None:
        self.facts = facts

    def heard(self) -> None:
        self.heard_at.append(self.now_ms())

    def troubled(self, error: str) -> None:
        self.troubles.append(error)

    def now_ms(self) -> int:
        return self._clock.now_ms()
