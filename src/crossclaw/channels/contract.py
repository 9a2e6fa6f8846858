"""The channel contract: what an account of a chat platform does, and what the gateway gives it.

An account hands inbound messages to `host.receive` and sends pieces of replies. `receive` returns when the
message is stored, or decided against; only then may it be acknowledged to the platform, and only then a cursor
moves. If it raises, the message was not stored: do not acknowledge it.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

import anyio.abc
import msgspec

from crossclaw.channels.http import HttpClients
from crossclaw.channels.manifest import Traits
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import MediaRefused

DEFAULT_ACCOUNT = "default"


class OutgoingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes out."""

    kind: Literal["image", "audio", "video", "document"]
    data: bytes
    mime: str
    name: str


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One message for the platform: the whole reply, or what of it fits into one message."""

    address: Address
    """The address it goes to. One that somebody named may begin with a word that says what it is, `user:`,
    `group:` or `channel:` (see spelling)."""
    text: str
    """The text without marks: it is sent where the platform refuses `formatted`."""
    formatted: str
    """The text in the dialect of `Traits`."""
    delivery_key: str
    """An id for this piece: the same at every attempt to send it, and no other piece has it."""
    number: int = 1
    of: int = 1
    reply_to: str | None = None
    """The platform's id of the message that it answers. One that was deleted must not keep the answer back."""
    media: OutgoingFile | None = None


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """The result of receiving a message. All of it is durable on return."""

    what: Literal["accepted", "remembered", "changed", "noted", "pairing", "dropped"]
    """Accepted: it is a run. Remembered: context for a later one. Changed: an edit or deletion of a message that no agent has
    read yet. Noted: any other edit, deletion or reaction, in the session. Pairing: a stranger is asked for a code.
    Dropped: nothing."""
    why: str = ""
    run_id: str | None = None

    @property
    def is_dropped(self) -> bool:
        return self.what == "dropped"


class AccountFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Who the account is at its platform."""

    id: str
    name: str | None = None
    detail: str | None = None
    """What else a person should know, in a few words."""
    open_url: str | None = None
    """A link with which a person begins a chat with it, or invites it."""
    login: str | None = None
    """An id that stays the same as long as it is the same account, if `id` may not."""
    device: str | None = None
    """The device by which the platform recognises delivery keys, if an account can have several."""
    is_deaf: bool = False
    """Whether it would get messages without their words: a switch at the platform is off."""


class WebhookRequest(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """The headers; names are in lower case."""
    body: bytes
    """The raw bytes: signatures are made over them."""


class WebhookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


class ChannelHost(Protocol):
    """What an account gets from the gateway."""

    channel: str
    account_id: str
    http: HttpClients

    async def receive(self, inbound: Inbound) -> Received:
        """Decides access, then stores the message. Raises only when it could not be stored."""
        ...

    async def may_talk(self, inbound: Inbound) -> bool:
        """Whether a message such as this one would be accepted, without accepting it: before an invitation is
        followed, or a part of a message kept. A stranger who could ask for access may not talk yet."""
        ...

    async def load_cursor(self, name: str) -> str | None: ...

    async def save_cursor(self, name: str, value: str) -> None:
        """Stores a cursor, durably. `name` says what it is a cursor of, and of whom where that can change: an
        offset belongs to one bot, so that another token does not inherit it."""
        ...

    async def confirm_delivery(self, delivery_key: str, platform_id: str | None = None) -> None:
        """Reports that a piece has arrived, as the platform says later or before it answers: it is no longer
        uncertain."""
        ...

    async def fail_delivery(self, delivery_key: str, error: str) -> None:
        """Reports that a piece did not arrive, as the platform says later or before it answers, though it
        accepts it or had accepted it."""
        ...

    async def connected(self, facts: AccountFacts) -> None:
        """Reports who the account is at the platform; nothing was taken from it yet. Raises AccountBroken
        when the same account is already open: under another name in the config, or on another gateway."""
        ...

    def heard(self) -> None:
        """Reports a sign of life of the platform."""
        ...

    def troubled(self, error: str) -> None:
        """Reports a failure after which the account goes on."""
        ...

    def now_ms(self) -> int: ...


class InvitedHost(ChannelHost, Protocol):
    """Further services of the gateway, for platforms with keys of their own."""

    async def private_folder(self) -> Path:
        """The folder for what only the account may read, such as keys of its device."""
        ...


class ChannelAccount(ABC):
    """One account of one channel. `open_account(settings, host)` of the channel's folder makes it.

    Methods for what a platform does not have are left as they are here.
    """

    @abstractmethod
    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Receives messages until cancelled; `started()` when connected. ChannelDown or any other error: the
        supervisor starts it again, after a pause that grows. AccountBroken: it stays off."""

    @abstractmethod
    async def send(self, piece: Piece) -> str | None:
        """Sends a piece; returns the platform's id of the message. A refusal is a DeliveryError that says
        what it means; an unknown outcome is DeliveryUncertain. It is not tried again here: the outbox does
        that."""

    def knows_key_for_s(self) -> float:
        """How long after an attempt the platform still recognises our delivery key, and shows the same message
        once. Inf: for ever; 0: never, so that a delivery that was cut off stays `uncertain`. It ends with
        `AccountFacts.device`."""
        return 0.0

    async def probe(self) -> AccountFacts:
        """Asks the platform who we are."""
        return AccountFacts(id="")

    async def show_typing(self, where: Address) -> None:  # noqa: B027  not every platform has it
        """Shows "is typing". Best effort, never repeated."""

    async def stop_typing(self, where: Address) -> None:  # noqa: B027  most forget it by themselves
        """Stops "is typing", if it would be shown for longer. Best effort."""

    async def react(  # noqa: B027  not every platform has it
        self, where: Address, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        """Adds or removes a reaction. Best effort, never repeated."""

    async def edit(  # noqa: B027  not every platform has it
        self, where: Address, platform_id: str, piece: Piece
    ) -> None:
        """Changes a sent message. Only called with `Traits.edits`."""

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        """The file, of at most `limit` bytes; MediaRefused says why not."""
        raise MediaRefused("files cannot be fetched on this channel")

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        """Answers a request of the platform. Only called with `Traits.webhook`. Authenticate by the
        platform's own rule, on the raw bytes, before anything of it is read; answer 200 after everything in
        it was received."""
        return WebhookAnswer(status=404)


AccountWebhook = Callable[[WebhookRequest], Awaitable[WebhookAnswer]]


class GivenChannel(ChannelAccount):
    """An account that a program hands over, where the config names none: tests do."""

    name: str
    account_id: str = DEFAULT_ACCOUNT
    traits: Traits = Traits()
    settings: ChannelSettings = ChannelSettings()
    """Its settings. As they are by default, they let nobody talk whom the owner has not approved: as on a platform
    whose section in the config says nothing about it."""
