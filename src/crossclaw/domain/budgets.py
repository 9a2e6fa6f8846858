"""Budgets: what a run and everything it causes may spend.

The first run that a budget applies to opens an account; what it causes carries the same purse, so
sends, spawns, rounds, announces and wake runs all spend from it. An agent with a budget of its own
opens an account inside the one it was reached with: what is spent there is spent from both.
"""

import msgspec


class Allowance(msgspec.Struct, frozen=True):
    """A budget as it is configured. None means "no limit of this kind"."""

    tokens: int | None = None
    cost_usd: float | None = None
    minutes: float | None = None
    own: bool = False
    """Whether it is the agent's own, not everybody's: then it holds also where another account pays."""


class BudgetShare(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run's share of a budget: the account, whose it is, and when its time is over."""

    account_id: str
    """The run that opened it."""
    agent_id: str
    minutes: float | None = None
    ends_at_ms: int | None = None


class Amount(msgspec.Struct, frozen=True):
    tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.cost_usd + other.cost_usd)

    def __bool__(self) -> bool:
        return bool(self.tokens or self.cost_usd)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account as the ledger has it."""

    account_id: str
    agent_id: str
    parent_id: str | None = None
    tokens_max: int | None = None
    cost_max: float | None = None
    ends_at_ms: int | None = None
    spent: Amount = Amount()
    reserved: Amount = Amount()
    """The amount reserved for model calls under way."""


class Grant(msgspec.Struct, frozen=True):
    """Whether a model may be called, and why not."""

    allowed: bool
    reason: str
    output_tokens: int = 0
    """The tokens of the answer: fewer than were asked for, if the account holds no more."""
    reserved: Amount = Amount()
    held: bool = False
    """Whether it is refused only because of reservations for calls under way: when they end there may be room."""
