"""Changing sessions: settings, reset, deletion."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from crossclaw.domain.errors import Busy, Invalid
from crossclaw.domain.events import Injected, SessionChanged, SpeechAllowed
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.domain.sessions import NewEntry, NewSession, Session
from crossclaw.ledger.operations import (
    DeleteSession,
    EnsureSession,
    Inject,
    PatchSession,
    ResetSession,
    TakeTimer,
    aside_key,
)
from crossclaw.policy.answering import is_lasting
from crossclaw.policy.send import decide_send
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.stopping import Stopping
from crossclaw.transcripts.exporter import Exporter

STOP_TRIES = 5  # a session that is written to without pause is reset when its people let it


DELETED = "the session was deleted"
RESET = "the session was reset"


class Changing:
    def __init__(
        self,
        context: ServiceContext,
        stopping: Stopping,
        exporter: Exporter,
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._stopping = stopping
        self._exporter = exporter
        self._feed = context.feed
        self._clock = context.clock
        self._ids = context.ids

    async def patch(self, key: SessionKey, changes: dict[str, Any]) -> Session:
        """Sets what may be set; a session that does not exist yet is made."""
        at = self._clock.now_ms()
        _, session = await self._ledger.commit(
            EnsureSession(new=NewSession(key=key, session_id=self._ids.new()), at=at),
            PatchSession(key=key, changes=changes, at=at),
        )
        self._feed.publish(SessionChanged(key, "patch"))
        patched: Session = session
        if "send_policy" in changes:
            allowed = decide_send(self._config.session.send_policy, key, patched).allowed
            self._feed.publish(SpeechAllowed(key, allowed))
        return patched

    async def reset(self, key: SessionKey, *, damaged: bool = False) -> Session:
        """Begins a new transcript under the same key. What runs is stopped first; its children work on, and
        report into the new transcript. A row that is `damaged` is made anew."""
        for _ in range(STOP_TRIES - 1):
            with suppress(Busy):  # another message came in between and is being answered already
                return await self._stop_and_reset(key, damaged=damaged)
        return await self._stop_and_reset(key, damaged=damaged)

    async def _stop_and_reset(self, key: SessionKey, *, damaged: bool) -> Session:
        await self._stopping.stop_alone(key, RESET)
        session = await self._reset(key, damaged=damaged)
        self._feed.publish(SessionChanged(key, "reset"))
        return session

    async def _reset(self, key: SessionKey, *, damaged: bool) -> Session:
        at = self._clock.now_ms()
        made = EnsureSession(new=NewSession(key=key, session_id=self._ids.new()), at=at)
        *_, fresh = await self._ledger.commit(
            *([] if damaged else [made]), ResetSession(key=key, session_id=self._ids.new(), at=at)
        )
        session: Session = fresh
        return session

    async def delete(self, session: Session, *, if_still_archived: bool = False) -> list[str]:
        """Stops and deletes a session; the JSONL copies stay, renamed as deleted. Returns their paths.

        Its children are stopped when it is gone, so that nothing is reported to its chat any more. With
        `if_still_archived`, one that was brought back meanwhile stays, with all that goes on in it.
        """
        key, since = session.key, session.archived_at if if_still_archived else None
        if session.archived_at is None and is_lasting(self._config.agents, key):
            raise Invalid(f"Cannot delete the main session ({key}).")
        if since is None:
            await self._stopping.stop_alone(key, DELETED)
        await self._exporter.flush()
        at = self._clock.now_ms()
        ids = await self._ledger.do(DeleteSession(key=key, at=at, if_archived_at=since))
        if not ids:
            return []
        await self._stopping.stop_children(key, DELETED)
        kept = [await self.set_aside(key.agent_id, each) for each in ids]
        self._feed.publish(SessionChanged(key, "delete"))
        return [str(path) for path in kept if path is not None]

    async def stop_orphans(self, key: SessionKey) -> None:
        """Stops the children of a deleted session, unless a new session has its name: they may be that one's."""
        if await self._ledger.find_session(key) is None:
            await self._stopping.stop_children(key, DELETED)

    async def set_aside(self, agent_id: str, session_id: str) -> Path | None:
        """Renames the copy of a transcript whose session is gone. A timer does it if the process dies first."""
        kept = await self._exporter.set_aside(agent_id, session_id)
        await self._ledger.do(TakeTimer(timer_key=aside_key(session_id)))
        return kept

    async def inject(self, key: SessionKey, text: str, label: str | None) -> str:
        """Appends words that belong to no run, shown as the assistant's."""
        at, entry_id = self._clock.now_ms(), self._ids.short()
        words = f"[{label}]\n\n{text}" if label else text
        message = AssistantMessage([Text(words)], at, stop_reason="injected")
        (entry,) = await self._ledger.do(
            Inject(key=key, entries=[NewEntry(entry_id=entry_id, message=message)], at=at)
        )
        self._feed.publish(Injected(key, entry))
        return entry_id
