"""A fault at the ledger of an open gateway: what a step meets on its way there, or something that happens meanwhile."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crossclaw.app import Gateway
from crossclaw.ledger.operations import Op

Step = Callable[..., Awaitable[list[Any]]]


def interpose(
    monkeypatch: pytest.MonkeyPatch,
    gateway: Gateway,
    kind: type[Op[Any]],
    step: Step,
) -> None:
    """Steps with an operation of this kind become `step(commit, *ops)`, which stores them by `commit`, or does not."""
    commit = gateway.ledger.commit

    async def interposed(*ops: Op[Any]) -> list[Any]:  # `do` writes by it too
        if any(isinstance(op, kind) for op in ops):
            return await step(commit, *ops)
        return await commit(*ops)

    monkeypatch.setattr(gateway.ledger, "commit", interposed)
