"""The budget that a session's newest run spends from, for rows and cards."""

from collections.abc import Sequence

import msgspec

from crossclaw.config import Config
from crossclaw.domain.budgets import Account
from crossclaw.domain.clock import Clock
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import Ledger


class BudgetRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A budget on the wire. Limits that are not set are left out."""

    text: str
    tokens_spent: int
    cost_usd_spent: float
    tokens: int | None = None
    cost_usd: float | None = None
    ends_at: int | None = None


class Budgets:
    def __init__(self, ledger: Ledger, config: Config, clock: Clock) -> None:
        self._ledger = ledger
        self._config = config
        self._clock = clock

    async def of(self, keys: Sequence[SessionKey]) -> dict[SessionKey, BudgetRow]:
        """The budgets of these sessions. Reads nothing where no budget is configured."""
        agents = self._config.agents
        if not any(agents.budget_for(agent_id) for agent_id in agents.ids()):
            return {}
        found = await self._ledger.list_accounts(keys)
        return {key: self._row(account) for key, account in found.items()}

    def _row(self, account: Account) -> BudgetRow:
        return BudgetRow(
            text=_text(account, self._clock.now_ms()),
            tokens_spent=account.spent.tokens,
            cost_usd_spent=account.spent.cost_usd,
            tokens=account.tokens_max,
            cost_usd=account.cost_max,
            ends_at=account.ends_at_ms,
        )


def _text(account: Account, now_ms: int) -> str:
    parts = []
    if account.tokens_max is not None:
        parts.append(f"{account.spent.tokens:,} of {account.tokens_max:,} tokens")
    if account.cost_max is not None:
        parts.append(f"${account.spent.cost_usd:.4f} of ${account.cost_max:.4f}")
    if account.ends_at_ms is not None:
        left_s = max(0, account.ends_at_ms - now_ms) // 1000
        parts.append(f"{left_s // 60}m{left_s % 60:02}s left" if left_s else "no time left")
    return ", ".join(parts) + " for the last run and all it belongs to"
