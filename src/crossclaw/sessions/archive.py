"""Archiving sessions and bringing them back. Children are archived some time after their end, or deleted right
after the announce.

Timers in the ledger trigger it, so a restart delays it and loses nothing.
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

    async def archive_due(self, timer: Timer) -> None:
        """Archives the timer's session: no longer listed or written to, still readable."""
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
        """Archives a session at once; False when it was archived before. One with open runs raises Busy."""
        archived = await self._ledger.do(ArchiveSession(key=key, at=self._clock.now_ms()))
        if archived is not None:
            self._feed.publish(SessionChanged(key, "archive"))
        return archived is not None

    async def bring_back(self, key: SessionKey) -> bool:
        """Lists a session again and accepts messages for it; False when it was not archived. A child stays
        until its next end."""
        back = await self._ledger.do(UnarchiveSession(key=key, at=self._clock.now_ms()))
        if back is not None:
            self._feed.publish(SessionChanged(key, "unarchive"))
        return back is not None

    async def clean_up(self, timer: Timer) -> None:
        """Deletes a child's session, whatever is queued in it: its parent has the report."""
        session = await self._ledger.find_session(_key(timer))
        if session is not None:
            try:
                await self._changing.delete(session)
            except (Busy, OSError) as error:
                await self._later(timer, error)
                return
        await self._ledger.do(TakeTimer(timer_key=timer.timer_key))

    async def set_aside(self, timer: Timer) -> None:
        """Finishes a deletion that a process did not complete: stops the children and sets the transcript's
        copy aside."""
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
