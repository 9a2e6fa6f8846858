"""Tracing: from any run, session or exchange to the root cause, and from there all that followed as one tree."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import NotFound
from crossclaw.domain.ids import FOLLOWS, call_follower_id
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import (
    AssistantMessage,
    Provenance,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserMessage,
    words_of,
)
from crossclaw.domain.sessions import Entry
from crossclaw.domain.states import UNDER_WAY, State, call_state, run_state
from crossclaw.domain.texts import with_ellipsis
from crossclaw.domain.traces import TraceSpan, arranged
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.monitoring import DeliveryRow, RunRow, SpawnRow, TraceRows

SPANS_MAX = 10_000  # a page shows them smoothly; a cascade of 200 runs has some thousands
TEXT_CHARS = 200  # of words in a row; the run itself has all of them


class TraceTree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    root: str
    """The run that began it all."""
    key: str
    kind: str
    ts: int
    start: int
    spans: list[TraceSpan]
    asked: str
    """The words that began it."""
    origin: Provenance | None = None
    end: int | None = None
    """The time at which the last of it ended; None while something is under way."""
    runs: int = 0
    failed: int = 0
    truncated: bool = False


class Tracing:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._watching = ledger.monitoring
        self._clock = clock

    async def find_root(self, name: str, key: SessionKey | None) -> RunRow:
        """The first run of a chain, found from a run, an exchange, or the newest run of a session."""
        run = await self._ledger.find_run(name)
        if run is None and (exchange := await self._ledger.find_exchange(name)) is not None:
            run = await self._ledger.find_run(exchange.run_id)
        if run is None and key is not None:
            run_id = await self._newest(key)
            run = await self._ledger.find_run(run_id) if run_id else None
        chain = [*run.cause.chain[:1], run.run_id] if run else []
        if not (found := await self._watching.runs_by_id(chain)):
            raise NotFound(f"there is no run, exchange or session with runs by the name {name}")
        return found[0]

    async def _newest(self, key: SessionKey) -> str | None:
        lanes = await self._watching.lanes([key.text])
        if key.text in lanes:
            return lanes[key.text].run_id
        session = await self._ledger.find_session(key)
        return session.last_run_id if session else None

    async def trace(self, root: RunRow) -> TraceTree:
        rows = await self._watching.trace(root.run_id, limit=SPANS_MAX)
        approvals = {
            (each.run_id, each.tool_use_id): each.wish.shown
            for each in await self._ledger.list_waiting_approvals()
        }
        now = self._clock.now_ms()
        spans = arranged(list(_Assembly(rows, approvals).spans())[:SPANS_MAX], now)
        message = _first_message(rows.entries.get(root.run_id, []))
        message = message or await self._ledger.find_inbox(root.run_id)
        runs = [span for span in spans if span.kind == "run"]
        is_open = any(span.end is None for span in spans)
        return TraceTree(
            root=root.run_id,
            key=root.key,
            kind=root.kind,
            ts=now,
            start=min((span.start for span in spans), default=root.created_at),
            end=None if is_open else max((span.end or 0 for span in spans), default=None),
            spans=spans,
            asked=_short(words_of(message)) if message else "",
            origin=message.provenance if message else None,
            runs=len(runs),
            failed=sum(_is_bad(span) for span in runs),
            truncated=rows.truncated,
        )


def _is_bad(span: TraceSpan) -> bool:
    return span.standing is not None and span.standing.is_bad


def _first_message(entries: list[Entry]) -> UserMessage | None:
    return next((each.message for each in entries if isinstance(each.message, UserMessage)), None)


def _short(text: str) -> str:
    return with_ellipsis(" ".join(text[: TEXT_CHARS * 4].split()), TEXT_CHARS)


class _Assembly:
    """Builds the spans from the ledger's rows. What a tool call began lies under that call, with its rounds
    and its announce."""

    def __init__(self, rows: TraceRows, approvals: Mapping[tuple[str, str], str]) -> None:
        """`approvals`: the approvals that were asked for, by run and call."""
        self._rows = rows
        self._approvals = approvals
        self._callers: dict[str, str] = {}
        """The spans of tool calls, by the id of the first run that each began."""
        self._waits = {wait.run_id: wait.target_key for wait in rows.waits}
        self._shown = {run.run_id for run in rows.runs}

    def spans(self) -> Iterator[TraceSpan]:
        for run in self._rows.runs:
            yield self._run(run)
            yield from self._steps(run, self._rows.entries.get(run.run_id, []))
        for number, each in enumerate(self._rows.deliveries):
            yield _delivery(each, number)
        for spawn in self._rows.spawns:
            if spawn.announced_at is not None:
                yield self._report(spawn)

    def _run(self, run: RunRow) -> TraceSpan:
        message = _first_message(self._rows.entries.get(run.run_id, []))
        waits_for = [self._waits[run.run_id]] if run.run_id in self._waits else []
        standing = run.standing
        if waits_for and standing is not None and standing.name in UNDER_WAY:
            standing = run_state(run.status, waits_for=waits_for)
        return TraceSpan(
            id=run.run_id,
            kind="run",
            name=_run_name(run),
            key=run.key,
            start=run.created_at,
            began=run.started_at,
            end=run.ended_at,
            parent=self._parent(run),
            standing=standing,
            text=_short(words_of(message)) if message else None,
            run_id=run.run_id,
        )

    def _parent(self, run: RunRow) -> str | None:
        """The parent span: the call that began the run, or its exchange: `run::call`, `run::call::round-1`,
        `run::call::announce`."""
        name = run.run_id
        while FOLLOWS in name:
            if name in self._callers:
                return self._callers[name]
            name = name.rpartition(FOLLOWS)[0]
            if name in self._shown and name not in self._callers and name != run.cause:
                return name
        return run.cause if run.cause in self._shown else None

    def _steps(self, run: RunRow, entries: list[Entry]) -> Iterator[TraceSpan]:
        before = run.started_at or run.created_at
        results = {
            each.message.tool_use_id: each.message
            for each in entries
            if isinstance(each.message, ToolResultMessage)
        }
        for entry in entries:
            if isinstance(entry.message, AssistantMessage):
                yield _model(run, entry, entry.message, before)
                yield from self._calls(run, entry, entry.message, results)
            elif entry.type == "compaction":
                yield _compaction(run, entry, before)
            before = max(before, entry.at)
        if run.ended_at is None and run.status == "running" and not _awaits_tools(entries, results):
            yield _thinking(run, before)

    def _calls(
        self,
        run: RunRow,
        entry: Entry,
        message: AssistantMessage,
        results: Mapping[str, ToolResultMessage],
    ) -> Iterator[TraceSpan]:
        if isinstance(message.content, str):
            return
        for call in message.content:
            if not isinstance(call, ToolUse):
                continue
            span = _call(run, entry, call, results.get(call.id))
            if (asks := self._approvals.get((run.run_id, call.id))) is not None:
                span = replace(span, standing=run_state("waiting", asks=asks))
            self._callers[call_follower_id(run.run_id, call.id)] = span.id
            yield span
            if call.name == "sessions_send" and call.input.get("timeoutSeconds") != 0:
                yield _wait(span, call)

    def _report(self, spawn: SpawnRow) -> TraceSpan:
        at = spawn.announced_at or 0
        return TraceSpan(
            id=f"report:{spawn.run_id}",
            kind="report",
            name="report to its parent",
            key=spawn.parent_key,
            start=at,
            end=at,
            parent=self._callers.get(spawn.run_id, spawn.run_id),
            standing=spawn.standing,
            run_id=spawn.run_id,
        )


def _run_name(run: RunRow) -> str:
    if run.kind == "round":
        return f"round {run.run_id.rpartition('round-')[2]}"
    return run.kind


def _model(run: RunRow, entry: Entry, message: AssistantMessage, before: int) -> TraceSpan:
    usage = message.usage or Usage()
    model = message.model or "model"
    return TraceSpan(
        id=f"{run.run_id}#{entry.seq}",
        kind="model",
        name=model,
        key=run.key,
        start=before,
        end=max(before, entry.at),
        parent=run.run_id,
        standing=State("failed", message.error) if message.error else None,
        tokens_in=usage.prompt,
        tokens_out=usage.output,
        cost_usd=usage.cost or 0.0,
        model=f"{message.provider}/{model}" if message.provider else model,
        text=_short(message.text) or None,
        run_id=run.run_id,
    )


def _call(run: RunRow, entry: Entry, call: ToolUse, result: ToolResultMessage | None) -> TraceSpan:
    end = None if result is None else max(entry.at, result.timestamp or entry.at)
    if result is None and run.ended_at is not None:
        end = run.ended_at
    start = entry.at
    if result is not None and end is not None and result.duration_ms is not None:
        start = max(entry.at, end - result.duration_ms)
    state = (
        call_state(call.name, result.content, is_error=result.is_error)
        if result is not None
        else State("stopped" if end is not None else "running")
    )
    return TraceSpan(
        id=f"{run.run_id}#{entry.seq}:{call.id}",
        kind="tool",
        name=call.name,
        key=run.key,
        start=start,
        end=end,
        parent=run.run_id,
        standing=None if state.name == "ok" else state,
        text=_short(msgspec.json.encode(call.input).decode()),
        run_id=run.run_id,
        call_id=call.id,
    )


def _wait(span: TraceSpan, call: ToolUse) -> TraceSpan:
    named = call.input.get("sessionKey") or call.input.get("label") or call.input.get("agentId")
    return TraceSpan(
        id=f"{span.id}:wait",
        kind="wait",
        name=f"waits for {named or 'the reply'}",
        key=span.key,
        start=span.start,
        end=span.end,
        parent=span.id,
        standing=State("timed out")
        if span.standing and span.standing.name == "timed out"
        else None,
        run_id=span.run_id,
    )


def _awaits_tools(entries: list[Entry], results: Mapping[str, ToolResultMessage]) -> bool:
    for entry in reversed(entries):
        if isinstance(entry.message, AssistantMessage):
            content = entry.message.content
            calls = (
                [] if isinstance(content, str) else [c for c in content if isinstance(c, ToolUse)]
            )
            return any(call.id not in results for call in calls)
    return False


def _thinking(run: RunRow, before: int) -> TraceSpan:
    return TraceSpan(
        id=f"{run.run_id}#now",
        kind="model",
        name="model at work",
        key=run.key,
        start=before,
        parent=run.run_id,
        standing=State("running"),
        run_id=run.run_id,
    )


def _compaction(run: RunRow, entry: Entry, before: int) -> TraceSpan:
    return TraceSpan(
        id=f"{run.run_id}#{entry.seq}",
        kind="compaction",
        name="compaction",
        key=run.key,
        start=before,
        end=max(before, entry.at),
        parent=run.run_id,
        run_id=run.run_id,
    )


def _delivery(each: DeliveryRow, number: int) -> TraceSpan:
    settled = each.state not in ("pending", "sending")
    return TraceSpan(
        id=f"delivery:{each.run_id}:{number}",
        kind="delivery",
        name=f"to {each.channel}",
        key=each.to,
        start=each.created_at,
        end=each.updated_at if settled else None,
        parent=each.run_id,
        standing=each.standing,
        text=_short(each.text),
        run_id=each.run_id,
    )
