"""The outbox: each reply is a row until a channel has taken it.

pending → sending → delivered | failed | uncertain. `sending` is stored before the channel is called;
a row found in that state after a crash was cut off. A platform that knows our keys gets it again; on
any other it becomes `uncertain`, is shown, and is never silently repeated. Only a process that dies
leaves such a row behind: whatever else happens between the claim and the channel, the row is
`pending` again.
"""

import logging
from collections.abc import Awaitable, Callable
from math import inf

import anyio
import anyio.abc
import anyio.lowlevel

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Piece
from crossclaw.domain.addresses import Address
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import (
    Busy,
    CrossclawError,
    DeliveryError,
    DeliveryUncertain,
    StoreError,
)
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    Delivery,
    DeliveryState,
    SettleDelivery,
    TakeDelivery,
    Taken,
)
from crossclaw.policy.decision import Decision
from crossclaw.policy.send import BLOCKED

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 8  # with the waits below, some ten minutes: longer than most outages of a platform
ACCOUNT_S_MAX = 60.0  # accounts are opened within seconds of a start; one that is not will not be
LAST_S = 2.0  # for what is being sent when the house closes
RETRY_FIRST_S = 2.0
RETRY_MAX_S = 300.0
LOOK_AGAIN_S = 5.0  # a hint that was missed delays a reply by this much at most
PAGE = 200  # rows looked at together
CHATS_AT_ONCE = 64  # deliveries under way; one chat's messages go one by one, in order


MayDeliver = Callable[[Taken], Awaitable[Decision]]
"""The send policy at the moment of delivery: it may have changed since the reply was written."""


