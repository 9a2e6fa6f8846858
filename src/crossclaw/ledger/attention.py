"""What needs a person's attention: the rows that are in trouble, and what was put out of sight."""

import msgspec

from crossclaw.ledger.operations import Op

TEXT_CHARS = 200  # of a reply in a list


class TroubledDelivery(msgspec.Struct, frozen=True):
    """A reply that did not arrive, or of which nobody knows whether it did."""

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
    """A run under way that has spent most of what it and all it belongs to may spend."""

    run_id: str
    key: str
    created_at: int
    tokens_spent: int
    tokens_max: int | None
    cost_spent: float
    cost_max: float | None


class Dismiss(Op[None], frozen=True):
    """Put something out of the sight of whoever looks for trouble."""

    name: str
    agent_id: str
    at: int


class Resend(Op[bool], frozen=True):
    """Try a delivery once more, from the first attempt on. False: it is not one that failed or is uncertain."""

    delivery_id: int
    at: int
