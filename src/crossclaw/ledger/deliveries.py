"""Deliveries: messages on their way to a chat, as the ledger stores them."""

from typing import Literal

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import NewRun, Run
from crossclaw.domain.sessions import Session

DeliveryState = Literal["pending", "sending", "delivered", "uncertain", "failed"]


class DeliveryFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that goes out with a message. Its bytes are kept by `KeepMedia`, held by `media_holder`."""

    sha256: str
    kind: Literal["image", "audio", "video", "document"]
    mime: str
    name: str
    size: int


def media_holder(delivery_key: str) -> str:
    """The name under which a delivery holds its files until it has arrived."""
    return f"outbox:{delivery_key}"


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    delivery_key: str
    """A unique key: the same reply is put into the outbox once."""
    key: SessionKey
    address: Address
    text: str
    run_id: str | None = None
    authority: Authority = Authority()
    reply_to: str | None = None
    """The platform's id of the message that this one answers."""
    files: tuple[DeliveryFile, ...] = ()

    @classmethod
    def of_run(
        cls, run: Run | NewRun, delivery_key: str, key: SessionKey, address: Address, text: str
    ) -> "NewDelivery":
        """A delivery of a run's words to a chat, with the run's rights."""
        return cls(
            delivery_key=delivery_key,
            key=key,
            address=address,
            text=text,
            run_id=run.run_id,
            authority=run.authority,
            reply_to=run.plan.answers if address == run.plan.reply_to else None,
        )


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    delivery_id: int
    delivery_key: str
    key: SessionKey
    address: Address
    text: str
    state: DeliveryState
    attempt: int
    not_before: int
    run_id: str | None = None
    error: str | None = None
    platform_id: str | None = None
    authority: Authority = Authority()
    updated_at: int = 0  # of one that is being sent: when this attempt began
    created_at: int = 0  # when it was put, or a person has asked for it once more
    tried_at: int | None = None  # first handed to its channel, unless that surely failed
    reply_to: str | None = None
    files: tuple[DeliveryFile, ...] = ()


class DeliveryPreview(msgspec.Struct, frozen=True):
    """A message that shows a reply while it is being written. The finished reply replaces it: one
    message, not two."""

    delivery_key: str
    tried_at: int
    """When it was first passed to its channel."""
    platform_id: str | None = None
    """Its id on the platform; None if it may not have arrived."""


class TakenDelivery(msgspec.Struct, frozen=True):
    """A delivery to be tried, and its session as it was at that moment."""

    delivery: Delivery
    session: Session | None
    preview: DeliveryPreview | None = None
