"""States: how a session, a run, an exchange, a child, a job's tick, a delivery or a tool call stands, in one
set of words. The page, the terminal, the metrics and the wire all show what is decided here.

    under way    queued · running · waiting (for whom) · needs approval
    over         ok · failed · timed out · stopped · over budget · uncertain
    neither      idle (nothing was ever asked of it)

Pure: what is stored goes in, a `State` comes out. A reason stands beside every end that is not ok.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.texts import with_ellipsis
from crossclaw.domain.tools import SESSION_GROUPS, names_in

StateName = Literal[
    "idle",
    "queued",
    "running",
    "waiting",
    "needs approval",
    "ok",
    "failed",
    "timed out",
    "stopped",
    "over budget",
    "uncertain",
]
UNDER_WAY: frozenset[StateName] = frozenset({"queued", "running", "waiting", "needs approval"})
BAD: frozenset[StateName] = frozenset({"failed", "timed out", "over budget", "uncertain"})
"""Ends that a person should learn of. To be stopped is a person's own wish."""

OVER_BUDGET = "over budget"
"""The beginning of the reason of a run that a budget has ended."""
WHY_CHARS_MAX = 400  # of a reason in a list; the run itself has all of it

_ENDS: dict[str, StateName] = {
    "ok": "ok",
    "success": "ok",
    "error": "failed",
    "timeout": "timed out",
    "aborted": "stopped",
}
_UNDER_WAY: dict[str, StateName] = {
    "queued": "queued",
    "running": "running",
    "waiting": "waiting",
    "announcing": "running",
}
_DELIVERIES: dict[str, StateName] = {
    "pending": "queued",
    "sending": "running",
    "delivered": "ok",
    "uncertain": "uncertain",
    "failed": "failed",
}
_TICKS: dict[str, StateName] = {
    "running": "running",
    "ok": "ok",
    "error": "failed",
    "skipped": "stopped",
    "missed": "timed out",
}


class State(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    name: StateName
    why: str | None = None
    """The reason of an end that is not ok, or what is waited for."""
    waits_for: tuple[str, ...] = ()
    """The keys of the sessions that it waits for."""
    queued: int = 0
    """How many wait behind it; for `queued` itself, how many there are."""
    since: int | None = None
    run_id: str | None = None
    """The run with the details."""

    @property
    def text(self) -> str:
        """The state in a few words, without the reason."""
        if self.name == "queued":
            return f"{self.queued} queued" if self.queued else "queued"
        behind = f", {self.queued} queued" if self.queued else ""
        if self.name == "waiting":
            return f"waits for {', '.join(self.waits_for) or self.why or 'a run'}{behind}"
        return f"{self.name}{behind}"

    @property
    def is_bad(self) -> bool:
        return self.name in BAD


IDLE = State("idle")


def short_reason(error: str | None) -> str | None:
    return None if error is None else with_ellipsis(error, WHY_CHARS_MAX)


def end_state(
    status: str, error: str | None = None, *, since: int | None = None, run_id: str | None = None
) -> State:
    """The state of something that has ended with the status of a run."""
    name = _ENDS.get(status, "failed")
    if name in ("failed", "timed out") and (error or "").startswith(OVER_BUDGET):
        name = "over budget"
    why = None if name == "ok" else short_reason(error)
    return State(name, why, since=since, run_id=run_id)


def run_state(
    status: str,
    error: str | None = None,
    *,
    waits_for: Sequence[str] = (),
    asks: str | None = None,
    since: int | None = None,
    run_id: str | None = None,
) -> State:
    """The state of a run. `asks`: what a person has to approve before it goes on."""
    if status not in _UNDER_WAY:
        return end_state(status, error, since=since, run_id=run_id)
    if asks is not None:
        return State("needs approval", short_reason(asks), since=since, run_id=run_id)
    name = "waiting" if waits_for and status != "queued" else _UNDER_WAY[status]
    return State(name, waits_for=tuple(waits_for), since=since, run_id=run_id)


def lane_state(
    key: SessionKey,
    status: str,
    *,
    behind: int,
    waits_for: Sequence[str] = (),
    asks: str | None = None,
    since: int | None = None,
    run_id: str | None = None,
    guest_is_here: bool = True,
) -> State:
    """The state of a session in which something is under way. A guest answers from outside: until it has, the
    session waits for it and nobody is at work here. `behind`: how many are queued, itself included if it is."""
    state = run_state(status, waits_for=waits_for, asks=asks, since=since, run_id=run_id)
    if key.is_guest and state.name == "running":
        name = key.text.rpartition(":")[2]
        why = f"the guest {name}" + ("" if guest_is_here else ", which is away")
        state = State("waiting", why, since=since, run_id=run_id)
    return msgspec.structs.replace(state, queued=behind)


def exchange_state(
    *, over: bool, worst: State | None, current: State | None, announce: str | None = None
) -> State:
    """The state of a send or a spawn: what is under way of it; once it is over, the first of its runs that
    did not end well, and after those an announce that did not arrive."""
    if not over:
        return current or State("running")
    if worst is not None:
        return worst
    return (
        State("failed", "the announce could not be delivered")
        if announce == "failed"
        else State("ok")
    )


def delivery_state(state: str, error: str | None = None, attempt: int = 0) -> State:
    name = _DELIVERIES.get(state, "failed")
    if name == "queued" and attempt:
        return State(
            "waiting",
            short_reason(f"the next attempt, after: {error}" if error else "the next attempt"),
        )
    return State(name, None if name == "ok" else short_reason(error))


def tick_state(status: str, summary: str | None = None, *, run_id: str | None = None) -> State:
    name = _TICKS.get(status, "failed")
    if name == "failed" and (summary or "").startswith(OVER_BUDGET):
        name = "over budget"
    return State(name, None if name in ("ok", "running") else short_reason(summary), run_id=run_id)


_PROGRAMS = {"bash", *names_in("runtime")}
"""Tools whose answer ends with the exit code of a program; `bash` is OpenClaw's, in imported transcripts."""
_WITH_STATUS = names_in(*SESSION_GROUPS, "guests")
"""Tools that say in the `status` of their answer whether they were refused."""
_EXIT = re.compile(r"\[exit code (-?\d+)\]\s*\Z")
_STATUSES = frozenset({"error", "forbidden", "timeout"})


def call_state(name: str, content: Any, *, is_error: bool) -> State:
    """The state of a tool call that has its result. A program that ended with another code than 0 has failed,
    and so has a session tool that was refused, though the tool itself did its work."""
    text = content if isinstance(content, str) else ""
    found = _EXIT.search(text[-64:]) if name in _PROGRAMS else None
    if found and found[1] != "0":
        return State("failed", f"exit code {found[1]}")
    sent = content if name in _WITH_STATUS and isinstance(content, dict) else {}
    if sent.get("status") in _STATUSES:
        status = "timeout" if sent["status"] == "timeout" else "error"
        return end_state(status, str(sent.get("error") or sent["status"]))
    if is_error:
        why = text or (content.get("error") if isinstance(content, dict) else None)
        return State("failed", short_reason(str(why)) if why else None)
    return State("ok")
