"""Retention: old sessions are archived, and what was archived long ago is deleted, where the owner says so.

`session.maintenance.mode` decides: nothing without it, a line in the log with `warn`, the work itself with
`enforce`. Archiving is OpenClaw's "prune" without a loss: not listed, still readable, back with the next message of
its chat. Only `resetArchiveRetention`, which is unset, deletes. Ages are time that has passed: a clock that is set ahead
makes nothing old.
"""

import logging
from typing import NamedTuple

import anyio

from crossclaw.config import Config
from crossclaw.config.session import Maintenance
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Busy, StoreError
from crossclaw.domain.sessions import Session
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import JUMP_MS
from crossclaw.policy.answering import is_lasting
from crossclaw.sessions.archive import Archive
from crossclaw.sessions.changing import Changing

log = logging.getLogger(__name__)

FIRST_S = 60.0  # after the start, which has enough to do
EVERY_S = 3_600.0
AT_ONCE = 200  # sessions of one look: each is a commit of its own, and people are served meanwhile


class DueSessions(NamedTuple):
    """The sessions that the settings ask to archive or delete now."""

    archive: list[Session]
    delete: list[Session]


class Retention:
    def __init__(
        self, config: Config, ledger: Ledger, archive: Archive, changing: Changing, clock: Clock
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._archive = archive
        self._changing = changing
        self._clock = clock

    async def serve(self) -> None:
        if self._config.session.maintenance.mode is None:
            return
        pause_s = FIRST_S
        while True:
            begun = self._ahead_ms()
            await anyio.sleep(pause_s)
            if abs(self._ahead_ms() - begun) > JUMP_MS:
                continue  # the clock was set; the sweep sees that within the minute, and ages go by it then
            try:
                await self.once()
            except (StoreError, Busy) as error:
                log.warning("session.maintenance has to wait: %s", error)
            pause_s = EVERY_S

    def _ahead_ms(self) -> float:
        """How far the clock is ahead of the event loop's time, which nobody can set."""
        return self._clock.now_ms() - anyio.current_time() * 1000

    async def once(self) -> DueSessions:
        """Looks once, and does what the mode allows."""
        settings = self._config.session.maintenance
        due = await self._due(settings)
        if settings.mode == "warn" and any(due):
            log.warning(
                "session.maintenance would archive %d sessions and delete %d; mode warn does nothing",
                len(due.archive),
                len(due.delete),
            )
        if settings.mode == "enforce":
            await self.carry_out(due)
        return due

    async def _due(self, settings: Maintenance) -> DueSessions:
        now = self._clock.now_ms()
        before = await self._ledger.moment_ago(now=now, passed_ms=settings.archive_after_ms)
        old = await self._ledger.list_quiet(before=before, limit=AT_ONCE)
        old += await self._too_many(settings, now)
        going = {each.key: each for each in old if not self._is_kept(each)}
        gone: list[Session] = []
        if (age := settings.delete_after_ms) is not None:
            before = await self._ledger.moment_ago(now=now, passed_ms=age)
            gone = await self._ledger.list_archived(before=before, limit=AT_ONCE)
        return DueSessions(list(going.values()), gone)

    async def _too_many(self, settings: Maintenance, now: int) -> list[Session]:
        if settings.max_entries is None:
            return []
        excess = await self._ledger.count_sessions(sight=EVERYTHING) - settings.max_entries
        if excess <= 0:
            return []
        kept = len(self._config.agents.ids())  # main sessions, which may be the oldest
        found = await self._ledger.list_quiet(before=now, limit=min(excess + kept, AT_ONCE))
        return [each for each in found if not self._is_kept(each)][:excess]

    def _is_kept(self, session: Session) -> bool:
        """Whether a session is never archived: an agent's main session, or a guest's, who answers from outside."""
        return session.key.is_guest or is_lasting(self._config.agents, session.key)

    async def carry_out(self, due: DueSessions) -> None:
        archived = deleted = 0
        for session in due.archive:
            try:
                archived += await self._archive.now(session.key)
            except Busy as error:  # something goes on there: it is not old
                log.debug("%s is not archived: %s", session.key, error)
        for session in due.delete:
            try:
                deleted += bool(await self._changing.delete(session, if_still_archived=True))
            except (Busy, OSError) as error:
                log.info("%s is not deleted: %s", session.key, error)
        if archived or deleted:
            log.info("session.maintenance: %d sessions archived, %d deleted", archived, deleted)
