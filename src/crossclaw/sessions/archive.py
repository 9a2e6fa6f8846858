"""Putting away and bringing back. Children are archived some time after their end, or deleted right after
the announce.

Timers of the ledger bring it about, so a restart delays it and forgets nothing.
"""

import logging

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Busy
from crossclaw.domain.events import SessionChanged
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import ArchiveSession, ArmTimer, TakeTimer, Timer, UnarchiveSession
from crossclaw.runs.feed import Feed
from crossclaw.sessions.changing import Changing

log = logging.getLogger(__name__)

LATER_MS = 60_000  # somebody is talking with it, or the disk refuses: look again then


class Archive:
    def __init__(self, ledger: Ledger, changing: Changing, feed: Feed, clock: Clock) -> None:
        self._ledger = ledger
        self._changing = changing
        self._feed = feed
        self._clock = clock

    async def put_away(self, timer: Timer) -> None:
        """Not listed, not written to, still readable."""
        key = _key(timer)
        try:
            archived, _ = await self._ledger.commit(
                ArchiveSession(key=key, at=self._clock.now_ms()),
                TakeTimer(timer_key=timer.timer_key),
            )
        except Busy as error:
            await self._later(timer, error)
            return
        if archived is not None:
            self._feed.publish(SessionChanged(key, "archive"))

    async def now(self, key: SessionKey) -> bool:
        """By hand; False when it had been put away before. One with open runs is Busy."""
        archived = await self._ledger.do(ArchiveSession(key=key, at=self._clock.now_ms()))
        if archived is not None:
            self._feed.publish(SessionChanged(key, "archive"))
        return archived is not None

    async def bring_back(self, key: SessionKey) -> bool:
        """Listed and written to again; False when it was not put away. A child stays until its next end."""
        back = await self._ledger.do(UnarchiveSession(key=key, at=self._clock.now_ms()))
        if back is not None:
            self._feed.publish(SessionChanged(key, "unarchive"))
        return back is not None

    async def clean_up(self, timer: Timer) -> None:
        """Deleted, whatever is queued in it: its parent has its report."""
        session = await self._ledger.find_session(_key(timer))
        if session is not None:
            try:
                await self._changing.delete(session)
            except (Busy, OSError) as error:
                await self._later(timer, error)
                return
        await self._ledger.do(TakeTimer(timer_key=timer.timer_key))

    async def set_aside(self, timer: Timer) -> None:
        """The children and the copy of a session that was deleted by a process that did not come so far."""
        try:
            if parent := timer.payload.get("key"):
                await self._changing.stop_orphans(SessionKey.stored(parent))
            await self._changing.set_aside(timer.agent_id, timer.payload["sessionId"])
        except OSError as error:
            await self._later(timer, error)

    async def _later(self, timer: Timer, error: Exception) -> None:
        log.info("%s has to wait: %s", timer.timer_key, error)
        due_at = self._clock.now_ms() + LATER_MS
        await self._ledger.do(ArmTimer(timer=msgspec.structs.replace(timer, due_at=due_at)))


def _key(timer: Timer) -> SessionKey:
    return SessionKey.stored(timer.payload["key"])
