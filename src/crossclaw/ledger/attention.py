"""Rows that need a person's attention, and which of them were dismissed."""

import msgspec

from crossclaw.ledger.operations import Op

TEXT_CHARS = 200  # of a reply in a list


class TroubledDelivery(msgspec.Struct, frozen=True):
    """A reply that did not arrive, or may not have."""

    delivery_id: int
    key: str
    channel: str
    to: str
    text: str
    state: str
    attempt: int
    updated_at: int
    run_id: str | None
    error: str | None


class TightBudget(msgspec.Struct, frozen=True):
    """A run under way that has used most of its budget, or of the budget it belongs to."""

    run_id: str
    key: str
    created_at: int
    tokens_spent: int
    tokens_max: int | None
    cost_spent: float
    cost_max: float | None


class Dismiss(Op[None], frozen=True):
    """Hide something from the list of troubles."""

    name: str
    agent_id: str
    at: int


class Resend(Op[bool], frozen=True):
    """Try a delivery once more, from the first attempt on. False if it has neither failed nor is
    uncertain."""

    delivery_id: int
    at: int
