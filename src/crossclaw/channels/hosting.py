"""Hosting: what the gateway gives to one account."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from crossclaw.channels.accounts import AccountPlace
from crossclaw.channels.contract import AccountFacts, Received
from crossclaw.channels.http import HttpClients
from crossclaw.disk.private import make_folder
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.aliases import Callback
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import AccountBroken
from crossclaw.ledger.channels import LearnFate, SaveCursor
from crossclaw.ledger.contract import Ledger

log = logging.getLogger(__name__)

IDENTITY = "identity"

ReceiveInbound = Callable[["AccountHost", Inbound], Awaitable[Received]]
MayTalk = Callable[["AccountHost", Inbound], Awaitable[bool]]
FindTwin = Callable[[AccountFacts], Awaitable[str | None]]
"""Finds another account of ours that is the same one at the platform, and describes it."""


class KnownIdentity(msgspec.Struct, frozen=True):
    """The account's identity when it was last connected, and since when, if it was another one before; the
    same of its device."""

    id: str
    since_ms: int = 0
    device: str | None = None
    device_since_ms: int = 0


class HostServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all accounts are given alike. `wake`: something is to be sent."""

    receive: ReceiveInbound
    may_talk: MayTalk
    ledger: Ledger
    clock: Clock
    wake: Callback


class AccountHost:
    """The `ChannelHost` of one account. `find_twin` finds another account that is the same one on the platform;
    None if the account is not from the config."""

    def __init__(
        self,
        place: AccountPlace,
        services: HostServices,
        http: HttpClients,
        folder: Path,
        find_twin: FindTwin | None = None,
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
        self._services, self._folder, self._find_twin = services, folder, find_twin
        self._ledger = services.ledger
        self.opened_ms = self.now_ms()
        self._identity: KnownIdentity | None = None
        self._attempt: anyio.CancelScope | None = None
        self.broken_by: str | None = None
        """Why the attempt to keep it open was broken off."""

    async def receive(self, inbound: Inbound) -> Received:
        self.heard()
        received = await self._services.receive(self, inbound)
        self.inbound_ms = self.now_ms()
        return received

    async def may_talk(self, inbound: Inbound) -> bool:
        return await self._services.may_talk(self, inbound)

    async def private_folder(self) -> Path:
        await anyio.to_thread.run_sync(make_folder, self._folder)
        return self._folder

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
        """The time since which the account has its current identity at the platform; 0: it never had another
        one. None: it had one before, and is not connected yet."""
        device = None if self.facts is None else self.facts.device
        known = self._identity
        if known is not None and (known.id, known.device) == (self._login, device):
            return known.since_ms
        stored = await self.load_cursor(IDENTITY)
        before = msgspec.json.decode(stored, type=KnownIdentity) if stored else None
        login, facts = self._login, self.facts
        if login is None or facts is None:
            return 0 if before is None or facts is not None else None
        known = self._go_on_from(before, login, facts.device)
        if known != before:
            await self.save_cursor(IDENTITY, msgspec.json.encode(known).decode())
        self._identity = known
        return known.since_ms

    def _go_on_from(
        self, before: KnownIdentity | None, login: str, device: str | None
    ) -> KnownIdentity:
        """The stored identity after this login. A device that an earlier release did not note counts as the same."""
        if before is None:
            return KnownIdentity(login, device=device)
        since_ms, device_since_ms = before.since_ms, before.device_since_ms
        if before.id != login:
            since_ms = self.now_ms()
        if before.id != login or before.device not in (None, device):
            device_since_ms = self.now_ms()
        return KnownIdentity(login, since_ms, device, device_since_ms)

    @property
    def keys_known_since_ms(self) -> int:
        """The time of the oldest delivery key that the account's device knows; 0: it never had another
        device. Up to date once `speaks_since` has returned."""
        return 0 if self._identity is None else self._identity.device_since_ms

    @property
    def _login(self) -> str | None:
        """The id that tells the account from others; None: not known yet, or it has none."""
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
        if self._find_twin is not None and (twin := await self._find_twin(facts)) is not None:
            raise AccountBroken(
                f"{facts.name or facts.id} is the same account as {twin}, and everybody would be answered twice: give it a"
                " token of its own, or take one of the two out of the config"
            )
        self.facts, self.connected_ms = facts, self.now_ms()
        self.heard()

    def learn(self, facts: AccountFacts) -> None:
        """What the platform tells of the account now."""
        self.facts = facts

    def begin_attempt(self) -> anyio.CancelScope:
        """The account is to be kept open once more, within this scope."""
        self.broken_by, self._attempt = None, anyio.CancelScope()
        return self._attempt

    def break_off(self, error: str) -> None:
        """What is sent by this account is refused until a person has done something."""
        if self.broken_by is None and self._attempt is not None:
            self.troubled(error)
            self.broken_by = error
            self._attempt.cancel()

    def heard(self) -> None:
        self.heard_ms = self.now_ms()

    def sent(self) -> None:
        self.outbound_ms = self.now_ms()

    def noted(self, error: str) -> None:
        self.last_error, self.last_error_ms = error, self.now_ms()

    def troubled(self, error: str) -> None:
        self.noted(error)
        log.warning("%s account %s: %s", self.channel, self.account_id, error)

    def wake(self) -> None:
        """Something is to be sent."""
        self._services.wake()

    def now_ms(self) -> int:
        return self._services.clock.now_ms()