class Outbox:
    def __init__(
        self,
        ledger: Ledger,
        accounts: LiveAccounts,
        clock: Clock,
        may_deliver: MayDeliver,
    ) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._clock = clock
        self._may_deliver = may_deliver
        self._hint = anyio.Event()
        self._busy: set[Address] = set()
        self._attempts: set[anyio.CancelScope] = set()
        self._cut_off: dict[int, Delivery] = {}
        self._began_at = 0.0
        self._ends_at = inf
        """When the attempts under way are cut off: the gateway is closing."""
        self._places = anyio.CapacityLimiter(CHATS_AT_ONCE)

    def wake(self) -> None:
        self._hint.set()

    @property
    def at_work(self) -> bool:
        """Whether a delivery is claimed and not settled."""
        return bool(self._attempts)

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        await self._find_cut_off()
        async with anyio.create_task_group() as tasks:
            task_status.started()
            try:
                while True:
                    self._hint = anyio.Event()
                    try:
                        next_at = await self._start_due(tasks)
                    except CrossclawError as error:
                        next_at = None
                        log.warning("the outbox will be looked at again: %s", error)
                    with anyio.move_on_after(self._pause_s(next_at)):
                        await self._hint.wait()
            finally:
                self._ends_at = anyio.current_time() + LAST_S
                for attempt in self._attempts:
                    attempt.deadline = self._ends_at

    async def _find_cut_off(self) -> None:
        """Rows that a dead process was sending."""
        after = 0
        while page := await self._ledger.list_open_deliveries(after=after, limit=PAGE):
            after = page[-1].delivery_id
            for delivery in page:
                if delivery.state == "sending":
                    self._cut_off[delivery.delivery_id] = delivery
        self._began_at = anyio.current_time()
        await self._settle_cut_off()

    async def _settle_cut_off(self) -> None:
        """Each as soon as its account is open and can be asked whether its platform still knows the key."""
        too_late = anyio.current_time() - self._began_at > ACCOUNT_S_MAX
        for delivery in list(self._cut_off.values()):
            live = self._accounts.find(delivery.address)
            if live is None and not too_late:
                continue
            age_s = (self._clock.now_ms() - delivery.updated_at) / 1000
            if live is not None and age_s < live.account.knows_key_for_s():
                await self._settle(delivery, "pending")
            else:
                words = "the process ended while the message was being sent"
                await self._settle(delivery, "uncertain", error=words)
            del self._cut_off[delivery.delivery_id]

    async def _start_due(self, tasks: anyio.abc.TaskGroup) -> int | None:
        """Start what is due, the first of each chat. Answers when the next retry is due."""
        await self._settle_cut_off()
        now, after = self._clock.now_ms(), 0
        seen: set[Address] = set()
        next_at: int | None = None
        while page := await self._ledger.list_open_deliveries(after=after, limit=PAGE):
            after = page[-1].delivery_id
            for delivery in page:
                chat = delivery.address.chat
                if chat in seen or chat in self._busy:
                    continue
                seen.add(chat)
                if delivery.state == "sending":
                    continue  # its attempt is being settled
                if delivery.not_before > now:
                    next_at = min(next_at or delivery.not_before, delivery.not_before)
                    continue
                self._busy.add(chat)
                tasks.start_soon(self._deliver, delivery, name=f"delivery {delivery.delivery_id}")
        return next_at

    def _pause_s(self, next_at: int | None) -> float:
        if next_at is None:
            return LOOK_AGAIN_S
        return min(LOOK_AGAIN_S, max(0.01, (next_at - self._clock.now_ms()) / 1000))

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            async with self._places:
                await self._attempt(delivery)
        except CrossclawError as error:
            log.warning("delivery %s will be looked at again: %s", delivery.delivery_id, error)
            await anyio.sleep(RETRY_FIRST_S)
        finally:
            self._busy.discard(delivery.address.chat)
            self._hint.set()

    async def _attempt(self, delivery: Delivery) -> None:
        """From the claim on not cut off by a gateway that closes, if it does not take long: nobody could
        say then whether it arrived."""
        with anyio.CancelScope(shield=True, deadline=self._ends_at) as attempt:
            self._attempts.add(attempt)
            try:
                await self._claim_and_send(delivery)
            finally:
                self._attempts.discard(attempt)

    async def _claim_and_send(self, delivery: Delivery) -> None:
        take = TakeDelivery(delivery_id=delivery.delivery_id, at=self._clock.now_ms())
        with anyio.CancelScope(shield=True):  # a claim that nobody hears of is never undone
            taken = await self._ledger.do(take)
        if taken is None:
            return
        try:
            live = await self._account_for(taken)
        except BaseException:
            await self._undo_claim(taken.delivery)
            raise
        if live is not None:
            await self._send(taken.delivery, live)

    async def _undo_claim(self, delivery: Delivery) -> None:
        """Claimed and not tried: it is as it was. Not for ever, should the ledger not write: the gateway
        may be closing."""
        with anyio.move_on_after(LAST_S, shield=True):
            await self._settle(delivery, "pending", tried=False)

    async def _account_for(self, taken: Taken) -> LiveAccount | None:
        """Who delivers it; None when it is settled already, because nobody may or can."""
        delivery = taken.delivery
        live = self._accounts.find(delivery.address)
        if live is None:
            error = f"no channel {delivery.address.channel!r} is set up"
            await self._settle(delivery, "failed", error=error)
        elif not (await self._may_deliver(taken)).allowed:
            await self._settle(delivery, "failed", error=BLOCKED)
        else:
            await anyio.lowlevel.checkpoint_if_cancelled()  # last moment at which nothing was tried
            return live
        return None

    async def _send(self, delivery: Delivery, live: LiveAccount) -> None:
        piece = Piece(
            address=delivery.address,
            text=delivery.text,
            formatted=delivery.text,
            delivery_key=delivery.delivery_key,
        )
        try:
            platform_id = await live.account.send(piece)
        except DeliveryUncertain as error:
            known = live.account.knows_key_for_s() > 0
            await self._retry_or_end(delivery, error, known, "uncertain")
        except DeliveryError as error:
            await self._retry_or_end(delivery, error, error.retryable, "failed")
        except Exception as error:
            log.exception("channel %s failed", live.channel)
            await self._settle(delivery, "uncertain", error=f"{type(error).__name__}: {error}")
        else:
            await self._settle(delivery, "delivered", platform_id=platform_id)

    async def _retry_or_end(
        self, delivery: Delivery, error: DeliveryError, again: bool, end: DeliveryState
    ) -> None:
        if not again or delivery.attempt >= ATTEMPTS_MAX:
            return await self._settle(delivery, end, error=str(error))
        wait_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** (delivery.attempt - 1))
        wait_s = max(wait_s, error.retry_after_s or 0.0)
        await self._settle(
            delivery,
            "pending",
            error=str(error),
            not_before=self._clock.now_ms() + int(wait_s * 1000),
        )
        return None

    async def _settle(
        self,
        delivery: Delivery,
        state: DeliveryState,
        *,
        error: str | None = None,
        platform_id: str | None = None,
        not_before: int = 0,
        tried: bool = True,
    ) -> None:
        """The outcome is known; it must be stored, however long the ledger cannot write."""
        settle = SettleDelivery(
            delivery_id=delivery.delivery_id,
            state=state,
            at=self._clock.now_ms(),
            not_before=not_before,
            error=error,
            platform_id=platform_id,
            tried=tried,
        )
        if state in ("failed", "uncertain") and error != BLOCKED:
            log.warning("a message of %s did not surely arrive: %s", delivery.key.text, error)
        while True:
            try:
                with anyio.CancelScope(shield=True):
                    await self._ledger.do(settle)
                return
            except (StoreError, Busy) as trouble:
                log.warning("delivery %s waits for the ledger: %s", delivery.delivery_id, trouble)
                await anyio.sleep(RETRY_FIRST_S)
