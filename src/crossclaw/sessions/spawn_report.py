"""Reports of sub-agents: the child is asked what to report, and its parent gets it, once.

Every step is written by the step before: the end of the task's run brings the announce run, the end of that one
brings the parent's message, the delivery to its chat and the timer that archives the child. A parent that was
reset meanwhile gets it in its new transcript; one that was deleted does not.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.domain.ids import follower_id
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Provenance, Text, UserMessage
from crossclaw.domain.runs import Outcome, Run, RunPlan
from crossclaw.domain.sessions import Entry, NewEntry, Session
from crossclaw.domain.spawns import (
    AskToAnnounce,
    Spawn,
    SpawnReport,
    SpawnStatus,
    Stats,
    next_step,
    note_text,
    report_text,
)
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import (
    ArmTimer,
    Inject,
    NewDelivery,
    Op,
    PutDelivery,
    SetSpawn,
    Submit,
    Timer,
)
from crossclaw.policy.send import decide_send
from crossclaw.sessions.newest import find_newest
from crossclaw.sessions.origins import from_session
from crossclaw.sessions.run_builder import STEP_MS, RunBuilder
from crossclaw.sessions.where import address_of

ARCHIVE, CLEANUP = "archive", "cleanup"
"""Kinds of timers."""

ANNOUNCE_STEP = "Your task is over: this is your announce step."

TranscriptPath = Callable[[str, str], Path]


class SpawnReports:
    def __init__(
        self,
        ledger: Ledger,
        transcript_of: TranscriptPath,
        builder: RunBuilder,
    ) -> None:
        self._ledger = ledger
        self._transcript_of = transcript_of
        self._builder = builder
        self._config = builder.config

    async def follow(self, run: Run, outcome: Outcome) -> list[Op[Any]]:
        """The operations that follow from the end of one of a child's runs, to be stored with that end."""
        spawn = await self._ledger.find_spawn(run.key)
        if spawn is None or spawn.state == "over":
            return []
        if not outcome.reply and run.kind == "spawn":
            said = await find_newest(self._ledger, run.session_id, _words)
            outcome = msgspec.structs.replace(outcome, reply=said)
        moved, step = next_step(spawn, run, outcome)
        if run.kind == "spawn":
            moved = msgspec.structs.replace(moved, ended_at=self._builder.clock.now_ms())
        if isinstance(step, AskToAnnounce):
            return [SetSpawn(spawn=moved), await self._ask(moved, run)]
        return await self._report(moved, step, run)

    async def _ask(self, spawn: Spawn, run: Run) -> Submit:
        key = SessionKey.stored(spawn.parent_key)
        parent = await self._ledger.find_session(key)
        origin = from_session(key, parent, "sessions_spawn", "announce")
        return self._builder.following(
            run,
            "announce",
            run.key,
            [Text(f"Your task was:\n{spawn.task}\n\n"), Text(ANNOUNCE_STEP)],
            origin,
            run_id=follower_id(spawn.run_id, "announce"),
            plan=RunPlan(
                deliver=False, context=_ask_context(spawn), timeout_ms=STEP_MS, spawned=True
            ),
        )

    # ── the report ─────────────────────────────────────────────────────────────────────────────

    async def _report(self, spawn: Spawn, report: SpawnReport, run: Run) -> list[Op[Any]]:
        at = self._builder.clock.now_ms()
        announced = msgspec.structs.replace(spawn, announced_at=at)
        ops: list[Op[Any]] = [SetSpawn(spawn=announced), *self._cleanup_timer(spawn, run.key, at)]
        parent = await self._ledger.find_session(SessionKey.stored(spawn.parent_key))
        if parent is None:
            return ops
        status = spawn.status or "error"
        if not report.posted:
            words = note_text(spawn, status, report.notes)
            return [*ops, self._tell(spawn, parent, words, at, shown=False)]
        words = await self._words(spawn, status, report, run)
        wakes = spawn.wakes and self._config.agents.defaults.subagents.wake_parent
        if wakes and parent.archived_at is None:
            return [*ops, self._wake(spawn, parent, words, run)]
        return [*ops, *self._post(spawn, parent, words, run)]

    async def _words(self, spawn: Spawn, status: SpawnStatus, report: SpawnReport, run: Run) -> str:
        child = await self._ledger.find_session(run.key)
        task = await self._ledger.find_run(spawn.run_id)
        began = task and task.started_at
        path = self._transcript_of(run.key.agent_id, run.session_id)
        elsewhere = run.authority.sandboxed or SessionKey.stored(spawn.parent_key).is_guest
        stats = Stats(
            runtime_ms=spawn.ended_at - began if began and spawn.ended_at else None,
            input_tokens=child.input_tokens if child else 0,
            output_tokens=child.output_tokens if child else 0,
            cost_usd=child.cost_usd if child else 0.0,
            session_key=run.key.text,
            session_id=run.session_id,
            transcript=None if elsewhere else str(path),
        )
        return report_text(status, report, str(stats))

    def _post(self, spawn: Spawn, parent: Session, words: str, run: Run) -> list[Op[Any]]:
        """Posts a report into the parent's transcript and to its chat: the one it was asked in, else the
        parent's own. Chats on the page get the words as an event, if the send policy allows it."""
        at = self._builder.clock.now_ms()
        where = spawn.reply_to or address_of(parent)
        may_say = decide_send(self._config.session.send_policy, parent.key, parent).allowed
        report = self._tell(spawn, parent, words, at, shown=where is None and may_say)
        if where is None:
            return [report]
        delivery = NewDelivery.of_run(run, f"spawn:{spawn.run_id}", parent.key, where, words)
        return [report, PutDelivery(new=delivery, at=at, if_there=True)]

    def _tell(self, spawn: Spawn, parent: Session, words: str, at: int, *, shown: bool) -> Inject:
        entry = NewEntry(
            entry_id=self._builder.ids.short(), message=UserMessage(words, at, _from_child(spawn))
        )
        return Inject(key=parent.key, entries=[entry], at=at, if_there=True, shown=shown)

    def _wake(self, spawn: Spawn, parent: Session, words: str, run: Run) -> Submit:
        """Submits a run in which the parent answers the report, with no more authority than the child had."""
        where = spawn.reply_to or address_of(parent)
        return self._builder.following(
            run,
            "announce",
            parent.key,
            words,
            _from_child(spawn),
            run_id=follower_id(spawn.run_id, "wake"),
            plan=RunPlan(reply_to=where, timeout_ms=self._config.agents.defaults.timeout_ms),
        )

    def _cleanup_timer(self, spawn: Spawn, child: SessionKey, at: int) -> list[Op[Any]]:
        """Sets the timer that archives or deletes the child, counted from its end. Minutes of 0 keep it for ever."""
        if spawn.cleanup == "delete":
            return [ArmTimer(timer=_timer(CLEANUP, child, at))]
        minutes = self._config.agents.defaults.subagents.archive_after_minutes
        if minutes <= 0:
            return []
        due_at = (spawn.ended_at or at) + int(minutes * 60_000)
        return [ArmTimer(timer=_timer(ARCHIVE, child, due_at))]


def _timer(kind: str, child: SessionKey, due_at: int) -> Timer:
    return Timer(
        timer_key=f"{kind}:{child}",
        agent_id=child.agent_id,
        kind=kind,
        due_at=due_at,
        payload={"key": child.text},
    )


def _from_child(spawn: Spawn) -> Provenance:
    """The provenance of a report. A child has no chat of its own."""
    return Provenance(
        "announce",
        source_session_key=spawn.child_key,
        source_channel="internal",
        source_tool="sessions_spawn",
    )


def _ask_context(spawn: Spawn) -> str:
    return "\n".join(
        [
            f"You are a sub-agent of session {SessionKey.stored(spawn.parent_key).shown}, and your task is over.",
            "Your next reply is reported to your parent and posted to its chat.",
            "Write it as `Result:` and, if something needs saying beside it, `Notes:`.",
            "Leave out how it ended; the gateway adds the status by itself.",
            "If nothing needs to be said, reply with exactly ANNOUNCE_SKIP.",
        ]
    )


def _words(entry: Entry) -> str | None:
    """What a model said in it, if anything."""
    said = entry.message
    return said.text if isinstance(said, AssistantMessage) and said.text.strip() else None
