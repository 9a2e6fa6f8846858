"""The outbox: each reply is a row until a channel has taken it.

pending → sending → delivered | failed | uncertain. `sending` is stored before the channel is called;
a row found in that state after a crash was cut off. A platform that still knows our key gets it again; on
any other it becomes `uncertain`, is shown, and is never silently repeated. Only a process that dies
leaves such a row behind: whatever else happens between the claim and the channel, the row is
`pending` again.

What is longer than one message goes in pieces, each with its own state, the next one after the one before.
A reply for an account that is not open waits for it.
"""

import logging
from collections.abc import Awaitable, Callable
from math import inf

import anyio
import anyio.abc

from crossclaw.channels.accounts import AccountPlace, LiveAccount, LiveAccounts
from crossclaw.delivery.send_order import SendOrder, SendSlot
from crossclaw.delivery.sender import (
    ABSENT_MS_MAX,
    LAST_S,
    RETRY_FIRST_S,
    AsSaid,
    DeliverySender,
    MayDeliver,
)
from crossclaw.domain.addresses import Address
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Delivery

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 5.0  # a hint that was missed delays a reply by this much at most
PAGE = 200  # rows looked at together
OPENING_MS = 60_000  # after a start, for accounts to open: what is old is not given up before
CHATS_AT_ONCE = 64  # deliveries under way; one chat's messages go one by one, in order
CUT_OFF = "the process ended while the message was being sent"


GivesUp = Callable[[Address], Awaitable[bool]]
"""Whether this gateway may give up a delivery that has waited too long for an account that is not
open here."""


async def _here(_where: Address) -> bool:
    return True


