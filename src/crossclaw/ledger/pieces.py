"""Pieces of deliveries: the messages of a reply that is longer than its platform allows. Each has
its own state, so that what has arrived is never sent again."""

import msgspec

from crossclaw.ledger.operations import DeliveryPreview, DeliveryState, Op


class DeliveryPiece(msgspec.Struct, frozen=True, kw_only=True):
    delivery_id: int
    number: int
    """The number of the piece, from 1 on."""
    of: int
    text: str
    formatted: str
    state: DeliveryState = "pending"
    tried_at: int | None = None
    """When it was first passed to its channel, unless that has surely failed."""
    platform_id: str | None = None
    file: int | None = None
    """The index of the delivery's file that goes with it, from 0 on."""


class SplitDelivery(Op[list[DeliveryPiece]], frozen=True):
    """Split a delivery into these pieces, unless it was split at an earlier attempt. The result is
    its pieces. A single one is not stored."""

    delivery_id: int
    pieces: tuple[DeliveryPiece, ...]


class TakePiece(Op[None], frozen=True):
    """Move a piece from pending to sending, before the channel is called."""

    delivery_id: int
    number: int
    at: int


class SettlePiece(Op[None], frozen=True):
    """Store what became of a piece, by the answer to this attempt; what its platform has reported
    meanwhile counts more."""

    delivery_id: int
    number: int
    state: DeliveryState
    platform_id: str | None = None
    unsent: bool = False
    """Whether nothing of it was sent, by this attempt or one before: then it was not tried."""


class MarkDelivered(Op[bool], frozen=True):
    """Mark an uncertain delivery as delivered, because a person knows. Pieces that were not tried
    yet go out. False if it is not uncertain."""

    delivery_id: int
    at: int


# ── replies that are shown while they are written ──────────────────────────────────────────────


class BeginPreview(Op[DeliveryPreview | None], frozen=True):
    """Begin a preview, before the first words of a reply are shown. The result is the one that
    exists already, made before a crash; one without an id if the whole reply is on its way."""

    delivery_key: str
    at: int


class NotePreview(Op[None], frozen=True):
    """Store the platform's id of a preview that has arrived."""

    delivery_key: str
    platform_id: str


class DropPreview(Op[None], frozen=True):
    """Remove a preview that surely did not arrive, or that the reply has replaced."""

    delivery_key: str
