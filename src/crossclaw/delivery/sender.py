"""Sender: executes one due delivery, from the claim to the stored result.

`sending` is stored before the channel is called. What is longer than one message goes in pieces,
each with its own state. What follows from a failure depends on its kind: retry later, give up, or
mark it as uncertain.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.lowlevel
import msgspec

from crossclaw.channels.accounts import AccountPlace, LiveAccount, LiveAccounts
from crossclaw.channels.contract import OutgoingFile, Piece
from crossclaw.delivery.pacing import Paces
from crossclaw.delivery.pieces import PieceText, may_be_several, messages_of
from crossclaw.delivery.previews import LOST, Previews
from crossclaw.delivery.send_order import SendSlot
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import (
    Busy,
    DeliveryError,
    DeliveryUncertain,
    PlatformUnreachable,
    StoreError,
)
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.newest import keep_newest
from crossclaw.domain.sessions import Session
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.media import DropMedia
from crossclaw.ledger.operations import (
    Delivery,
    DeliveryFile,
    DeliveryPreview,
    DeliveryState,
    Op,
    SettleDelivery,
    TakeDelivery,
    TakenDelivery,
    media_holder,
)
from crossclaw.ledger.pieces import (
    DeliveryPiece,
    DropPreview,
    SettlePiece,
    SplitDelivery,
    TakePiece,
)
from crossclaw.policy.decision import Decision
from crossclaw.policy.send import BLOCKED

log = logging.getLogger(__name__)

ATTEMPTS_MAX = (
    9  # with the waits below, eight and a half minutes: longer than most outages of a platform
)
LAST_S = 2.0  # for what is being sent when the gateway closes
RETRY_FIRST_S = 2.0
RETRY_MAX_S = 300.0
AWAY_MAX_S = 60.0  # between two looks whether a platform is there again
ABSENT_MS_MAX = (
    7 * 86_400_000
)  # for an account that is not open; older words are of no use to anybody
PUT_OFF_MAX = (
    10_000  # replies that platforms have put off; one more is only asked for a little too often
)
FORGOTTEN = "an earlier attempt may have arrived, and the platform recognises it no longer"
RESHAPED = "an earlier attempt may have arrived as one message, and it would be several now"
ANOTHER = "its account has another token since, and is another one at its platform; resend it to have the new one say it"


MayDeliver = Callable[[TakenDelivery], Awaitable[Decision]]
"""Asks the send policy at delivery: it may have changed since the reply was written."""
AsSaid = Callable[[str, LiveAccount, SessionKey, Session | None], str]
"""The text of a reply as an account sends it: with the config's prefix."""


class ClaimedDelivery(msgspec.Struct, frozen=True):
    """A delivery that was claimed, and the account that sends it."""

    delivery: Delivery
    live: LiveAccount
    preview: DeliveryPreview | None = None

    def shows(self, piece: DeliveryPiece | None) -> DeliveryPreview | None:
        """The preview that this piece replaces."""
        return self.preview if piece is None or piece.number == 1 else None


