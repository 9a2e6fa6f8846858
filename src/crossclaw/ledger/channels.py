"""What chat channels keep in the ledger: operations of their own."""

from crossclaw.ledger.operations import Op


class SaveCursor(Op[None], frozen=True):
    """How far an account has read of its platform. Saved after what was read is stored."""

    channel: str
    account_id: str
    name: str
    value: str
    at: int


class LearnFate(Op[bool], frozen=True):
    """The platform says later what became of a message. An uncertain one has arrived or not; one that was
    taken may still have failed on the way. Answers whether there was something to learn."""

    delivery_key: str
    arrived: bool
    at: int
    platform_id: str | None = None
    error: str | None = None
