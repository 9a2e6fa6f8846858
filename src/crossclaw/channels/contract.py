"""The channel contract: hand inbound messages up, carry replies out."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio.abc

from crossclaw.domain.addresses import Address, Inbound

Receive = Callable[[Inbound], Awaitable[str]]
"""Answers the run id once the message is durable; only then may the platform be told so."""


class Channel(Protocol):
    name: str
    idempotent: bool
    """Whether the platform knows our delivery key and shows the same message once. If not, a
    delivery that was cut off stays `uncertain` and is never repeated by itself."""

    async def serve(self, receive: Receive, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Bring inbound messages until cancelled."""
        ...

    async def send(self, address: Address, text: str, delivery_key: str) -> str | None:
        """Answers the platform's id of the message. An address that somebody named may begin with a word that
        says what it is, `user:`, `group:` or `channel:` (see spelling). A refusal is a DeliveryError that says whether
        trying again helps; not knowing is DeliveryUncertain."""
        ...