class Outbox:
    def __init__(
        self,
        ledger: Ledger,
        accounts: LiveAccounts,
        clock: Clock,
        may_deliver: MayDeliver,
        as_said: AsSaid = lambda text, live, key, session: text,
        gives_up: GivesUp = _here,
    ) -> None:
        self._gives_up = gives_up
        self._is_shared = ledger.gateways is not None
        self._ledger = ledger
        self._accounts = accounts
        self._clock = clock
        self._began_at = clock.now_ms()
        self._sender = DeliverySender(ledger, accounts, clock, may_deliver, as_said)
        self.previews, self.paces = self._sender.previews, self._sender.paces
        self.may_deliver, self.as_said = may_deliver, as_said
        self._hint = anyio.Event()
        self._all = True
        """Whether every row is read next, or only those newer than `_newest`."""
        self._newest = 0
        self._next_at: int | None = None
        self._looked_s = -inf
        self._busy: set[Address] = set()
        self._came: set[Address] = set()
        """Busy chats for which something new was seen."""
        self._waiting: set[Address] = set()
        """Chats whose first message is not due yet."""
        self._attempts: set[anyio.CancelScope] = set()
        self._ends_at = inf
        """When the attempts under way are cut off, because the gateway is closing."""
        self._places = anyio.CapacityLimiter(CHATS_AT_ONCE)
        self._turns: dict[AccountPlace, SendOrder] = {}
        self._left_over: set[int] = set()
        """Rows that a dead process was sending, until it is known what their platform can do."""

    def wake(self) -> None:
        """Looks for new deliveries."""
        self._hint.set()

    def look_again(self) -> None:
        """Looks at all deliveries again: some may be due now, because a person acted or an account
        connected."""
        self._sender.away.clear()
        self._all = True
        self._hint.set()

    def is_silent(self, place: AccountPlace) -> bool:
        """Whether its platform has asked the account to wait."""
        return self._sender.silent_until.get(place, 0) > self._clock.now_ms()

    def turn_of(self, live: LiveAccount) -> SendSlot:
        return SendSlot(self._turns.setdefault(live.place, SendOrder()))

    @property
    def at_work(self) -> bool:
        """Whether a delivery is claimed and not settled."""
        return bool(self._attempts)

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        await self._find_left_over()
        async with anyio.create_task_group() as tasks:
            task_status.started()
            try:
                while True:
                    self._hint = anyio.Event()
                    try:
                        await self._start_due(tasks)
                    except CrossclawError as error:
                        self._looked_s = -inf
                        log.warning("the outbox will be looked at again: %s", error)
                        await anyio.sleep(RETRY_FIRST_S)
                    with anyio.move_on_after(self._pause_s()):
                        await self._hint.wait()
                    self._all = self._all or self._must_look_again()
            finally:
                self._ends_at = anyio.current_time() + LAST_S
                for attempt in self._attempts:
                    attempt.deadline = self._ends_at

    # ── what a dead process left ───────────────────────────────────────────────────────────────

    async def _find_left_over(self) -> None:
        after = 0
        while page := await self._ledger.list_open_deliveries(after=after, limit=PAGE):
            after = page[-1].delivery_id
            self._left_over |= {each.delivery_id for each in page if each.state == "sending"}

    async def _settle_left_over(self, delivery: Delivery, live: LiveAccount | None) -> None:
        """Settles a delivery that a dead process was sending: again if the platform still knows the
        key, or if nothing of it was on the way. An account other than the sender's knows nothing of
        it."""
        since = 0 if live is None or live.host is None else await live.host.speaks_since()
        if since is None:
            return  # looked at again when it is connected
        pieces = await self._ledger.list_pieces(delivery.delivery_id)
        under_way = next((each for each in pieces if each.state == "sending"), None)
        tried_at = (under_way.tried_at if under_way else delivery.tried_at) or delivery.updated_at
        same = delivery.created_at >= since
        known = live is not None and same and live.knows_key(tried_at, self._clock.now_ms())
        first = under_way is None or under_way.number == 1
        if first and await self._ledger.find_preview(delivery.delivery_key) is not None:
            known = True  # it was being changed, or is not to be found: looked at when it is tried
        if known or (pieces and under_way is None):
            await self._sender.settle(delivery, "pending", under_way)
        else:
            await self._sender.settle(delivery, "uncertain", under_way, error=CUT_OFF)
        self._left_over.discard(delivery.delivery_id)

    # ── what is due ────────────────────────────────────────────────────────────────────────────

    async def _start_due(self, tasks: anyio.abc.TaskGroup) -> None:
        """Starts the deliveries that are due, the first of each chat; looks at all of them, or only at the new
        ones."""
        now, after = self._clock.now_ms(), 0 if self._all else self._newest
        if self._all:
            self._all, self._next_at, self._looked_s = False, None, anyio.current_time()
        seen: set[Address] = set()
        while page := await self._ledger.list_open_deliveries(after=after, limit=PAGE):
            after = page[-1].delivery_id
            for delivery in page:
                chat = delivery.address.chat
                if chat in self._busy:
                    self._came.add(chat)
                if chat in seen or chat in self._busy:
                    continue
                seen.add(chat)
                await self._start_first(tasks, delivery, now)
            self._newest = max(self._newest, after)

    async def _start_first(self, tasks: anyio.abc.TaskGroup, delivery: Delivery, now: int) -> None:
        """Starts the first delivery of a chat, which is an older one if one waits there."""
        chat = delivery.address.chat
        if chat in self._waiting:
            first = await self._ledger.find_open_delivery(chat)
            if first is None:
                return
            delivery = first
        if delivery.state == "sending":
            self._waiting.add(chat)
            await self._look_at_left_over(delivery)
            return  # else its attempt is being settled
        if not self._is_due(delivery, now):
            return
        if self._accounts.find(delivery.address) is None and not await self._gives_up(chat):
            self._waiting.add(chat)
            return
        self._busy.add(chat)
        tasks.start_soon(self._deliver_chat, delivery, name=f"delivery {delivery.delivery_id}")

    def _is_due(self, delivery: Delivery, now: int) -> bool:
        """Whether a delivery is due; if not, notes when it will be and that its chat waits."""
        chat, due_at = delivery.address.chat, self._due_at(delivery, now)
        if due_at <= now:
            self._waiting.discard(chat)
            return True
        self._waiting.add(chat)
        self._next_at = min(self._next_at or due_at, due_at)
        return False

    async def _look_at_left_over(self, delivery: Delivery) -> None:
        """Settles a delivery of a dead process once its account is open, or surely will not be."""
        live = self._accounts.find(delivery.address)
        if self._is_shared:
            # Whoever has the account sends for it: what it does not send itself, one has left that is gone.
            if live is not None:
                await self._settle_left_over(delivery, live)
            return
        if delivery.delivery_id not in self._left_over:
            return
        if live is not None or not self._accounts.may_open(delivery.address):
            await self._settle_left_over(delivery, live)

    def _due_at(self, delivery: Delivery, now: int) -> int:
        """When a delivery is due. One for an account that is not open waits for it, though not for
        ever."""
        if self._accounts.find(delivery.address) is None:
            ends = delivery.created_at + ABSENT_MS_MAX
            if self._accounts.may_open(delivery.address):
                ends = max(ends, self._began_at + OPENING_MS)
            return delivery.not_before if ends <= now else now + int(LOOK_AGAIN_S * 1000)
        place = self._accounts.place_of(delivery.address)
        return max(delivery.not_before, self._sender.due_again(place) if place else 0)

    def _must_look_again(self) -> bool:
        """Whether it is time to read all rows again, however many hints of new ones there are."""
        due = self._next_at is not None and self._next_at <= self._clock.now_ms()
        return due or anyio.current_time() - self._looked_s >= LOOK_AGAIN_S

    def _pause_s(self) -> float:
        if self._next_at is None:
            return LOOK_AGAIN_S
        return min(LOOK_AGAIN_S, max(0.01, (self._next_at - self._clock.now_ms()) / 1000))

    # ── one delivery ───────────────────────────────────────────────────────────────────────────

    async def _deliver_chat(self, delivery: Delivery) -> None:
        """Delivers all that is due in one chat, one after the other, without reading the rest of
        the outbox."""
        chat, following = delivery.address.chat, delivery
        try:
            while await self._deliver(following):
                found = await self._next_in(chat)
                if found is None or not self._is_due(found, self._clock.now_ms()):
                    return
                following = found
        except CrossclawError as error:
            log.warning("the chat will be looked at again: %s", error)
        finally:
            self._busy.discard(chat)
            self._hint.set()

    async def _next_in(self, chat: Address) -> Delivery | None:
        """The next delivery of a chat. Looks again if something was put there meanwhile."""
        while True:
            self._came.discard(chat)
            found = await self._ledger.find_open_delivery(chat)
            if found is not None or chat not in self._came:
                return found if found is not None and found.state == "pending" else None

    async def _deliver(self, delivery: Delivery) -> bool:
        """Tries a delivery; False if something failed, and it is tried again after a while."""
        try:
            live = self._accounts.find(delivery.address)
            if live is not None:
                await self._sender.keep_pace(delivery, live)
            if live is None or live.account.knows_key_for_s() > 0:
                async with self._places:
                    await self._attempt(delivery, None)
            else:
                async with self.turn_of(live) as turn:
                    await self._attempt(delivery, turn)
        except CrossclawError as error:
            log.warning("delivery %s will be looked at again: %s", delivery.delivery_id, error)
            await anyio.sleep(RETRY_FIRST_S)
            self._all = True
            return False
        return True

    async def _attempt(self, delivery: Delivery, turn: SendSlot | None) -> None:
        """Carries a delivery. A gateway that closes does not cut it off from the claim on, if it does not take
        long: nobody could say then whether it arrived."""
        with anyio.CancelScope(shield=True, deadline=self._ends_at) as attempt:
            self._attempts.add(attempt)
            try:
                await self._sender.carry(delivery, turn)
            finally:
                self._attempts.discard(attempt)
