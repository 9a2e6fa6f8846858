"""The event publisher: from the gateway's feed to the frames of the subscribers.

Every event is encoded once for all listeners that see it alike, whatever their number. Text of a reply goes out
at once when it begins and then at a steady pace; the end always has the whole text.
"""

import logging
from collections import OrderedDict, deque
from copy import copy
from typing import Any

import anyio

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import StoreError
from crossclaw.domain.events import (
    ApprovalAsked,
    ApprovalSettled,
    CallRepeated,
    CompactionPhase,
    EntryAppended,
    FeedEvent,
    HeartbeatNews,
    Injected,
    JobNews,
    ReplyPiece,
    RunAccepted,
    RunEnded,
    RunStarted,
    SessionChanged,
    SpeechAllowed,
    ThoughtPiece,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import PICTURES, stored_in
from crossclaw.domain.messages import Message, UserMessage, words_of
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.gateway.context import WithMedia
from crossclaw.gateway.event_types import EVENT_TYPES
from crossclaw.gateway.frames import EventFrame, event
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.messages import entry_message, text_message, wire_message
from crossclaw.gateway.run_events import RunEvent, RunEvents
from crossclaw.gateway.subscribers import Audience, Subscriber

log = logging.getLogger(__name__)

PICTURED_MAX = (
    1_000  # entries that wait for a picture; beyond, an event only tells that there is one
)
EVENT_NAMES = tuple(EVENT_TYPES)


_Listeners = list[tuple[Subscriber, str | None]]
RunStep = CallRepeated | ToolStarted | ToolProgress | ToolEnded | CompactionPhase


class EventPublisher:
    """Gets every event (`on_event` is a listener of the feed) and sends each client its part."""

    def __init__(
        self,
        audience: Audience,
        clock: Clock,
        limits: GatewayLimits,
        with_media: WithMedia | None = None,
    ) -> None:
        self._with_media = with_media
        self._pictured: deque[tuple[SessionKey, Entry]] = deque()
        """Entries whose pictures have to be read, and those of the same sessions behind them."""
        self._pictures_wait = anyio.Event()
        self._audience = audience
        self._clock = clock
        self._limits = limits
        self._open_runs: OrderedDict[str, RunEvents] = OrderedDict()
        self._unfinished: dict[str, SessionKey] = {}
        """Runs with text that waits for its time."""
        self._silenced: set[SessionKey] = set()
        """Sessions whose run under way may not be shown: a message that joins it is not either."""
        self._work = anyio.Event()
        self._gaps: set[tuple[Subscriber, str]] = set()
        """Listeners that missed a delta of a run: the next one repeats the whole text for them."""

    def on_event(self, heard: FeedEvent) -> None:
        match heard:
            case ReplyPiece():
                self._piece(heard, self._clock.now_ms())
            case EntryAppended(key=key, entry=entry):
                self._entry(key, entry)
            case RunAccepted() | ThoughtPiece():
                pass
            case RunEnded(run=run) if run.ended_at is not None:
                self._tell_of(heard, run.ended_at)
            case RunStarted(run=run) if run.started_at is not None and run.epoch == 1:
                self._tell_of(heard, run.started_at)
            case _:
                self._tell_of(heard, self._clock.now_ms())

    def _tell_of(self, heard: FeedEvent, now_ms: int) -> None:
        match heard:
            case RunStarted(run=run):
                run_events = self._run_events(run.run_id)
                self._tell(run.run_id, run.key, run_events.started(run, now_ms))
                run_events.may_speak(run.key not in self._silenced)
                self._changed(run.key, "agent.run.started", now_ms)
            case RunEnded(run=run):
                self._ended(heard, now_ms)
                self._changed(run.key, "agent.run.ended", now_ms)
            case CallRepeated() | ToolStarted() | ToolProgress() | ToolEnded() | CompactionPhase():
                self._tell(heard.run_id, heard.key, self._within(heard, now_ms))
            case Injected(key=key, entry=entry):
                self._entry(key, entry)
                self._injected(key, entry)
            case SessionChanged(key=key, reason=reason):
                self._changed(key, reason, now_ms)
            case SpeechAllowed(key=key, allowed=allowed):
                self._let_speak(key, allowed)
            case ApprovalAsked(approval=approval) | ApprovalSettled(approval=approval):
                self._changed(approval.key, "agent.run.approval", now_ms)
            case JobNews():
                self._tell_watchers("cron", heard)
            case HeartbeatNews():
                self._tell_watchers("heartbeat", heard)
            case _:
                pass

    async def serve(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_text, name="events: text")
            tasks.start_soon(self._send_pictured, name="events: pictures")

    async def _send_text(self) -> None:
        """Sends text that waited for its time. Sleeps while no reply is being written."""
        while True:
            await self._work.wait()
            await anyio.sleep(self._limits.piece_s)
            self._send_due()
            if not self._unfinished:
                self._work = anyio.Event()

    # ── runs ───────────────────────────────────────────────────────────────────────────────────

    def _within(self, heard: RunStep, now_ms: int) -> list[RunEvent]:
        """What happens between a run's words."""
        run_events = self._run_events(heard.run_id)
        match heard:
            case CallRepeated():
                return run_events.call_repeated(heard, now_ms)
            case ToolStarted():
                arguments = _shortened(heard.arguments, self._limits.tool_text_chars_max)
                return run_events.tool_started(heard, arguments, now_ms)
            case ToolProgress():
                return run_events.tool_progress(heard, now_ms)
            case ToolEnded():
                return run_events.tool_ended(heard, now_ms)
            case CompactionPhase():
                return run_events.compacting(heard, now_ms)

    def _piece(self, piece: ReplyPiece, now_ms: int) -> None:
        run_events = self._run_events(piece.run_id)
        if events := run_events.said(piece, now_ms):
            self._tell(piece.run_id, piece.key, events)
        if piece.run_id in self._unfinished:
            return  # it goes out with the text that waits already
        self._tell(piece.run_id, piece.key, self._due(run_events, now_ms))
        if run_events.waiting:
            self._unfinished[piece.run_id] = piece.key
            self._work.set()

    def _send_due(self) -> None:
        now_ms = self._clock.now_ms()
        for run_id, key in list(self._unfinished.items()):
            run_events = self._open_runs.get(run_id)
            if run_events is not None:
                self._tell(run_id, key, self._due(run_events, now_ms))
            if run_events is None or not run_events.waiting:
                self._unfinished.pop(run_id, None)

    def _due(self, run_events: RunEvents, now_ms: int) -> list[RunEvent]:
        return run_events.due(now_ms, self._limits.piece_s * 1000, self._limits.delta_s * 1000)

    def _ended(self, heard: RunEnded, now_ms: int) -> None:
        run = heard.run
        run_events = self._open_runs.pop(run.run_id, None) or RunEvents(run.run_id)
        self._unfinished.pop(run.run_id, None)
        if run.started_at is not None:  # a command or a notice says nothing of the run under way
            self._silenced.discard(run.key)
        listeners = self._audience.of_run(run.run_id, run.key)
        if run.merged_into is not None and run.status == "ok":
            # Who follows the session has heard the words with the run that carried them, and would
            # show them twice. Who follows this run alone has not.
            followers = self._audience.of_session(run.key)
            served = [each for each in listeners if each[0] in followers]
            self._tell_all(run, copy(run_events).ended(run, now_ms, withheld=True), served)
            listeners = [each for each in listeners if each[0] not in followers]
        self._tell_all(run, run_events.ended(run, now_ms, withheld=heard.withheld), listeners)
        self._audience.ended(run.run_id)
        self._gaps = {gap for gap in self._gaps if gap[1] != run.run_id}

    def _let_speak(self, key: SessionKey, allowed: bool) -> None:
        open_here = [run_events for run_events in self._open_runs.values() if run_events.key == key]
        for run_events in open_here:
            run_events.may_speak(allowed)
        self._silenced.discard(key)
        if open_here and not allowed:
            self._silenced.add(key)

    def _run_events(self, run_id: str) -> RunEvents:
        run_events = self._open_runs.get(run_id)
        if run_events is None:
            run_events = self._open_runs[run_id] = RunEvents(run_id)
            if len(self._open_runs) > self._limits.runs_published_max:
                self._open_runs.popitem(last=False)
        return run_events

    def _tell(self, run_id: str, key: SessionKey, events: list[RunEvent]) -> None:
        if events:
            listeners = self._audience.of_run(run_id, key)
            for each in events:
                self._tell_one(run_id, key, each, listeners)

    def _tell_all(self, run: Run, events: list[RunEvent], listeners: _Listeners) -> None:
        for each in events:
            self._tell_one(run.run_id, run.key, each, listeners)

    def _tell_one(
        self,
        run_id: str,
        key: SessionKey,
        run_event: RunEvent,
        listeners: _Listeners,
    ) -> None:
        frames: dict[tuple[int, str, bool], EventFrame] = {}
        canonical = shown_key(key)
        for subscriber, spelled in listeners:
            if run_event.tools_only and not subscriber.hears_tools:
                continue
            whole = run_event.is_delta and (subscriber, run_id) in self._gaps
            look = (subscriber.protocol, spelled or canonical, whole)
            frame = frames.get(look)
            if frame is None:
                body = run_event.body(subscriber.protocol, spelled or canonical, whole=whole)
                frame = frames[look] = event(run_event.name, body, droppable=run_event.is_delta)
            sent = subscriber.push(frame)
            if run_event.is_delta and sent == whole:
                self._mark_gap(subscriber, run_id, missed=not sent)

    def _mark_gap(self, subscriber: Subscriber, run_id: str, *, missed: bool) -> None:
        if missed:
            self._gaps.add((subscriber, run_id))
        else:
            self._gaps.discard((subscriber, run_id))

    # ── sessions ───────────────────────────────────────────────────────────────────────────────

    def _entry(self, key: SessionKey, entry: Entry) -> None:
        if not self._audience.sessions.get(key) or entry.message is None:
            return
        behind = any(waiting == key for waiting, _ in self._pictured)
        wanted = self._with_media is not None and (behind or stored_in(entry.message, PICTURES))
        if wanted and len(self._pictured) < PICTURED_MAX:
            self._pictured.append((key, entry))
            self._pictures_wait.set()
        else:
            self._tell_entry(key, entry)

    async def _send_pictured(self) -> None:
        """Sends entries with pictures, in their order; others of the same sessions wait behind them."""
        while True:
            await self._pictures_wait.wait()
            self._pictures_wait = anyio.Event()
            while self._pictured and self._with_media is not None:
                key, entry = self._pictured[0]
                try:
                    (entry,) = await self._with_media([entry], PICTURES)
                except StoreError as error:
                    log.warning("a picture is left out of an event: %s", error)
                self._pictured.popleft()
                self._tell_entry(key, entry)

    def _tell_entry(self, key: SessionKey, entry: Entry) -> None:
        listeners = self._audience.sessions.get(key) or ()
        payload = {
            "sessionKey": shown_key(key),
            "agentId": key.agent_id,
            "message": entry_message(entry),
            "messageId": entry.entry_id,
            "messageSeq": entry.seq,
            "seq": entry.seq,
        }
        if entry.run_id is not None:
            payload["runId"] = entry.run_id
        frame = event("session.message", payload)
        for subscription in tuple(listeners):
            subscription.subscriber.push(frame)

    def _injected(self, key: SessionKey, entry: Entry) -> None:
        """Sends words without a run to chats as a `final` of their own."""
        if entry.message is None:
            return
        payload = {
            "runId": f"inject-{entry.entry_id}",
            "seq": 0,
            "state": "final",
            "message": _as_said(entry.message, entry.at),
        }
        self._tell(f"inject-{entry.entry_id}", key, [RunEvent("chat", payload)])

    def _tell_watchers(self, name: str, payload: Any) -> None:
        if watchers := self._audience.watchers():
            frame = event(name, payload, droppable=True)
            for subscriber in watchers:
                subscriber.push(frame)

    def _changed(self, key: SessionKey, reason: str, now_ms: int) -> None:
        listeners = self._audience.of_all_sessions
        if not listeners:
            return
        payload = {
            "sessionKey": shown_key(key),
            "agentId": key.agent_id,
            "reason": reason,
            "ts": now_ms,
        }
        frame = event("sessions.changed", payload)
        for subscription in tuple(listeners):
            subscription.subscriber.push(frame)


def _as_said(message: Message, at: int) -> dict[str, Any]:
    """The message as chats show it: a sub-agent's report counts as said, though it is no assistant's."""
    if isinstance(message, UserMessage):
        return text_message(words_of(message), at)
    return wire_message(message, at)


def shown_key(key: SessionKey) -> str:
    """The full key; the shared session is shown as the main one of its agent."""
    return key.shown


def _shortened(value: Any, chars_max: int) -> Any:
    match value:
        case str() if len(value) > chars_max:
            return f"{value[:chars_max]}… ({len(value) - chars_max} more characters)"
        case dict():
            return {name: _shortened(part, chars_max) for name, part in value.items()}
        case list():
            return [_shortened(part, chars_max) for part in value]
        case _:
            return value
