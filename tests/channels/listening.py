"""ListeningHost: the gateway's side of one account, in memory, for tests of one account alone. What it is told stands in
its lists; the contract suite asks the same of a real gateway."""

import anyio
import anyio.lowlevel

from crossclaw.channels.contract import AccountFacts, Received
from crossclaw.channels.http import HttpClients
from crossclaw.domain.addresses import Inbound
from crossclaw.testing import VirtualClock


class ListeningHost:
    def __init__(self, http: HttpClients, channel: str, account_id: str = "default") -> None:
        self.http, self.channel, self.account_id = http, channel, account_id
        self.received: list[Inbound] = []
        self.faults: list[Exception] = []
        """Raised by the next messages: they are not stored."""
        self.strangers: set[str] = set()
        """Who may not talk."""
        self.cursors: dict[str, str] = {}
        self.confirmed: list[tuple[str, str | None]] = []
        self.failed: list[tuple[str, str]] = []
        self.facts: AccountFacts | None = None
        self.troubles: list[str] = []
        self._clock = VirtualClock()
        self._changed = anyio.Event()

    async def receive(self, inbound: Inbound) -> Received:
        await anyio.lowlevel.checkpoint()
        if self.faults:
            raise self.faults.pop(0)
        self.received.append(inbound)
        self._changed.set()
        self._changed = anyio.Event()
        return Received(what="accepted", run_id=f"run{len(self.received)}")

    async def may_talk(self, inbound: Inbound) -> bool:
        return inbound.sender not in self.strangers

    async def wait_received(self, count: int) -> None:
        while len(self.received) < count:
            await self._changed.wait()

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.received]

    async def load_cursor(self, name: str) -> str | None:
        return self.cursors.get(name)

    async def save_cursor(self, name: str, value: str) -> None:
        self.cursors[name] = value

    async def confirm_delivery(self, delivery_key: str, platform_id: str | None = None) -> None:
        self.confirmed.append((delivery_key, platform_id))

    async def fail_delivery(self, delivery_key: str, error: str) -> None:
        self.failed.append((delivery_key, error))

    async def connected(self, facts: AccountFacts) -> None:
        self.facts = facts

    def heard(self) -> None:
        pass

    def troubled(self, error: str) -> None:
        self.troubles.append(error)

    def now_ms(self) -> int:
        return self._clock.now_ms()
