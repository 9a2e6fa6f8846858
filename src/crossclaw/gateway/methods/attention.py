"""attention.list and what helps: runs.retry, deliveries.resend, attention.dismiss. Ours: OpenClaw has none."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from crossclaw.domain.aliases import Callback, IdText
from crossclaw.domain.attention import AttentionRow, AttentionSource
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import NotFound
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.map import require_person
from crossclaw.ledger.attention import Dismiss, Resend
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.pieces import MarkDelivered
from crossclaw.sessions.attention import newest_first
from crossclaw.sessions.retrying import Retries

LIST_MAX = 500


class AttentionParams(Params, frozen=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = 200
    kinds: list[str] | None = None


class AttentionResult(Result, frozen=True):
    ts: int
    count: int
    rows: list[AttentionRow]


class DismissParams(Params, frozen=True):
    ids: Annotated[list[IdText], msgspec.Meta(min_length=1, max_length=LIST_MAX)]


class DismissResult(Result, frozen=True):
    ok: bool
    dismissed: int


class RetryParams(Params, frozen=True):
    run_id: IdText


class RetryResult(Result, frozen=True):
    run_id: str
    session_key: str


class ResendParams(Params, frozen=True):
    id: Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class ResendResult(Result, frozen=True):
    ok: bool


class AttentionMethods:
    def __init__(
        self,
        ledger: Ledger,
        resolver: Resolver,
        retries: Retries,
        clock: Clock,
        wake_outbox: Callback,
        sources: Sequence[AttentionSource],
    ) -> None:
        self._ledger = ledger
        self._resolver = resolver
        self._retries = retries
        self._clock = clock
        self._wake_outbox = wake_outbox
        self._sources = sources

    @method(
        "attention.list",
        "operator.read",
        "read",
        "Ours: what failed, hangs or asks for a yes, each with its reason and what helps.",
    )
    async def list(self, caller: Caller, params: AttentionParams) -> AttentionResult:
        require_person(self._resolver, caller)
        rows = [row for source in self._sources for row in await source()]
        if params.kinds is not None:
            rows = [row for row in rows if row.kind in params.kinds]
        gone = await self._ledger.monitoring.dismissed([row.id for row in rows])
        left = newest_first([row for row in rows if row.id not in gone])
        return AttentionResult(ts=self._clock.now_ms(), count=len(left), rows=left[: params.limit])

    @method(
        "attention.dismiss",
        "operator.write",
        "change",
        "Ours: put rows out of sight; the same thing happening again is a new row.",
    )
    async def dismiss(self, caller: Caller, params: DismissParams) -> DismissResult:
        require_person(self._resolver, caller)
        at = self._clock.now_ms()
        await self._ledger.commit(*(Dismiss(name=each, agent_id="", at=at) for each in params.ids))
        return DismissResult(ok=True, dismissed=len(params.ids))

    @method(
        "runs.retry",
        "operator.write",
        "run",
        "Ours: say once more what a run that did not end well was asked; asked twice, it is one run.",
    )
    async def retry(self, caller: Caller, params: RetryParams) -> RetryResult:
        require_person(self._resolver, caller)
        accepted = await self._retries.retry(caller, params.run_id)
        return RetryResult(run_id=accepted.run_id, session_key=accepted.key.shown)

    @method(
        "deliveries.resend",
        "operator.write",
        "change",
        "Ours: try a reply again that failed or of which nobody knows whether it arrived.",
    )
    async def resend(self, caller: Caller, params: ResendParams) -> ResendResult:
        require_person(self._resolver, caller)
        if not await self._ledger.do(Resend(delivery_id=params.id, at=self._clock.now_ms())):
            raise NotFound(f"no delivery {params.id} has failed or is uncertain")
        self._wake_outbox()
        return ResendResult(ok=True)

    @method(
        "deliveries.delivered",
        "operator.write",
        "change",
        "Ours: a reply of which nobody knew whether it arrived has arrived; what of it was not tried yet goes out.",
    )
    async def delivered(self, caller: Caller, params: ResendParams) -> ResendResult:
        require_person(self._resolver, caller)
        op = MarkDelivered(delivery_id=params.id, at=self._clock.now_ms())
        if not await self._ledger.do(op):
            raise NotFound(f"no delivery {params.id} is uncertain")
        self._wake_outbox()
        return ResendResult(ok=True)
