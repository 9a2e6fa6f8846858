"""gateway.stop: the gateway leaves, at once or when what is under way has ended."""

from collections.abc import Callable
from typing import Annotated

import msgspec

from crossclaw.domain.errors import Invalid
from crossclaw.door.registry import Caller, Params, Result, method

DRAIN_MS = 60_000  # most runs are over by then; the others go on at the next start
DRAIN_MS_MAX = 24 * 3600 * 1000

Leave = Callable[[float], None]
"""Stops the gateway; called with the seconds that runs under way have."""


class StopParams(Params, frozen=True):
    drain: bool = False
    """Whether runs under way may end first."""
    timeout_ms: Annotated[int, msgspec.Meta(ge=0, le=DRAIN_MS_MAX)] = DRAIN_MS
    """How long they may take."""


class StopResult(Result, frozen=True):
    ok: bool
    runs_under_way: int


class LeavingMethods:
    def __init__(self, leave: Leave | None, runs_under_way: Callable[[], int]) -> None:
        self._leave = leave
        self._runs_under_way = runs_under_way

    @method(
        "gateway.stop",
        "operator.admin",
        "change",
        "The gateway leaves; with `drain`, when the runs under way have ended.",
    )
    async def stop(self, caller: Caller, params: StopParams) -> StopResult:
        if self._leave is None:
            raise Invalid("no gateway serves here: this call opened the store for itself alone")
        self._leave(params.timeout_ms / 1000 if params.drain else 0.0)
        return StopResult(ok=True, runs_under_way=self._runs_under_way())
