"""A gateway with a budget, and short ways to see what was spent."""

from typing import Any

import msgspec

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.budgets import Account
from crossclaw.domain.messages import AssistantBlock, AssistantMessage, Text, ToolUse, Usage
from crossclaw.domain.runs import Run

PRICE = {"input": 10.0, "output": 20.0}  # dollars a million tokens


def config_with(
    budget: dict[str, Any] | None, agents: dict[str, dict[str, Any]] | None = None, **more: Any
) -> Config:
    """Everybody's budget, and what single agents have of their own."""
    named = {"main": {}, "librarian": {}, **(agents or {})}
    defaults = {"budget": budget} if budget else {}
    model = {"id": "test", "maxTokens": 500, "cost": PRICE}
    raw: dict[str, Any] = {
        "agents": {
            "defaults": defaults,
            "list": [{"id": name, **own} for name, own in named.items()],
        },
        "models": {"providers": {"scripted": {"models": [model]}}},
        **more,
    }
    return msgspec.convert(raw, Config)


def costing(
    words: str | list[ToolUse], tokens_in: int = 0, tokens_out: int = 0, *, cut: bool = False
) -> AssistantMessage:
    """An answer with what the service has counted."""
    blocks: list[AssistantBlock] = [Text(words)] if isinstance(words, str) else [*words]
    stop = "max_tokens" if cut else "end_turn" if isinstance(words, str) else "tool_use"
    usage = Usage(tokens_in, tokens_out)
    return AssistantMessage(blocks, usage=usage, stop_reason=stop)  # type: ignore[arg-type]


async def account_of(gateway: Gateway, run_id: str) -> Account:
    found = await gateway.ledger.find_account(run_id)
    assert found is not None
    return found


async def ended(gateway: Gateway, run_id: str) -> Run:
    run = await gateway.run_store.wait(run_id, timeout_s=3600)
    assert run is not None
    assert run.ended
    return run
