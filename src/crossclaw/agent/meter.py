"""The meter: under a budget, no model is called before its cost is reserved.

It stands between a run and every model that the run may ask: the chosen one, its fallbacks, the one
that writes summaries. What a call has cost is held until an entry of the run, or the next call,
stores it. A run without a budget has no meter.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import anyio
import anyio.lowlevel
import msgspec

from crossclaw.agent.weight import weigh_request
from crossclaw.agent.wrapping import wrapped
from crossclaw.domain.budgets import Amount, BudgetShare, Grant
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, OverBudget
from crossclaw.domain.messages import AssistantMessage, Usage
from crossclaw.domain.models import BYTES_A_TOKEN
from crossclaw.domain.runs import Run
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Reserve, Spend
from crossclaw.providers.contract import (
    THINKING_TOKENS,
    LostSpending,
    ModelPiece,
    ModelRequest,
    Provider,
    TellPiece,
    TextPiece,
    ThinkingPiece,
)
from crossclaw.providers.fallback import Find

WAIT_S = 120.0  # for others' calls of one budget; most take seconds, and whoever asked waits too
AGAIN_S = 1.0  # between two looks at the account

PriceOf = Callable[[str, Usage], Awaitable[float | None]]
"""What so much of `provider/model` costs; None where nobody knows."""


RoomOf = Callable[[str, ModelRequest], int]
"""How many tokens of thinking `provider/model` may use beside the text of an answer."""


def usual_room(_address: str, request: ModelRequest) -> int:
    return THINKING_TOKENS[request.thinking]


class Meters:
    def __init__(
        self, ledger: Ledger, price: PriceOf, clock: Clock, room_of: RoomOf = usual_room
    ) -> None:
        self._ledger = ledger
        self._price = price
        self._clock = clock
        self._room_of = room_of

    def of(self, run: Run) -> "Meter | None":
        purse = run.cause.purse
        if purse is None:
            return None
        return Meter(self._ledger, self._price, self._clock, run, purse, self._room_of)


class Meter:
    def __init__(
        self,
        ledger: Ledger,
        price: PriceOf,
        clock: Clock,
        run: Run,
        purse: BudgetShare,
        room_of: RoomOf = usual_room,
    ) -> None:
        self._room_of = room_of
        self._ledger = ledger
        self._price = price
        self._clock = clock
        self._run = run
        self._purse = purse
        self._unsettled = Amount()
        self._heavier = 1.0
        """How much larger a prompt was than estimated, when a service last counted one."""

    def on(self, find: Find) -> Find:
        """Wraps each provider that `find` returns in the meter."""
        return wrapped(find, lambda provider, address: Metered(provider, address, self))

    def take(self) -> Amount:
        """Takes what is spent but not stored yet; the caller must store it."""
        amount, self._unsettled = self._unsettled, Amount()
        return amount

    async def reserve(self, address: str, request: ModelRequest, weight: int) -> Grant:
        prompt, thinking = int(weight * self._heavier), self._room_of(address, request)
        said = request.output_tokens_max
        fixed_cost = await self._price(address, Usage(input=prompt, output=thinking))
        wanted = Reserve(
            fence=self._run.fence,
            account_id=self._purse.account_id,
            fixed=Amount(prompt + thinking, fixed_cost or 0.0),
            output=Amount(said, await self._price(address, Usage(output=said)) or 0.0),
            at=self._clock.now_ms(),
            priced=fixed_cost is not None,
        )
        with anyio.move_on_after(WAIT_S) as patience:
            return await self._granted(wanted)
        assert patience.cancelled_caught
        raise OverBudget(
            f"over budget: for {WAIT_S:g} s other runs of the same budget have held what is left of it; "
            f"say it again when they have ended, or raise the budget of agent {self._purse.agent_id}"
        )

    async def _granted(self, wanted: Reserve) -> Grant:
        """Reserves the cost; raises if the budget forbids it. While others hold reservations it
        asks again, since those are released when their calls end."""
        while True:
            await anyio.lowlevel.checkpoint_if_cancelled()
            with self._settling() as spent:
                asked = msgspec.structs.replace(wanted, at=self._clock.now_ms(), spent=spent)
                grant = await self._ledger.do(asked)
            if grant.allowed:
                return grant
            if not grant.held:
                raise OverBudget(grant.reason)
            await anyio.sleep(AGAIN_S)

    async def settle(self) -> None:
        """Stores what was spent, when the run stops and no entry follows that would carry it."""
        if self._unsettled:
            with self._settling() as spent:
                await self._ledger.do(Spend(fence=self._run.fence, spent=spent))

    @contextmanager
    def _settling(self) -> Generator[Amount]:
        """Takes the amount to store, shielded from cancellation: after a half-done step nobody
        could say whether it was counted. Puts it back if storing fails."""
        spent = self.take()
        try:
            with anyio.CancelScope(shield=True):
                yield spent
        except CrossclawError:  # nothing was stored
            self._unsettled += spent
            raise

    async def count(self, address: str, weight: int, usage: Usage) -> None:
        self._heavier = max(1.0, usage.prompt / weight)
        cost = await self._price(address, usage) if usage.cost is None else usage.cost
        self._unsettled += Amount(usage.prompt + usage.output, cost or 0.0)

    def count_cut_off(self, grant: Grant, weight: int, said_chars: int) -> None:
        """Counts an estimate for a call that was stopped, whose cost no service reports: its input
        and the text so far."""
        tokens = int(weight * self._heavier) + said_chars // BYTES_A_TOKEN
        share = min(1.0, tokens / max(1, grant.reserved.tokens))
        self._unsettled += Amount(tokens, grant.reserved.cost_usd * share)


class Metered:
    """A provider whose every call is counted against the budget."""

    def __init__(self, provider: Provider, address: str, meter: Meter) -> None:
        self.name = provider.name
        self._provider = provider
        self._address = address
        self._meter = meter

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        weight = weigh_request(request)  # once: a long conversation takes milliseconds
        grant = await self._meter.reserve(self._address, request, weight)
        await anyio.lowlevel.checkpoint_if_cancelled()  # who is stopped by now has asked nothing
        asked = msgspec.structs.replace(request, output_tokens_max=grant.output_tokens)
        counted = _CountedPieces(tell)
        try:
            answer = await self._provider.complete(asked, counted)
        except anyio.get_cancelled_exc_class():
            if not counted.lost:
                self._meter.count_cut_off(grant, weight, counted.chars)
            raise
        finally:
            with anyio.CancelScope(shield=True):  # it has been spent, whatever becomes of the run
                for usage in counted.lost:
                    await self._meter.count(self._address, weight, usage)
        with anyio.CancelScope(shield=True):
            await self._meter.count(self._address, weight, answer.usage or Usage())
        return answer

    async def close(self) -> None:
        await self._provider.close()


class _CountedPieces:
    """Hands on a call's pieces, and counts what was said and what was lost."""

    def __init__(self, tell: TellPiece) -> None:
        self._tell = tell
        self.chars = 0
        self.lost: list[Usage] = []

    def __call__(self, piece: ModelPiece) -> None:
        match piece:
            case LostSpending(usage=usage):
                self.lost.append(usage)
            case TextPiece(text=text) | ThinkingPiece(thinking=text):
                self.chars += len(text)
        self._tell(piece)
