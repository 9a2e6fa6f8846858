"""Pieces of deliveries: a reply that is longer than one message of its platform. Each has its own state, so that
what has arrived is never sent again."""

import msgspec

from crossclaw.ledger.operations import DeliveryPreview, DeliveryState, Op


class DeliveryPiece(msgspec.Struct, frozen=True, kw_only=True):
    delivery_id: int
    number: int
    """From 1 on."""
    of: int
    text: str
    formatted: str
    state: DeliveryState = "pending"
    tried_at: int | None = None
    """When it was first handed to its channel, unless that has surely failed."""
    platform_id: str | None = None
    file: int | None = None
    """Which of the delivery's files goes with it, from 0 on."""


class SplitDelivery(Op[list[DeliveryPiece]], frozen=True):
    """The pieces of a delivery, as they were made when it was first tried; else these. One alone is none."""

    delivery_id: int
    pieces: tuple[DeliveryPiece, ...]


class TakePiece(Op[None], frozen=True):
    """From pending to sending, before the channel is called."""

    delivery_id: int
    number: int
    at: int


class SettlePiece(Op[None], frozen=True):
    """What became of it, by the answer to this attempt; what its platform has told meanwhile is surer."""

    delivery_id: int
    number: int
    state: DeliveryState
    platform_id: str | None = None
    unsent: bool = False
    """Nothing of it has left, by this attempt or one before: it was not tried."""


class MarkDelivered(Op[bool], frozen=True):
    """A person knows that an uncertain delivery has arrived. What of it was not tried yet goes out. False: it is
    not uncertain."""

    delivery_id: int
    at: int


# ── replies that are shown while they are written ──────────────────────────────────────────────


class BeginPreview(Op[DeliveryPreview | None], frozen=True):
    """Before the first words of a reply are shown. Answers the one that there is already, made before a crash; one without an
    id, when the whole reply is on its way."""

    delivery_key: str
    at: int


class NotePreview(Op[None], frozen=True):
    """It is there, under this id of its platform."""

    delivery_key: str
    platform_id: str


class DropPreview(Op[None], frozen=True):
    """It is surely not there, or the reply has taken its place."""

    delivery_key: str
