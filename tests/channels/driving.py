"""What the contract of channels drives a platform with: a driver is a person's hands and eyes on the platform's side. It says, sees,
and makes the platform misbehave. The gateway is a real one in virtual time."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.contract import (
    ChannelAccount,
    ChannelHost,
    GivenChannel,
    Piece,
    Received,
    WebhookAnswer,
    WebhookRequest,
)
from crossclaw.channels.http import HttpClients
from crossclaw.config import Config
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import StoreFull
from crossclaw.providers.contract import Provider
from crossclaw.testing import open_gateway
from tests.flows.test_runs_keep_their_order import Recording

Failure = Literal["not sent", "lost before", "lost after", "later", "never", "gone"]
"""Of the next send. Not sent: nobody listens. Lost: the connection ends after the request was read, before or after people
see the message. The others are refusals: try again later, never, and the chat is not to be reached any more."""

SHOWN_S_MAX = 600.0
QUIET_S = 120.0
"""In virtual time: whatever was to come has come, retries included."""
PICTURE = b"\x89PNG\r\n\x1a\n" + b"a picture"


class Witness:
    """The gateway's side of one account, as it is, with a look at what became of each message, and a disk that is full
    on demand."""

    def __init__(self, host: ChannelHost, driver: "ChannelDriver") -> None:
        self._host, self._driver = host, driver
        self.http = HttpClients(driver.transport()) if driver.transport() else host.http

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    async def receive(self, inbound: Inbound) -> Received:
        if self._driver.full_for > 0:
            self._driver.full_for -= 1
            raise StoreFull("the disk is full")
        received = await self._host.receive(inbound)
        self._driver.received.append(received)
        return received


class HandedOver(GivenChannel):
    """An account that is opened from its settings when the gateway serves it."""

    def __init__(
        self, driver: "ChannelDriver", open_it: Callable[[Any], Awaitable[ChannelAccount]]
    ) -> None:
        self.name, self.account_id = driver.name, driver.account_id
        self.settings, self.traits = driver.settings, driver.traits
        self._driver, self._open = driver, open_it
        self.account: ChannelAccount | None = None

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        witness = Witness(host, self._driver)
        self.account = await self._open(witness)
        await self.account.serve(witness, task_status=task_status)

    def _opened(self) -> ChannelAccount:
        assert self.account is not None, "the account is not served yet"
        return self.account

    async def send(self, piece: Piece) -> str | None:
        return await self._opened().send(piece)

    def knows_key_for_s(self) -> float:
        return self._opened().knows_key_for_s() if self.account else self._driver.knows_key_s

    async def show_typing(self, where: Address) -> None:
        await self._opened().show_typing(where)

    async def stop_typing(self, where: Address) -> None:
        await self._opened().stop_typing(where)

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        await self._opened().react(where, message_id, emoji, on=on)

    async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
        await self._opened().edit(where, platform_id, piece)

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        return await self._opened().fetch(what, limit)

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        return await self._opened().webhook(request)


class ChannelDriver(ABC):
    """One platform with one account of ours, and people who write to it."""

    name: ClassVar[str]
    account_id: str = "default"
    settings: Any
    """Of the account. Everybody whom the driver lets speak may talk, in groups without a mention too."""
    traits: Any
    text_limit: int = 4_000
    brings_again: ClassVar[bool] = True
    """The platform brings a message again until it is acknowledged, also to the next process."""
    keeps_first: ClassVar[bool] = True
    """What a person writes for the first time while the gateway is away for an hour comes when it is back."""
    knows_key_s: float = 0.0
    """How long the platform shows a repeated delivery key once."""

    finds_lost: ClassVar[bool] = False
    """A message whose answer was lost is looked for at the platform: what is there is delivered."""
    has_groups: ClassVar[bool] = True
    has_threads: ClassVar[bool] = False
    """Topics and threads inside of a group: `say_in_thread`."""
    session_names: ClassVar[tuple[str, ...]] = ()
    """What the sessions of a group and of a thread in it are called, behind their agent: patterns, in that order."""
    answers_are_marked: ClassVar[bool] = True
    """A message can name the one that it answers: `answered`."""
    later_s: ClassVar[float] = 7.0
    """What the platform says when it says later; zero: it does not say."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.full_for = 0
        """So many messages find a full disk."""

    def person_id(self, person: str) -> str:
        """As an allow list names the person whom `say` calls so."""
        return person

    def restrict(self, dm_policy: Literal["allowlist", "pairing"], *people: str) -> None:
        """For the next starts: only these people may write directly."""
        allowed = tuple(map(self.person_id, people))
        self.settings = msgspec.structs.replace(
            self.settings, dm_policy=dm_policy, allow_from=allowed
        )

    def transport(self) -> Any:
        """What stands for the network of the account; None: the account knows its fake itself."""
        return None

    @abstractmethod
    def channel(self) -> GivenChannel:
        """The account, for one start of the gateway."""

    @asynccontextmanager
    async def platform(self) -> AsyncGenerator[None]:
        """What the platform does by itself while a gateway runs, such as posting to its webhook."""
        yield

    @abstractmethod
    async def say(self, text: str, *, person: str = "1001", group: str | None = None) -> str:
        """A person writes; answers the message's id. Does not wait for the gateway."""

    async def say_in_thread(self, text: str, *, group: str, person: str = "1001") -> str:
        """The same in a thread of a group: always the same one."""
        raise NotImplementedError

    async def say_with_picture(self, text: str, data: bytes, *, person: str = "1001") -> bool:
        """A person sends a PNG with words under it; False: the platform has no files."""
        return False

    async def change(self, message_id: str, text: str) -> bool:
        """Its writer gives a message other words; False: nobody tells bots of that."""
        return False

    @abstractmethod
    async def say_again(self, message_id: str) -> None:
        """The platform brings the same message once more, as platforms do."""

    @abstractmethod
    async def say_as_us(self, text: str) -> None:
        """Our own account's words come back, as if somebody had written them."""

    async def say_as_bot(self, text: str) -> bool:
        """Another bot writes; False: the platform does not tell bots apart."""
        return False

    @abstractmethod
    async def bring_hostile(self) -> None:
        """Payloads that the platform would not send: wrong types, missing parts, deep nesting, odd characters."""

    @abstractmethod
    def seen(self) -> list[str]:
        """The texts that people saw, in order, by the platform's own log."""

    @abstractmethod
    def places(self) -> list[str]:
        """Where each of `seen` was seen: one text for one chat and thread."""

    def answered(self) -> list[str | None]:
        """Which message each of `seen` names as the one that it answers."""
        return [None] * len(self.seen())

    @abstractmethod
    async def wait_seen(self, count: int) -> None: ...

    @abstractmethod
    def fail_next_send(self, how: Failure) -> None: ...

    @abstractmethod
    def at_next_effect(self, act: Callable[[], None]) -> None:
        """Right after people see the next message, and before we hear that they do."""

    def at_its_best(self) -> None:  # noqa: B027  most are
        """For the next starts: the platform can do all that it can anywhere, and reacts if it has a rule of its own."""

    def attempts(self) -> int | None:
        """How often a message was sent, refused ones too; None: the platform refuses nobody for being quick."""
        return None

    def typing_seen(self) -> int:
        """How often people saw that we are typing."""
        return 0

    def reactions_seen(self) -> int:
        """How many reactions of ours were put."""
        return 0

    def files_seen(self) -> list[bytes]:
        """What people can open, in order."""
        return []

    def waiting(self) -> int:
        """Messages that the platform holds because nobody has acknowledged them."""
        return 0

    def complaints(self) -> list[str]:
        """What a strict platform found wrong with our requests."""
        return []


