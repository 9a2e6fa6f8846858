"""Hosting: what the gateway gives to one account."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio.to_thread
import msgspec

from crossclaw.channels.accounts import Place
from crossclaw.channels.contract import AccountFacts, Received
from crossclaw.channels.http import HttpClients
from crossclaw.disk.private import make_folder
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import AccountBroken
from crossclaw.ledger.channels import LearnFate, SaveCursor
from crossclaw.ledger.contract import Ledger

log = logging.getLogger(__name__)

IDENTITY = "identity"

Receive = Callable[["AccountHost", Inbound], Awaitable[Received]]
MayTalk = Callable[["AccountHost", Inbound], Awaitable[bool]]
FindTwin = Callable[[AccountFacts], Awaitable[str | None]]
"""Which other account of ours is the same one at the platform, in words."""


class KnownIdentity(msgspec.Struct, frozen=True):
    """Who an account was when it was last connected, and since when, if it was another one before."""

    id: str
    since_ms: int = 0


class AccountHost:
    """The `ChannelHost` of one account."""

    def __init__(
        self,
        place: Place,
        *,
        receive: Receive,
        ledger: Ledger,
        clock: Clock,
        http: HttpClients,
        wake: Callable[[], None],
    ) -> None:
        self.channel, self.account_id = place
        self.http = http
        self.facts: AccountFacts | None = None
        self.last_error: str | None = None
        self.last_error_ms: int | None = None
        self.connected_ms: int | None = None
        self.heard_ms: int | None = None
        self.inbound_ms: int | None = None
        self.outbound_ms: int | None = None
        self._receive, self._ledger, self._clock = receive, ledger, clock
        self.wake = wake
        """Something is to be sent."""
        self.opened_ms = clock.now_ms()
        self.folder: Path | None = None
        self.decide_talk: MayTalk | None = None
        """Who may talk. None: nobody."""
        self._identity: KnownIdentity | None = None
        self.find_twin: FindTwin | None = None

    async def receive(self, inbound: Inbound) -> Received:
        self.heard()
        received = await self._receive(self, inbound)
        self.inbound_ms = self.now_ms()
        return received

    async def may_talk(self, inbound: Inbound) -> bool:
        return self.decide_talk is not None and await self.decide_talk(self, inbound)

    async def private_folder(self) -> Path:
        assert self.folder is not None, "the gateway gives one to every account"
        await anyio.to_thread.run_sync(make_folder, self.folder)
        return self.folder

    async def load_cursor(self, name: str) -> str | None:
        return await self._ledger.find_cursor(self.channel, self.account_id, name)

    async def save_cursor(self, name: str, value: str) -> None:
        await self._ledger.do(
            SaveCursor(
                channel=self.channel,
                account_id=self.account_id,
                name=name,
                value=value,
                at=self.now_ms(),
            )
        )

    async def speaks_since(self) -> int | None:
        """Since when the account is whom it is at its platform now; 0: it was never another one. None: it was somebody
        before, and is not connected yet."""
        if self._identity is not None and self._identity.id == self._login:
            return self._identity.since_ms
        stored = await self.load_cursor(IDENTITY)
        before = msgspec.json.decode(stored, type=KnownIdentity) if stored else None
        login = self._login
        if login is None:
            return 0 if before is None or self.facts is not None else None
        known = before
        if before is None or before.id != login:
            known = KnownIdentity(login, self.now_ms() if before is not None else 0)
            await self.save_cursor(IDENTITY, msgspec.json.encode(known).decode())
        self._identity = known
        assert known is not None
        return known.since_ms

    @property
    def _login(self) -> str | None:
        """What tells the account from others; None: nobody has said yet, or it has nothing such."""
        return (self.facts.login or self.facts.id or None) if self.facts is not None else None

    async def confirm_delivery(self, delivery_key: str, platform_id: str | None = None) -> None:
        await self._ledger.do(
            LearnFate(
                delivery_key=delivery_key, arrived=True, at=self.now_ms(), platform_id=platform_id
            )
        )
        self.wake()  # what follows it goes out

    async def fail_delivery(self, delivery_key: str, error: str) -> None:
        learn = LearnFate(delivery_key=delivery_key, arrived=False, at=self.now_ms(), error=error)
        if await self._ledger.do(learn):
            log.warning(
                "a message did not arrive after all: %s account %s: %s",
                self.channel,
                self.account_id,
                error,
            )

    async def connected(self, facts: AccountFacts) -> None:
        if self.find_twin is not None and (twin := await self.find_twin(facts)) is not None:
            raise AccountBroken(
                f"{facts.name or facts.id} is the same account as {twin}, and everybody would be answered twice: give it a"
                " token of its own, or take one of the two out of the config"
            )
        self.facts, self.connected_ms = facts, self.now_ms()
        self.heard()

    def heard(self) -> None:
        self.heard_ms = self.now_ms()

    def noted(self, error: str) -> None:
        self.last_error, self.last_error_ms = error, self.now_ms()

    def troubled(self, error: str) -> None:
        self.noted(error)
        log.warning("%s account %s: %s", self.channel, self.account_id, error)

    def now_ms(self) -> int:
        return self._clock.now_ms()
