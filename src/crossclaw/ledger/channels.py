"""What chat channels keep in the ledger: operations of their own."""

from crossclaw.ledger.operations import Op


class SaveCursor(Op[None], frozen=True):
    """How far an account has read of its platform. Saved after what was read is stored."""

    channel: str
    account_id: str
    name: str
    value: str
    at: int