def configured(**defaults: Any) -> Config:
    raw = {"agents": {"defaults": {"typingMode": "never", **defaults}}}
    signs = {"messages": {"ackReaction": "👍", "ackReactionScope": "all"}} if defaults else {}
    return msgspec.convert(raw | signs, Config)


@asynccontextmanager
async def gateway_with(
    folder: Path,
    driver: ChannelDriver,
    model: Provider | None = None,
    config: Config | None = None,
    others: Sequence[ChannelDriver] = (),
) -> AsyncGenerator[Any]:
    """Without typing and reactions, so that what fails next is a message. `others`: further accounts."""
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(
            open_gateway(
                folder,
                model or Recording(0.1),
                channels=[each.channel() for each in (driver, *others)],
                config=config or configured(),
            )
        )
        for each in (driver, *others):
            await stack.enter_async_context(each.platform())
        yield gateway


async def shown(driver: ChannelDriver, count: int) -> None:
    """So many messages are there; not for ever, since platforms ask and ping for ever."""
    with anyio.fail_after(SHOWN_S_MAX):
        await driver.wait_seen(count)


async def delivery_states(gateway: Any, driver: ChannelDriver) -> list[str]:
    run_ids = dict.fromkeys(each.run_id for each in driver.received if each.run_id)
    found = [await gateway.ledger.find_delivery(f"reply:{run_id}") for run_id in run_ids]
    return [each.state for each in found if each is not None]
