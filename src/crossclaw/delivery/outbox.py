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
import anyio.lowlevel

from crossclaw.channels.accounts import LiveAccount, LiveAccounts, Place
from crossclaw.channels.contract import Piece
from crossclaw.delivery.pacing import Paces
from crossclaw.delivery.pieces import pieces_of
from crossclaw.delivery.turns import Turn, Turns
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
    Op,
    SettleDelivery,
    TakeDelivery,
    Taken,
)
from crossclaw.ledger.pieces import DeliveryPiece, SettlePiece, SplitDelivery, TakePiece
from crossclaw.policy.decision import Decision
from crossclaw.policy.send import BLOCKED

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 8  # with the waits below, some ten minutes: longer than most outages of a platform
LAST_S = 2.0  # for what is being sent when the house closes
RETRY_FIRST_S = 2.0
RETRY_MAX_S = 300.0
LOOK_AGAIN_S = 5.0  # a hint that was missed delays a reply by this much at most
PAGE = 200  # rows looked at together
CHATS_AT_ONCE = 64  # deliveries under way; one chat's messages go one by one, in order
ABSENT_MS_MAX = (
    7 * 86_400_000
)  # for an account that is not open; older words are of no use to anybody
CUT_OFF = "the process ended while the message was being sent"
FORGOTTEN = "an earlier attempt may have arrived, and the platform recognises it no longer"


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
        self._ends_at = inf
        """When the attempts under way are cut off: the gateway is closing."""
        self._places = anyio.CapacityLimiter(CHATS_AT_ONCE)
        self._turns: dict[Place, Turns] = {}
        self._left_over: set[int] = set()
        """Rows that a dead process was sending, until it is known what its platform can do."""
        self._silent_until: dict[Place, int] = {}
        """Accounts that their platform has asked to be silent."""
        self._paces = Paces()

    def wake(self) -> None:
        self._hint.set()

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

    # ── what a dead process left ───────────────────────────────────────────────────────────────

    async def _find_left_over(self) -> None:
        after = 0
        while page := await self._ledger.list_open_deliveries(after=after, limit=PAGE):
            after = page[-1].delivery_id
            self._left_over |= {each.delivery_id for each in page if each.state == "sending"}

    async def _settle_left_over(self, delivery: Delivery, live: LiveAccount | None) -> None:
        """Again where its platform still knows the key, or where nothing of it was on the way."""
        pieces = await self._ledger.list_pieces(delivery.delivery_id)
        under_way = next((each for each in pieces if each.state == "sending"), None)
        tried_at = under_way.tried_at if under_way else delivery.tried_at
        age_s = (self._clock.now_ms() - (tried_at or delivery.updated_at)) / 1000
        known = live is not None and age_s < live.account.knows_key_for_s()
        if known or (pieces and under_way is None):
            await self._settle(delivery, "pending", under_way)
        else:
            await self._settle(delivery, "uncertain", under_way, error=CUT_OFF)
        self._left_over.discard(delivery.delivery_id)

    # ── what is due ────────────────────────────────────────────────────────────────────────────

    async def _start_due(self, tasks: anyio.abc.TaskGroup) -> int | None:
        """Start what is due, the first of each chat. Answers when the next one is."""
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
                    await self._look_at_left_over(delivery)
                    continue  # else its attempt is being settled
                due_at = self._due_at(delivery, now)
                if due_at > now:
                    next_at = min(next_at or due_at, due_at)
                    continue
                self._busy.add(chat)
                tasks.start_soon(self._deliver, delivery, name=f"delivery {delivery.delivery_id}")
        return next_at

    async def _look_at_left_over(self, delivery: Delivery) -> None:
        """It waits until its account is open, or is surely not to be."""
        if delivery.delivery_id not in self._left_over:
            return
        live = self._accounts.find(delivery.address)
        if live is not None or not self._accounts.may_open(delivery.address):
            await self._settle_left_over(delivery, live)

    def _due_at(self, delivery: Delivery, now: int) -> int:
        """A message for an account that is not open waits for it, though not for ever."""
        if self._accounts.find(delivery.address) is None:
            ends = delivery.created_at + ABSENT_MS_MAX
            return delivery.not_before if ends <= now else now + int(LOOK_AGAIN_S * 1000)
        place = self._accounts.place_of(delivery.address)
        silent = self._silent_until.get(place, 0) if place else 0
        return max(delivery.not_before, silent)

    def _pause_s(self, next_at: int | None) -> float:
        if next_at is None:
            return LOOK_AGAIN_S
        return min(LOOK_AGAIN_S, max(0.01, (next_at - self._clock.now_ms()) / 1000))

    # ── one delivery ───────────────────────────────────────────────────────────────────────────

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            live = self._accounts.find(delivery.address)
            if live is not None:
                await self._keep_pace(delivery, live)
            if live is None or live.account.knows_key_for_s() > 0:
                async with self._places:
                    await self._attempt(delivery, None)
            else:
                async with Turn(self._turns.setdefault(live.place, Turns())) as turn:
                    await self._attempt(delivery, turn)
        except CrossclawError as error:
            log.warning("delivery %s will be looked at again: %s", delivery.delivery_id, error)
            await anyio.sleep(RETRY_FIRST_S)
        finally:
            self._busy.discard(delivery.address.chat)
            self._hint.set()

    async def _keep_pace(self, delivery: Delivery, live: LiveAccount) -> None:
        """No faster than the platform takes messages, to one chat and in all."""
        now_s, traits = anyio.current_time(), live.traits
        chat = (*live.place, delivery.address.to)
        wait_s = max(
            self._paces.reserve(live.place, traits.rate, now_s),
            self._paces.reserve(chat, traits.chat_rate, now_s),
        )
        if wait_s > 0:
            await anyio.sleep(wait_s)

    async def _attempt(self, delivery: Delivery, turn: Turn | None) -> None:
        """From the claim on not cut off by a gateway that closes, if it does not take long: nobody could
        say then whether it arrived."""
        with anyio.CancelScope(shield=True, deadline=self._ends_at) as attempt:
            self._attempts.add(attempt)
            try:
                await self._claim_and_send(delivery, turn)
            finally:
                self._attempts.discard(attempt)

    async def _claim_and_send(self, delivery: Delivery, turn: Turn | None) -> None:
        take = TakeDelivery(delivery_id=delivery.delivery_id, at=self._clock.now_ms())
        with anyio.CancelScope(shield=True):  # a claim that nobody hears of is never undone
            taken = await self._ledger.do(take)
        if taken is None:
            return
        try:
            live = await self._account_for(taken)
            pieces = [] if live is None else await self._split(taken.delivery, live)
        except BaseException:
            await self._undo_claim(taken.delivery)
            raise
        if live is None:
            return
        if pieces:
            await self._send_pieces(taken.delivery, live, pieces, turn)
        elif await self._send(taken.delivery, live, None) is not None:
            await self._note_sent(live)

    async def _undo_claim(self, delivery: Delivery) -> None:
        """Claimed and not tried: it is as it was. Not for ever, should the ledger not write: the gateway
        may be closing."""
        with anyio.move_on_after(LAST_S, shield=True):
            await self._settle(delivery, "pending", tried=False)

    async def _account_for(self, taken: Taken) -> LiveAccount | None:
        """Who delivers it; None when it is settled already, because nobody may or can."""
        delivery = taken.delivery
        live = self._accounts.find(delivery.address)
        if live is None and self._clock.now_ms() - delivery.created_at < ABSENT_MS_MAX:
            await self._settle(delivery, "pending", tried=False)
        elif live is None:
            error = f"no channel {delivery.address.channel!r} is set up"
            await self._settle(delivery, "failed", error=error)
        elif not (await self._may_deliver(taken)).allowed:
            await self._settle(delivery, "failed", error=BLOCKED)
        else:
            await anyio.lowlevel.checkpoint_if_cancelled()  # last moment at which nothing was tried
            return live
        return None

    async def _split(self, delivery: Delivery, live: LiveAccount) -> list[DeliveryPiece]:
        """As it was split when it was first tried: what has arrived of it is not sent in another form."""
        made = pieces_of(delivery.text, live)
        if len(made) == 1 and delivery.attempt == 1:
            return []
        pieces = tuple(
            DeliveryPiece(
                delivery_id=delivery.delivery_id,
                number=number,
                of=len(made),
                text=each.text,
                formatted=each.formatted,
            )
            for number, each in enumerate(made, 1)
        )
        return await self._ledger.do(SplitDelivery(delivery_id=delivery.delivery_id, pieces=pieces))

    async def _send_pieces(
        self,
        delivery: Delivery,
        live: LiveAccount,
        pieces: list[DeliveryPiece],
        turn: Turn | None,
    ) -> None:
        left = [each for each in pieces if each.state != "delivered"]
        for piece in left:
            try:
                if piece is not left[0]:
                    await self._pause(delivery, live, turn)
                take = TakePiece(
                    delivery_id=delivery.delivery_id, number=piece.number, at=self._clock.now_ms()
                )
                with anyio.CancelScope(shield=True):
                    await self._ledger.do(take)
            except BaseException:
                await self._undo_claim(delivery)
                raise
            if await self._send(delivery, live, piece) is None:
                return
            await self._note_sent(live)
        if not left:
            await self._settle(delivery, "delivered")

    async def _pause(self, delivery: Delivery, live: LiveAccount, turn: Turn | None) -> None:
        """Between two pieces nothing is on the way: others may send."""
        if turn is not None:
            turn.end()
        await self._keep_pace(delivery, live)
        if turn is not None:
            await turn.begin()

    async def _note_sent(self, live: LiveAccount) -> None:
        if live.host is not None:
            live.host.outbound_ms = self._clock.now_ms()

    async def _send(
        self, delivery: Delivery, live: LiveAccount, piece: DeliveryPiece | None
    ) -> bool | None:
        """One message. None: it did not surely arrive, and all is settled."""
        if _tried_before(delivery, piece) and not self._knows_key_after(delivery, live, piece, 0.0):
            await self._settle(delivery, "uncertain", piece, error=FORGOTTEN)
            return None
        message = _message_of(delivery, live, piece)
        try:
            platform_id = await live.account.send(message)
        except DeliveryError as error:
            await self._failed(delivery, live, error, piece)
            return None
        except Exception as error:
            log.exception("%s account %s failed", *live.place)
            said = f"{type(error).__name__}: {error}"
            await self._settle(delivery, "uncertain", piece, error=said)
            return None
        if piece is not None and piece.number < piece.of:
            await self._write(
                SettlePiece(
                    delivery_id=delivery.delivery_id,
                    number=piece.number,
                    state="delivered",
                    platform_id=platform_id,
                )
            )
        else:
            await self._settle(delivery, "delivered", piece, platform_id=platform_id)
        return True

    # ── what a failure means ───────────────────────────────────────────────────────────────────

    async def _failed(
        self,
        delivery: Delivery,
        live: LiveAccount,
        error: DeliveryError,
        piece: DeliveryPiece | None,
    ) -> None:
        wait_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** (delivery.attempt - 1))
        wait_s = max(wait_s, error.retry_after_s or 0.0)
        if error.stops_account:
            self._stop_account(live, error)
        if isinstance(error, DeliveryUncertain):
            again = self._knows_key_after(delivery, live, piece, wait_s)
            end: DeliveryState = "uncertain"
        else:
            again = error.retryable or error.stops_account
            end = "failed"
        if error.chat_gone:
            log.warning(
                "a chat is gone: %s account %s: %s: %s", *live.place, delivery.address.to, error
            )
        if not again or (delivery.attempt >= ATTEMPTS_MAX and not error.stops_account):
            await self._settle(delivery, end, piece, error=str(error))
            return
        await self._settle(
            delivery,
            "pending",
            piece,
            error=str(error),
            not_before=self._clock.now_ms() + int(wait_s * 1000),
            unsent=not isinstance(error, DeliveryUncertain),
        )

    def _stop_account(self, live: LiveAccount, error: DeliveryError) -> None:
        """For a while, where the platform says how long; else until a person has done something."""
        if error.retry_after_s is None:
            self._accounts.on_broken(live.place, str(error))
        else:
            until = self._clock.now_ms() + int(error.retry_after_s * 1000)
            self._silent_until[live.place] = until

    def _knows_key_after(
        self, delivery: Delivery, live: LiveAccount, piece: DeliveryPiece | None, wait_s: float
    ) -> bool:
        """Whether the platform will still recognise the key of the first attempt, once we have waited."""
        tried_at = (piece.tried_at if piece else delivery.tried_at) or self._clock.now_ms()
        age_s = (self._clock.now_ms() - tried_at) / 1000
        return age_s + wait_s < live.account.knows_key_for_s()

    async def _settle(
        self,
        delivery: Delivery,
        state: DeliveryState,
        piece: DeliveryPiece | None = None,
        *,
        error: str | None = None,
        platform_id: str | None = None,
        not_before: int = 0,
        tried: bool = True,
        unsent: bool = False,
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
            unsent=unsent,
        )
        if state in ("failed", "uncertain") and error != BLOCKED:
            where = delivery.address
            log.warning(
                "a message of %s did not surely arrive: %s account %s: %s",
                delivery.key.text,
                where.channel,
                where.account_id or "default",
                error,
            )
        if piece is None:
            return await self._write(settle)
        of_piece = SettlePiece(
            delivery_id=delivery.delivery_id,
            number=piece.number,
            state=state,
            platform_id=platform_id,
            unsent=unsent and not _tried_before(delivery, piece),
        )
        return await self._write(of_piece, settle)

    async def _write(self, *ops: Op[None]) -> None:
        while True:
            try:
                with anyio.CancelScope(shield=True):
                    if len(ops) == 1:
                        await self._ledger.do(ops[0])
                    else:
                        await self._ledger.commit(*ops)
                return
            except (StoreError, Busy) as trouble:
                log.warning("a delivery waits for the ledger: %s", trouble)
                await anyio.sleep(RETRY_FIRST_S)


def _tried_before(delivery: Delivery, piece: DeliveryPiece | None) -> bool:
    """Whether an earlier attempt was made of which nobody knows what became."""
    if piece is not None:
        return piece.tried_at is not None
    return delivery.tried_at != delivery.updated_at


def _message_of(delivery: Delivery, live: LiveAccount, piece: DeliveryPiece | None) -> Piece:
    if piece is None:
        (made,) = pieces_of(delivery.text, live)[:1]
        return Piece(
            address=delivery.address,
            text=made.text,
            formatted=made.formatted,
            delivery_key=delivery.delivery_key,
        )
    return Piece(
        address=delivery.address,
        text=piece.text,
        formatted=piece.formatted,
        delivery_key=f"{delivery.delivery_key}#{piece.number}",
        number=piece.number,
        of=piece.of,
    )