class DeliverySender:
    def __init__(
        self,
        ledger: Ledger,
        accounts: LiveAccounts,
        clock: Clock,
        may_deliver: MayDeliver,
        as_said: AsSaid,
    ) -> None:
        self._ledger, self._accounts, self._clock = ledger, accounts, clock
        self._may_deliver, self._as_said = may_deliver, as_said
        self.previews = Previews(ledger, clock)
        self.paces = Paces()
        self.silent_until: dict[AccountPlace, int] = {}
        """Accounts that their platform has asked to be silent."""
        self.away: dict[AccountPlace, tuple[int, int]] = {}
        """Accounts whose platform could not be reached: how often, and until when nothing is tried."""
        self._times_put_off: dict[int, int] = {}
        """Deliveries that their platform wants later: how often it has said so."""

    async def keep_pace(self, delivery: Delivery, live: LiveAccount) -> None:
        """Waits so that no more is sent than the platform accepts, to one chat and in all."""
        now_s, traits = anyio.current_time(), live.traits
        chat = (*live.place, delivery.address.to)
        wait_s = max(
            self.paces.reserve(live.place, traits.rate, now_s),
            self.paces.reserve(chat, traits.chat_rate, now_s),
        )
        if wait_s > 0:
            await anyio.sleep(wait_s)

    async def carry(self, delivery: Delivery, turn: SendSlot | None) -> None:
        await self.previews.close(delivery.delivery_key)
        await self._split_first(delivery)
        take = TakeDelivery(
            delivery_id=delivery.delivery_id,
            at=self._clock.now_ms(),
            key=delivery.key.text,
            delivery_key=delivery.delivery_key,
        )
        with anyio.CancelScope(shield=True):  # a claim that nobody hears of is never undone
            taken = await self._ledger.do(take)
        if taken is None:
            return
        try:
            errand = await self._errand_of(taken)
            pieces = None if errand is None else await self._split(errand)
        except BaseException:
            await self._undo_claim(taken.delivery)
            raise
        if errand is None or pieces is None:
            return
        if pieces:
            await self._send_pieces(errand, pieces, turn)
        elif await self._send(errand, None) is not None:
            await self._note_sent(errand.live)

    async def _errand_of(self, taken: TakenDelivery) -> ClaimedDelivery | None:
        delivery, live = taken.delivery, await self._account_for(taken)
        if live is None:
            return None
        said = self._said(delivery, live, taken.session)
        return ClaimedDelivery(said, live, taken.preview)

    def _said(self, delivery: Delivery, live: LiveAccount, session: Session | None) -> Delivery:
        if delivery.run_id is None:
            return delivery
        said = self._as_said(delivery.text, live, delivery.key, session)
        return msgspec.structs.replace(delivery, text=said)

    async def _undo_claim(self, delivery: Delivery) -> None:
        """Gives back a delivery that was claimed and not tried. Waits only for a while if the
        ledger cannot write: the gateway may be closing."""
        with anyio.move_on_after(LAST_S, shield=True):
            await self.settle(delivery, "pending", tried=False)

    async def _account_for(self, taken: TakenDelivery) -> LiveAccount | None:
        """The account that delivers it; None if it was settled, because none may or can."""
        delivery = taken.delivery
        live = self._accounts.find(delivery.address)
        if live is None and self._clock.now_ms() - delivery.created_at < ABSENT_MS_MAX:
            await self.settle(delivery, "pending", tried=False)
        elif live is None:
            error = f"no channel {delivery.address.channel!r} is set up"
            await self.settle(delivery, "failed", error=error)
        elif not await self._is_its_account(delivery, live):
            pass
        elif not (await self._may_deliver(taken)).allowed:
            await self.settle(delivery, "failed", error=BLOCKED)
        else:
            await anyio.lowlevel.checkpoint_if_cancelled()  # last moment at which nothing was tried
            return live
        return None

    async def _is_its_account(self, delivery: Delivery, live: LiveAccount) -> bool:
        """Whether this is the account for which the delivery was written. With another token it is
        another account at its platform, and does not send what the one before had left. While its
        identity is unknown, nothing is sent."""
        since = 0 if live.host is None else await live.host.speaks_since()
        if since is None:
            self._note_away(live.place, self._clock.now_ms())
            await self.settle(delivery, "pending", tried=False)
        elif delivery.created_at < since:
            await self.settle(delivery, "failed", error=ANOTHER, tried=False)
        else:
            return True
        return False

    async def _split_first(self, delivery: Delivery) -> None:
        """Stores the pieces before the first attempt, if there are several: a delivery that was
        tried without pieces was one message."""
        live = self._accounts.find(delivery.address)
        if live is None or delivery.attempt or not may_be_several(delivery, live):
            return
        session = await self._ledger.find_session(delivery.key)
        made = messages_of(self._said(delivery, live, session), live)
        if len(made) > 1:
            await self._ledger.do(_split_into(delivery, made))

    async def _split(self, errand: ClaimedDelivery) -> list[DeliveryPiece] | None:
        """The pieces as they were at the first attempt: what has arrived is not sent in another
        form. None: it was one message then, which may have arrived; its pieces would be new
        messages to the platform, so it is settled as uncertain."""
        delivery = errand.delivery
        made = messages_of(delivery, errand.live)
        if len(made) == 1 and delivery.attempt == 1:
            return []
        may_be_there = errand.preview is None and _tried_before(delivery, None)
        known = await self._ledger.do(_split_into(delivery, () if may_be_there else made))
        if may_be_there and not known and len(made) > 1:
            await self.settle(delivery, "uncertain", error=RESHAPED)
            return None
        return known

    async def _send_pieces(
        self, errand: ClaimedDelivery, pieces: list[DeliveryPiece], turn: SendSlot | None
    ) -> None:
        delivery, live = errand.delivery, errand.live
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
            if await self._send(errand, piece) is None:
                return
            await self._note_sent(live)
        if not left:
            await self.settle(delivery, "delivered")

    async def _pause(self, delivery: Delivery, live: LiveAccount, turn: SendSlot | None) -> None:
        """Waits between two pieces, and lets others send meanwhile: nothing is on the way then."""
        if turn is not None:
            turn.end()
        await self.keep_pace(delivery, live)
        if turn is not None:
            await turn.begin()

    def due_again(self, place: AccountPlace) -> int:
        """When an account may be sent to."""
        return max(self.silent_until.get(place, 0), self.away.get(place, (0, 0))[1])

    async def _note_sent(self, live: LiveAccount) -> None:
        self.away.pop(live.place, None)
        if live.host is not None:
            live.host.sent()

    async def _send(self, errand: ClaimedDelivery, piece: DeliveryPiece | None) -> bool | None:
        """Sends one message. None if it may not have arrived; then all is settled."""
        delivery, live, preview = errand.delivery, errand.live, errand.shows(piece)
        if self.previews.is_lost(live, preview):
            await self.settle(delivery, "uncertain", piece, error=LOST)
            return None
        if preview is None and self._is_forgotten(errand, piece):
            await self.settle(delivery, "uncertain", piece, error=FORGOTTEN)
            return None
        try:
            message = await self._message_of(errand, piece)
            if preview is None:
                platform_id = await live.account.send(message)
            else:
                platform_id = await self.previews.finish(live, message, preview, self._write)
        except DeliveryError as error:
            await self._failed(delivery, live, error, piece)
            return None
        except Exception as error:
            log.exception("%s account %s failed", *live.place)
            said = f"{type(error).__name__}: {error}"
            await self.settle(delivery, "uncertain", piece, error=said)
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
            await self.settle(delivery, "delivered", piece, platform_id=platform_id)
        if preview is not None:
            await self._write(DropPreview(delivery_key=preview.delivery_key))
        return True

    def _is_forgotten(self, errand: ClaimedDelivery, piece: DeliveryPiece | None) -> bool:
        delivery, live = errand.delivery, errand.live
        return _tried_before(delivery, piece) and not self._knows_key_after(
            delivery, live, piece, 0.0
        )

    async def _message_of(self, errand: ClaimedDelivery, piece: DeliveryPiece | None) -> Piece:
        delivery, live = errand.delivery, errand.live
        made = piece or messages_of(delivery, live)[0]
        number, of = (piece.number, piece.of) if piece else (1, 1)
        key = delivery.delivery_key
        return Piece(
            address=delivery.address,
            text=made.text,
            formatted=made.formatted,
            delivery_key=f"{key}#{number}" if piece else key,
            number=number,
            of=of,
            reply_to=delivery.reply_to if answers(live, number) else None,
            media=None if made.file is None else await self._file(delivery.files[made.file]),
        )

    async def _file(self, file: DeliveryFile) -> OutgoingFile:
        media = await self._ledger.find_media(file.sha256)
        if media is None:
            raise DeliveryError(f"{file.name} is not kept any more")
        return OutgoingFile(kind=file.kind, data=media.data, mime=file.mime, name=file.name)

    # ── what a failure means ───────────────────────────────────────────────────────────────────

    async def _failed(
        self,
        delivery: Delivery,
        live: LiveAccount,
        error: DeliveryError,
        piece: DeliveryPiece | None,
    ) -> None:
        now = self._clock.now_ms()
        if isinstance(error, PlatformUnreachable) and now - delivery.created_at < ABSENT_MS_MAX:
            self._note_away(live.place, now)
            await self.settle(
                delivery, "pending", piece, error=str(error), tried=False, unsent=True
            )
            return
        put_off = _is_put_off(delivery, error, now)
        times = self._times_put_off.get(delivery.delivery_id, 0)
        wait_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(delivery.attempt - 1 + times, 10))
        wait_s = max(wait_s, error.retry_after_s or 0.0)
        if put_off:
            keep_newest(self._times_put_off, delivery.delivery_id, times + 1, PUT_OFF_MAX)
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
        is_last = delivery.attempt >= ATTEMPTS_MAX and not (error.stops_account or put_off)
        if not again or is_last:
            await self.settle(delivery, end, piece, error=str(error))
            return
        await self.settle(
            delivery,
            "pending",
            piece,
            error=str(error),
            not_before=self._clock.now_ms() + int(wait_s * 1000),
            tried=not put_off,
            unsent=not isinstance(error, DeliveryUncertain),
        )

    def _note_away(self, place: AccountPlace, now: int) -> None:
        """Nothing is sent by this account for a while, which grows; what was tried at the same time says no more."""
        times, until = self.away.get(place, (0, 0))
        if until <= now:
            wait_s = min(AWAY_MAX_S, RETRY_FIRST_S * 2 ** min(times, 10))
            self.away[place] = times + 1, now + int(wait_s * 1000)

    def _stop_account(self, live: LiveAccount, error: DeliveryError) -> None:
        """Pauses an account: for as long as the platform says, else until a person has acted."""
        if error.retry_after_s is None:
            if live.host is not None:
                live.host.break_off(str(error))
        else:
            until = self._clock.now_ms() + int(error.retry_after_s * 1000)
            self.silent_until[live.place] = until

    def _knows_key_after(
        self, delivery: Delivery, live: LiveAccount, piece: DeliveryPiece | None, wait_s: float
    ) -> bool:
        """Whether the platform will still recognise the key of the first attempt after the wait."""
        now = self._clock.now_ms()
        tried_at = (piece.tried_at if piece else delivery.tried_at) or now
        return live.knows_key(tried_at, now, wait_s)

    async def settle(
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
        """Stores the outcome of an attempt, however long the ledger cannot write."""
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
        drop = [DropMedia(media_holder(delivery.delivery_key))] if delivery.files else []
        kept = [] if state != "delivered" else drop
        if piece is None:
            return await self._write(settle, *kept)
        of_piece = SettlePiece(
            delivery_id=delivery.delivery_id,
            number=piece.number,
            state=state,
            platform_id=platform_id,
            unsent=unsent and not _tried_before(delivery, piece),
        )
        return await self._write(of_piece, settle, *kept)

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


def _split_into(delivery: Delivery, made: Sequence[PieceText]) -> SplitDelivery:
    pieces = tuple(
        DeliveryPiece(
            delivery_id=delivery.delivery_id,
            number=number,
            of=len(made),
            text=each.text,
            formatted=each.formatted,
            file=each.file,
        )
        for number, each in enumerate(made, 1)
    )
    return SplitDelivery(delivery_id=delivery.delivery_id, pieces=pieces)


def _tried_before(delivery: Delivery, piece: DeliveryPiece | None) -> bool:
    """Whether there was an earlier attempt whose result is unknown."""
    if piece is not None:
        return piece.tried_at is not None
    return delivery.tried_at != delivery.updated_at


def _is_put_off(delivery: Delivery, error: DeliveryError, now: int) -> bool:
    """Whether the platform says when to try again: that is neither a refusal nor an attempt, though
    not for ever."""
    says_when = error.retryable and error.retry_after_s is not None
    is_in_time = now - delivery.created_at < ABSENT_MS_MAX
    return says_when and is_in_time and not isinstance(error, DeliveryUncertain)


def answers(live: LiveAccount, number: int) -> bool:
    """Whether this piece of a reply is sent as an answer to the message."""
    wanted = live.settings.reply_to_mode
    mode = wanted or live.traits.reply_to_mode
    return live.traits.replies and (mode == "all" or (mode == "first" and number == 1))
