"""Spawns: a task given to a sub-agent, and the report to its parent when it has ended.

    running → announcing → over         the child works, is asked what to report, has reported
    running → over                      it was stopped: the runtime reports in its place

Pure: what follows from the end of one of its runs is decided here, stored and carried out elsewhere.
The status is the runtime's; no words of a model change it.
"""

import re
from typing import Literal

import msgspec

from crossclaw.domain.addresses import Address
from crossclaw.domain.exchanges import CONTROL_TOKENS, is_silent
from crossclaw.domain.runs import EndStatus, Outcome, Run
from crossclaw.domain.texts import NO_OUTPUT, short_count, with_ellipsis

Cleanup = Literal["delete", "keep"]
SpawnState = Literal["running", "announcing", "over"]
SpawnStatus = Literal["success", "error", "timeout", "aborted"]

NO_NOTES = "none"
TASK_CHARS_SHOWN = 80  # of a task without a label, where it stands for the child's name

_STATUS: dict[EndStatus, SpawnStatus] = {
    "ok": "success",
    "error": "error",
    "timeout": "timeout",
    "aborted": "aborted",
}


class Spawn(msgspec.Struct, frozen=True, kw_only=True):
    child_key: str
    agent_id: str
    parent_key: str
    run_id: str
    task: str
    cleanup: Cleanup
    created_at: int
    label: str | None = None
    reply_to: Address | None = None
    """The chat that the parent was talking in when it asked."""
    state: SpawnState = "running"
    outcome: Outcome | None = None
    """How the task's run ended."""
    ended_at: int | None = None
    announced_at: int | None = None
    root: str | None = None
    """The run that began the whole chain; the announce is reserved on its count."""
    wakes: bool = False
    """Whether the report may begin a run of the parent, which is reserved as well."""

    @property
    def name(self) -> str:
        return self.label or with_ellipsis(" ".join(self.task.split()), TASK_CHARS_SHOWN)

    @property
    def status(self) -> SpawnStatus | None:
        return _STATUS[self.outcome.status] if self.outcome else None


class AskToAnnounce(msgspec.Struct, frozen=True):
    pass


class SpawnReport(msgspec.Struct, frozen=True):
    """The report to the parent. `posted` is False when the child asked for silence."""

    result: str
    notes: str = ""
    posted: bool = True


def next_step(
    spawn: Spawn, run: Run, outcome: Outcome
) -> tuple[Spawn, AskToAnnounce | SpawnReport]:
    """What follows from the end of one of its runs, and the spawn as it is then."""
    if run.kind == "spawn":
        spawn = msgspec.structs.replace(spawn, outcome=outcome)
        if outcome.status != "aborted":
            return msgspec.structs.replace(spawn, state="announcing"), AskToAnnounce()
        return _over(spawn), SpawnReport(_words(outcome), outcome.error or "")
    return _over(spawn), _announced(spawn, outcome)


def _announced(spawn: Spawn, outcome: Outcome) -> SpawnReport:
    task = spawn.outcome or Outcome("error", error="its end was not seen")
    reply = (outcome.reply or "").strip() if outcome.status == "ok" else ""
    if not reply:
        why = f"no announce: {outcome.error}" if outcome.error else ""
        return SpawnReport(_words(task), "; ".join(filter(None, [task.error, why])))
    sections = split_sections(reply)
    result, notes = ("" if words in CONTROL_TOKENS else words for words in sections)
    if any(sections) and not (result or notes):
        # A token, be it under a heading. What went wrong is the runtime's to say, whatever the child wishes.
        return SpawnReport("", task.error or "", posted=False)
    return SpawnReport(result or _words(task), "; ".join(filter(None, [notes, task.error])))


def _words(outcome: Outcome) -> str:
    """The words of a run for people; a control token is shown to nobody."""
    return "" if is_silent(outcome.reply) else outcome.reply or ""


def _over(spawn: Spawn) -> Spawn:
    return msgspec.structs.replace(spawn, state="over")


# Only a heading at the beginning of a line counts, bold or not.
_HEADING = re.compile(r"\s*(?:\*\*|__)?(status|result|notes)\s*:(?:\*\*|__)?\s*(.*)", re.I)


def split_sections(reply: str) -> tuple[str, str]:
    """The model's own Result and Notes; words under no heading are Result, a Status line is dropped."""
    sections: dict[str, list[str]] = {"result": [], "notes": []}
    place = "result"
    for line in reply.splitlines():
        heading = _HEADING.fullmatch(line)
        if heading is None:
            sections[place].append(line)
            continue
        name, rest = heading[1].lower(), heading[2]
        if name in sections:
            place = name
            sections[place].append(rest)
    return "\n".join(sections["result"]).strip(), "\n".join(sections["notes"]).strip()


def report_text(status: SpawnStatus, report: SpawnReport, stats: str) -> str:
    lines = [
        f"Status: {status}",
        f"Result: {report.result.strip() or NO_OUTPUT}",
        f"Notes: {report.notes.strip() or NO_NOTES}",
    ]
    return "\n".join([*lines, "", stats])


def note_text(spawn: Spawn, status: SpawnStatus, reason: str = "") -> str:
    """The note in the parent's transcript when the child asked for silence."""
    why = f" Reason: {reason.strip()}." if reason.strip() and status != "success" else ""
    return f"The sub-agent {spawn.name!r} has ended. Status: {status}.{why} It had nothing to announce."


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The time, tokens and cost that a child took."""

    runtime_ms: int | None
    input_tokens: int
    output_tokens: int
    cost_usd: float
    session_key: str
    session_id: str
    transcript: str | None = None

    def __str__(self) -> str:
        tokens = (
            f"tokens {short_count(self.input_tokens + self.output_tokens)} "
            f"(in {short_count(self.input_tokens)} / out {short_count(self.output_tokens)})"
        ).lower()  # OpenClaw writes 1.2m
        parts = [
            f"runtime {_duration(self.runtime_ms)}",
            tokens,
            _cost(self.cost_usd),
            f"sessionKey {self.session_key}",
            f"sessionId {self.session_id}",
            self.transcript and f"transcript {self.transcript}",
        ]
        return "Stats: " + " • ".join(part for part in parts if part)


def _duration(ms: int | None) -> str:
    if ms is None:
        return "n/a"
    seconds = round(ms / 1000)
    minutes, hours = seconds // 60, seconds // 3600
    if hours:
        return f"{hours}h{minutes % 60}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


def _cost(usd: float) -> str:
    if usd <= 0:
        return ""
    return f"est ${usd:.2f}" if usd >= 0.01 else f"est ${usd:.4f}"
