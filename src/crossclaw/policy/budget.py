"""Budgets: whether a model may be called, and how long its answer may be. Decided from what the accounts hold."""

from collections.abc import Sequence

import msgspec

from crossclaw.domain.budgets import Account, Amount, BudgetShare, Grant

# An answer shorter than this helps nobody; better to say that the budget is used up.
OUTPUT_TOKENS_MIN = 256


def decide_call(
    line: Sequence[Account], fixed: Amount, output: Amount, *, now_ms: int, priced: bool = True
) -> Grant:
    """Decides a model call. `line` is the account and those around it; `fixed` what the call takes before the
    model says anything, `output` what its whole answer would take at most. An answer may be cut to what is
    left."""
    granted = output.tokens
    for account in line:
        refusal = _refusal(account, now_ms, priced)
        if refusal is not None:
            return Grant(False, refusal)
        room, least = _room(account, fixed, output), min(OUTPUT_TOKENS_MIN, output.tokens)
        if room < least:
            alone = msgspec.structs.replace(account, reserved=Amount())
            held = _room(alone, fixed, output) >= least
            return Grant(False, _short(account, fixed, output), held=held)
        granted = min(granted, room)
    share = granted / output.tokens if output.tokens else 0.0
    return Grant(
        True,
        "within its budget",
        granted,
        Amount(fixed.tokens + granted, fixed.cost_usd + output.cost_usd * share),
    )


def left_of(account: Account) -> tuple[int | None, float | None]:
    """Tokens and dollars that are neither spent nor reserved."""
    used = account.spent + account.reserved
    tokens = None if account.tokens_max is None else account.tokens_max - used.tokens
    cost = None if account.cost_max is None else account.cost_max - used.cost_usd
    return tokens, cost


def time_is_over(purse: BudgetShare) -> str:
    return (
        f"over budget: the {purse.minutes or 0:g} min for this run and all it belongs to are over"
        f" ({_setting('minutes', purse.agent_id)})"
    )


def _refusal(account: Account, now_ms: int, priced: bool) -> str | None:
    if account.ends_at_ms is not None and account.ends_at_ms <= now_ms:
        return (
            "over budget: the time for this run and all it belongs to is over"
            f" ({_setting('minutes', account.agent_id)})"
        )
    if account.cost_max is not None and not priced:
        return (
            "over budget: nobody knows what this model costs, and there is a budget in dollars"
            f" ({_setting('costUsd', account.agent_id)}); give the model a price under"
            " models.providers, install crossclaw[prices], or set a budget in tokens instead"
        )
    return None


def _room(account: Account, fixed: Amount, output: Amount) -> int:
    """How long an answer the account can pay, in tokens."""
    tokens, cost = left_of(account)
    room = output.tokens
    if tokens is not None:
        room = min(room, tokens - fixed.tokens)
    if cost is not None:
        for_answer = cost - fixed.cost_usd
        if for_answer < 0:
            return -1
        if for_answer < output.cost_usd:
            room = min(room, int(output.tokens * for_answer / output.cost_usd))
    return room


def _short(account: Account, fixed: Amount, output: Amount) -> str:
    """Which of the two is missing: tokens, unless they would do."""
    least = min(OUTPUT_TOKENS_MIN, output.tokens)
    tokens, _ = left_of(account)
    if tokens is not None and tokens - fixed.tokens < least:
        return (
            f"over budget: {account.spent.tokens:,} of {account.tokens_max:,} tokens are spent"
            f"{_reserved(f'{account.reserved.tokens:,}', bool(account.reserved.tokens))}, and the"
            f" next model call takes about {fixed.tokens + least:,}"
            f" ({_setting('tokens', account.agent_id)})"
        )
    needed = fixed.cost_usd + output.cost_usd * least / max(1, output.tokens)
    return (
        f"over budget: ${account.spent.cost_usd:.4f} of ${account.cost_max:.4f} are spent"
        f"{_reserved(f'${account.reserved.cost_usd:.4f}', account.reserved.cost_usd > 0)}, and the"
        f" next model call takes about ${needed:.4f} ({_setting('costUsd', account.agent_id)})"
    )


def _reserved(amount: str, there_is: bool) -> str:
    return f", {amount} are reserved for calls under way" if there_is else ""


def _setting(name: str, agent_id: str) -> str:
    return f"budget.{name} of agent {agent_id}, in agents.defaults or its entry in agents.list"
