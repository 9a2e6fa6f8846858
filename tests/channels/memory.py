"""The channel that lives in memory, for the contract of channels: what the suite itself is tried on."""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from crossclaw.channels.contract import ChannelHost, GivenChannel, Piece
from crossclaw.channels.manifest import Traits
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain, StoreError
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel
from tests.channels.contract import ChannelDriver, Failure, Witness

AGAIN_S = 5.0


class _Remembering(MemoryChannel):
    """Acts as a platform that keeps messages until they are acknowledged."""

    def __init__(self, driver: "MemoryDriver") -> None:
        super().__init__(
            account_id=driver.account_id,
            knows_key_s=driver.knows_key_s,
            traits=driver.traits,
            settings=driver.settings,
        )
        self._driver = driver

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self.host = Witness(host, self._driver)
        task_status.started()
        while True:
            try:
                await self._driver.bring_waiting(self)
                await self._driver.changed.wait()
            except StoreError:
                await anyio.sleep(AGAIN_S)

    async def send(self, piece: Piece) -> str | None:
        how = self._driver.failures.popleft() if self._driver.failures else None
        match how:
            case "not sent" | "later":
                raise DeliveryError(how, retryable=True, retry_after_s=7.0)
            case "never":
                raise DeliveryError(how)
            case "gone":
                raise DeliveryError(how, chat_gone=True)
            case "lost before":
                raise DeliveryUncertain(how)
        self._driver.show(piece)
        if how == "lost after":
            raise DeliveryUncertain(how)
        return piece.delivery_key


class MemoryDriver(ChannelDriver):
    name = "memory"
    settings = OPEN_TO_ALL
    traits = Traits()
    session_names = ("memory:group:-1001",)
    answers_are_marked = False

    def __init__(self, knows_key_s: float = 0.0) -> None:
        super().__init__()
        self.knows_key_s = knows_key_s
        self.failures: deque[Failure] = deque()
        self.changed = anyio.Event()
        self._held: list[Inbound] = []
        self._said: dict[str, Inbound] = {}
        self._seen: dict[str, str] = {}
        self._places: list[str] = []
        self._acts: list[Callable[[], None]] = []

    def channel(self) -> GivenChannel:
        return _Remembering(self)

    @asynccontextmanager
    async def platform(self) -> AsyncGenerator[None]:
        yield

    async def bring_waiting(self, channel: MemoryChannel) -> None:
        while self._held:
            await channel.bring(self._held[0])
            self._held.pop(0)

    def show(self, piece: Piece) -> None:
        known = piece.delivery_key in self._seen
        if not (known and self.knows_key_s):
            key = piece.delivery_key if not known else f"{piece.delivery_key}+{len(self._seen)}"
            self._seen[key] = piece.formatted
            self._places.append(piece.address.to)
        self._wake()
        if self._acts:
            self._acts.pop()()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def _hold(self, inbound: Inbound) -> None:
        self._held.append(inbound)
        self._wake()

    def _inbound(self, text: str, person: str, group: str | None = None) -> Inbound:
        return Inbound(
            address=Address(self.name, group or person, self.account_id),
            sender=person,
            text=text,
            message_id=str(len(self._said) + 1),
            chat_type="group" if group else "direct",
            chat_id=group,
        )

    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        inbound = self._inbound(text, person, group)
        self._said[inbound.message_id] = inbound
        self._hold(inbound)
        return inbound.message_id

    async def say_again(self, message_id: str) -> None:
        self._hold(self._said[message_id])

    async def say_as_us(self, text: str) -> None:
        """It has no account of its own, so nothing of ours can come back."""

    async def bring_hostile(self) -> None:
        """Its messages are typed already."""

    def seen(self) -> list[str]:
        return list(self._seen.values())

    def places(self) -> list[str]:
        return self._places

    async def wait_seen(self, count: int) -> None:
        while len(self._seen) < count:
            await self.changed.wait()

    def fail_next_send(self, how: Failure) -> None:
        self.failures.append(how)

    def at_next_effect(self, act: Callable[[], None]) -> None:
        self._acts.append(act)

    def waiting(self) -> int:
        return len(self._held)
