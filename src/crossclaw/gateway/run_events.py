"""The events of one run on the wire, from its start to its end.

`agent` events count from 1 in each run; `chat` events carry the number of the `agent` event before them. Both
have the text so far. Payloads are made without the session's key, which is spelled as each listener knows it.
"""

from typing import Any

import msgspec

from crossclaw.domain.events import (
    CallRepeated,
    CompactionPhase,
    ReplyPiece,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from crossclaw.domain.exchanges import CONTROL_TOKENS, is_silent
from crossclaw.domain.jobs import beyond_heartbeat
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import SAID_IN_CHAT, Run, RunKind
from crossclaw.domain.states import end_state
from crossclaw.gateway.messages import text_message

SEQ_AN_EPOCH = 1_000_000  # events of a run between two restarts; its `seq` goes on above them

CHARS_A_MS = 1_000  # of one kind of event

# Kinds that are asked for a token or for words: nothing of them is shown before the whole is known.
_CLOSED_KINDS = frozenset({"round", "announce", "cron", "hook", "node"})


class RunEvent(msgspec.Struct, frozen=True):
    """One event of a run; the session key is added for each listener."""

    name: str
    payload: dict[str, Any]
    delta_text: str | None = None
    """The new piece of a `chat` delta, which protocol 4 has beside the text so far."""
    replace: bool = False
    tools_only: bool = False

    @property
    def is_delta(self) -> bool:
        return self.delta_text is not None

    def body(self, protocol: int, session_key: str, *, whole: bool = False) -> dict[str, Any]:
        """The event's payload. `whole` repeats all the text, for a listener that missed a delta."""
        body = {**self.payload, "sessionKey": session_key}
        if not self.is_delta or protocol == 3:
            return body
        if self.replace or whole:
            return {**body, "deltaText": self.text, "replace": True}
        return {**body, "deltaText": self.delta_text}

    @property
    def text(self) -> str:
        text: str = self.payload["message"]["content"][0]["text"]
        return text


class RunEvents:
    __slots__ = (
        "_chat_at_ms",
        "_chat_text",
        "_open",
        "_piece_at_ms",
        "_piece_chars",
        "_replace",
        "_run_id",
        "_silenced",
        "_text",
        "key",
        "kind",
        "seq",
    )

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.key: SessionKey | None = None
        self.kind: RunKind | None = None
        self._open = True
        self._silenced = False
        self._text = ""
        self._piece_chars = 0
        self._piece_at_ms = 0
        self._chat_text = ""
        self._chat_at_ms = 0
        self._replace = False
        self.seq = 0

    # ── what happens ───────────────────────────────────────────────────────────────────────────

    def started(self, run: Run, now_ms: int) -> list[RunEvent]:
        self._open = run.kind not in _CLOSED_KINDS and run.plan.ack_chars_max is None
        self.key, self.kind = run.key, run.kind
        self._count_on(run)
        return [self._agent("lifecycle", {"phase": "start", "startedAt": run.started_at}, now_ms)]

    def may_speak(self, allowed: bool) -> None:
        """Applies the send policy, which may change while a reply is written. It concerns chats only, not
        words that answer their caller."""
        self._silenced = self.kind in SAID_IN_CHAT and not allowed

    def said(self, piece: ReplyPiece, now_ms: int) -> list[RunEvent]:
        """Takes a piece of the reply. A new turn, or the same one begun anew, starts from an empty text."""
        if not self._open:
            return []
        events: list[RunEvent] = []
        begins = piece.restarted or len(piece.text) == len(piece.piece)
        if begins and self._text:
            events = self._pieces(now_ms)
            self._piece_chars = 0
        self._replace |= piece.restarted
        self._text = piece.text
        return events

    def call_repeated(self, event: CallRepeated, now_ms: int) -> list[RunEvent]:
        """The event of a repeated model call. Ours, not OpenClaw's: its clients ignore streams that they do
        not know."""
        data = {"phase": "retry", "reason": event.reason, "waitMs": round(event.wait_s * 1000)}
        if event.model is not None:
            data = {**data, "phase": "fallback", "model": event.model}
        return [self._agent("model", data, now_ms)]

    def tool_started(self, event: ToolStarted, arguments: Any, now_ms: int) -> list[RunEvent]:
        data = {
            "phase": "start",
            "name": event.name,
            "toolCallId": event.tool_use_id,
            "args": arguments,
        }
        return [*self._pieces(now_ms), self._agent("tool", data, now_ms, tools_only=True)]

    def tool_progress(self, event: ToolProgress, now_ms: int) -> list[RunEvent]:
        data = {
            "phase": "update",
            "name": event.name,
            "toolCallId": event.tool_use_id,
            "partialResult": {"content": [{"type": "text", "text": event.text}]},
        }
        return [self._agent("tool", data, now_ms, tools_only=True)]

    def tool_ended(self, event: ToolEnded, now_ms: int) -> list[RunEvent]:
        data = {
            "phase": "result",
            "name": event.name,
            "toolCallId": event.tool_use_id,
            "isError": event.is_error,
            "durationMs": event.duration_ms,
        }
        if event.standing.name != "ok":
            data["standing"] = msgspec.to_builtins(event.standing)
        return [self._agent("tool", data, now_ms, tools_only=True)]

    def compacting(self, event: CompactionPhase, now_ms: int) -> list[RunEvent]:
        data: dict[str, Any] = {"phase": event.phase}
        if event.phase == "end":
            data["willRetry"] = event.retries
        return [*self._pieces(now_ms), self._agent("compaction", data, now_ms)]

    def ended(self, run: Run, now_ms: int, *, withheld: bool = False) -> list[RunEvent]:
        self._count_on(run)
        self._silenced, silent = withheld, is_silent(run.reply)
        events: list[RunEvent] = []
        if run.kind != "command":
            events += self._last_pieces(run, silent, now_ms)
            events.append(self._agent("lifecycle", _end_data(run), now_ms))
        events.append(
            self._chat({"state": "final"} if withheld else _end_chat(run, silent, now_ms))
        )
        return events

    def _count_on(self, run: Run) -> None:
        """Continues the numbers of a run that a process before this one had begun, and sent events of."""
        self.seq = max(self.seq, (run.epoch - 1) * SEQ_AN_EPOCH)

    # ── the text, at its pace ──────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> bool:
        """Whether there is text that was not sent yet."""
        unsent = self._piece_chars < len(self._text) or self._chat_text != self._text
        return self._open and not self._silenced and unsent and not self._may_be_token

    @property
    def _may_be_token(self) -> bool:
        """Whether the text may yet become a control token such as `NO_REPLY`, which is for the gateway alone: then
        nothing of it is shown."""
        words = self._text.strip()
        return any(token.startswith(words) for token in CONTROL_TOKENS)

    def due(self, now_ms: int, piece_ms: float, delta_ms: float) -> list[RunEvent]:
        """The events whose time has come. Each repeats the whole text, so for a long one they are rarer:
        about two megabytes a second for a client, however long it gets."""
        slower = len(self._text) / CHARS_A_MS
        events: list[RunEvent] = []
        if now_ms - self._piece_at_ms >= max(piece_ms, slower):
            events += self._pieces(now_ms)
        if now_ms - self._chat_at_ms >= max(delta_ms, slower) and not self._may_be_token:
            events += self._delta(now_ms)
        return events

    def _last_pieces(self, run: Run, silent: bool, now_ms: int) -> list[RunEvent]:
        """The last text events of a run. Clients expect some text before the end, also from a model that does
        not stream."""
        if silent if run.status == "ok" else self._may_be_token:
            return []
        unheard = not self._text and bool(run.reply) and run.status == "ok"
        if unheard:
            self._text = run.reply or ""
        return [*self._all_pieces(now_ms), *(self._delta(now_ms) if unheard else ())]

    def _pieces(self, now_ms: int) -> list[RunEvent]:
        return [] if self._may_be_token else self._all_pieces(now_ms)

    def _all_pieces(self, now_ms: int) -> list[RunEvent]:
        if not self._open or self._silenced or self._piece_chars >= len(self._text):
            return []
        data = {"text": self._text, "delta": self._text[self._piece_chars :]}
        self._piece_chars, self._piece_at_ms = len(self._text), now_ms
        return [self._agent("assistant", data, now_ms)]

    def _delta(self, now_ms: int) -> list[RunEvent]:
        if not self._open or self._silenced or self._text == self._chat_text or not self._text:
            return []
        follows = self._text.startswith(self._chat_text)
        new = self._text[len(self._chat_text) :] if follows else self._text
        message = text_message(self._text, now_ms)
        delta = RunEvent(
            "chat",
            {"runId": self._run_id, "seq": self.seq, "state": "delta", "message": message},
            delta_text=new,
            replace=self._replace or not follows,
        )
        self._chat_text, self._chat_at_ms, self._replace = self._text, now_ms, False
        return [delta]

    # ── making ─────────────────────────────────────────────────────────────────────────────────

    def _agent(
        self, stream: str, data: dict[str, Any], now_ms: int, *, tools_only: bool = False
    ) -> RunEvent:
        self.seq += 1
        payload = {
            "runId": self._run_id,
            "seq": self.seq,
            "stream": stream,
            "ts": now_ms,
            "data": data,
        }
        return RunEvent("agent", payload, tools_only=tools_only)

    def _chat(self, fields: dict[str, Any]) -> RunEvent:
        return RunEvent("chat", {"runId": self._run_id, "seq": self.seq, **fields})


def _end_data(run: Run) -> dict[str, Any]:
    data: dict[str, Any] = {"phase": "end"}
    if run.status == "error":
        data = {"phase": "error", "error": run.error or "the run failed"}
    elif run.status != "ok":
        data["aborted"] = True
    if run.status != "ok":
        data["standing"] = msgspec.to_builtins(end_state(run.status, run.error))
    if run.started_at is not None:
        data["startedAt"] = run.started_at
    if run.ended_at is not None:
        data["endedAt"] = run.ended_at
    return data


def _end_chat(run: Run, silent: bool, now_ms: int) -> dict[str, Any]:
    if run.status == "error":
        return {"state": "error", "errorMessage": run.error or "the run failed"}
    if run.status != "ok":
        return {"state": "aborted", "stopReason": "timeout" if run.status == "timeout" else "rpc"}
    words = run.reply or ""
    if run.plan.ack_chars_max is not None:
        words = beyond_heartbeat(words, run.plan.ack_chars_max)
        silent = is_silent(words)
    if silent:
        return {"state": "final"}
    return {"state": "final", "message": text_message(words, run.ended_at or now_ms)}
