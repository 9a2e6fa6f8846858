"""Previews: show a reply while it is being written, on platforms where messages can be changed.

The preview becomes the reply: its final text replaces the beginning, so people see one message.
That there is a preview is stored before it is sent, and its id afterwards. If it may have arrived
and its id is unknown, the reply is `uncertain`, as if it had been cut off itself, unless the
platform can be asked by the key.
"""

import logging
from collections.abc import Awaitable, Callable
from math import inf

import anyio
from msgspec.structs import replace

from crossclaw.channels.accounts import LiveAccount
from crossclaw.channels.contract import Piece
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import DeliveryPreview, Op
from crossclaw.ledger.pieces import BeginPreview, DropPreview, NotePreview

log = logging.getLogger(__name__)

WriteOp = Callable[[Op[None]], Awaitable[None]]
CALL_S_MAX = 10.0  # a platform answers in a hundredth of that
FIRST_S_MAX = 60.0  # accounts find out sooner that they cannot connect, or get no answer
LOST = "its beginning may have been shown, and the platform cannot be asked"


def preview_key(delivery_key: str) -> str:
    return f"{delivery_key}:preview"


class Previews:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger, self._clock = ledger, clock
        self._shown: dict[str, anyio.Lock] = {}
        """A lock for each reply that is being written; held while the platform shows or changes
        it."""
        self._beginning: set[anyio.CancelScope] = set()
        self._ends_at = inf
        """When previews on their way are cut off, because the gateway is closing."""

    def open(self, delivery_key: str) -> None:
        """Allows a preview of a reply that is being written."""
        self._shown.setdefault(delivery_key, anyio.Lock())

    async def begin(self, live: LiveAccount, message: Piece) -> str | None:
        """Shows the first words. Returns the platform's id of the message; None if it is not there,
        or may not be."""
        if (lock := self._shown.get(message.delivery_key)) is None:
            return None
        async with lock:
            if message.delivery_key not in self._shown:
                return None
            return await self._begin(live, message)

    async def change(self, live: LiveAccount, message: Piece, platform_id: str) -> bool:
        """Shows more of the reply; False if the final reply has replaced the preview."""
        lock = self._shown.get(message.delivery_key)
        if lock is None:
            return False
        async with lock:
            if message.delivery_key not in self._shown:
                return False
            with anyio.move_on_after(
                CALL_S_MAX, shield=True
            ):  # an older text must not arrive after the last one
                await live.account.edit(message.address, platform_id, message)
        return True

    async def close(self, delivery_key: str) -> None:
        """Ends the preview, because the reply is complete: when this returns, nothing of it is
        being shown or changed."""
        if (lock := self._shown.pop(delivery_key, None)) is not None:
            async with lock:
                pass

    def forget(self, delivery_key: str) -> None:
        """Ends the preview without a reply: what was shown stays."""
        self._shown.pop(delivery_key, None)

    def hurry(self, within_s: float) -> None:
        """Gives previews on their way so many seconds, because the gateway closes."""
        self._ends_at = anyio.current_time() + within_s
        for sending in self._beginning:
            sending.deadline = self._ends_at

    async def _begin(self, live: LiveAccount, message: Piece) -> str | None:
        key = message.delivery_key
        with anyio.CancelScope(shield=True):  # stored and not sent, it would be taken for lost
            known = await self._ledger.do(BeginPreview(delivery_key=key, at=self._clock.now_ms()))
            if known is not None:
                return known.platform_id
            if key not in self._shown:  # the reply is whole meanwhile, or there is none
                await self._ledger.do(DropPreview(delivery_key=key))
                return None
            first = replace(message, delivery_key=preview_key(key))
            ends_at = min(anyio.current_time() + FIRST_S_MAX, self._ends_at)
            with anyio.CancelScope(deadline=ends_at) as sending:  # then nobody knows if it is there
                self._beginning.add(sending)
                try:
                    return await self._send_first(live, first, key)
                finally:
                    self._beginning.discard(sending)
        return None

    async def _send_first(self, live: LiveAccount, message: Piece, key: str) -> str | None:
        try:
            platform_id = await live.account.send(message)
        except DeliveryUncertain:
            return None
        except DeliveryError:
            await self._ledger.do(DropPreview(delivery_key=key))
            raise
        if platform_id is not None:
            await self._ledger.do(NotePreview(delivery_key=key, platform_id=platform_id))
        return platform_id

    def is_lost(self, live: LiveAccount, preview: DeliveryPreview | None) -> bool:
        """Whether the preview may have arrived and cannot be found: then nothing may be sent in its
        place."""
        if preview is None or preview.platform_id is not None:
            return False
        return not live.knows_key(preview.tried_at, self._clock.now_ms())

    async def finish(
        self, live: LiveAccount, message: Piece, preview: DeliveryPreview, write: WriteOp
    ) -> str | None:
        """Replaces the preview by the whole message. Changing it twice does no harm, so an attempt
        that was cut off is repeated. If the platform cannot change it, because somebody has deleted
        it, a new message is sent."""
        key = preview.delivery_key
        try:
            platform_id = preview.platform_id
            if platform_id is None:  # its key brings the same message again
                again = replace(message, delivery_key=preview_key(key), media=None)
                platform_id = await live.account.send(again)
                if platform_id is None:
                    raise DeliveryUncertain(LOST)
                await write(NotePreview(delivery_key=key, platform_id=platform_id))
            # Its key is no earlier change's, whose words may have been the same.
            whole = replace(message, delivery_key=f"{message.delivery_key}:whole")
            await live.account.edit(message.address, platform_id, whole)
        except DeliveryUncertain as error:
            raise DeliveryError(str(error), retryable=True) from error
        except DeliveryError as error:
            if error.retryable or error.stops_account or error.chat_gone:
                raise
            log.info("a message of %s could not be changed: %s", live.channel, error)
            await write(DropPreview(delivery_key=key))
            return await live.account.send(message)
        return platform_id
