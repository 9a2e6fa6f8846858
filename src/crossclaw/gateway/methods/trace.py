"""runs.trace and exchanges.trace: what one run did and why it was begun; what became of one send or spawn.
Ours: OpenClaw has none."""

import builtins
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec

from crossclaw.domain.aliases import IdText
from crossclaw.domain.errors import NotFound
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.messages import AssistantMessage, Usage, UserMessage, words_of
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.domain.states import UNDER_WAY, State, exchange_state
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.messages import short_wire_message, waiting_message, wire_message
from crossclaw.gateway.methods.map import require_person, shown_rows
from crossclaw.gateway.methods.search import ENTRY_BYTES_MAX
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.monitoring import DeliveryRow, ExchangeRow, RunRow, SpawnRow
from crossclaw.sessions.fitting import fitting, with_small_media

CHAIN_MAX = 200  # runs of a cause; a cascade ends within twelve hops and a few rounds each

ENTRIES_MAX = 5_000  # of one run: a hundred turns of fifty calls each
LIST_MAX = 200  # exchanges of one answer; older ones are found from their sessions

Entries = list[Entry]
R = TypeVar("R", bound=msgspec.Struct)


class RunTraceParams(Params, frozen=True):
    run_id: IdText


class ExchangeParams(Params, frozen=True):
    id: IdText
    """An exchange, a run that belongs to one, or the key of a child session."""


class ExchangeListParams(Params, frozen=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = 50
    ids: Annotated[list[IdText], msgspec.Meta(max_length=LIST_MAX)] | None = None
    """Only these: ids of sends, keys of child sessions."""


class ExchangeListResult(Result, frozen=True):
    exchanges: list[ExchangeRow]


class TraceEntry(Result, frozen=True):
    seq: int
    at: int
    type: str
    message: dict[str, Any] | None = None
    note: dict[str, Any] | None = None


class RunSpending(Result, frozen=True):
    """What a run has used so far."""

    turns: int
    input_tokens: int
    output_tokens: int
    cost_usd: float = 0.0


class RunTrace(Result, frozen=True):
    run: RunRow
    session_id: str
    attempt: int
    asked: dict[str, Any] | None
    """The message it answers, with its provenance."""
    entries: list[TraceEntry]
    spent: RunSpending
    chain: list[RunRow]
    """The runs that led to it, first the one that began it all."""
    caused: list[RunRow]
    deliveries: list[DeliveryRow]
    reply: str | None = None
    model: str | None = None


class TraceStep(Result, frozen=True):
    """One run of an exchange or a spawn."""

    run: RunRow
    text: str
    spent: RunSpending
    deliveries: list[DeliveryRow]
    reply: str | None = None


class ExchangeTrace(Result, frozen=True):
    requester: str
    target: str
    steps: list[TraceStep]
    kind: str
    state: str
    request: str
    created_at: int
    exchange_id: str | None = None
    turns_max: int = 0
    turn: int = 0
    announce: str | None = None
    ended_at: int | None = None
    spawn: SpawnRow | None = None
    standing: State | None = None
    """The state of a failed exchange; None when all of it went well."""


class Trace:
    def __init__(self, ledger: Ledger, resolver: Resolver) -> None:
        self._ledger = ledger
        self._watching = ledger.monitoring
        self._resolver = resolver

    @method(
        "runs.trace",
        "operator.read",
        "read",
        "Ours: one run from its cause to its effects, with every turn and tool call.",
    )
    async def run(self, caller: Caller, params: RunTraceParams) -> RunTrace:
        require_person(self._resolver, caller)
        return await self._trace(*await self._get(caller, params.run_id))

    async def _trace(self, run: Run, seen: RunRow) -> RunTrace:
        entries = await self._watching.entries_of_run(run.run_id, limit=ENTRIES_MAX)
        return RunTrace(
            run=self._shown([seen])[0],
            session_id=run.session_id,
            attempt=run.attempt,
            asked=await self._message_row(run, entries),
            entries=[
                _alone(each)
                for each in await with_small_media(self._ledger, entries, ENTRY_BYTES_MAX)
            ],
            spent=_spent(entries),
            chain=self._shown(await self._watching.runs_by_id(run.cause.chain[-CHAIN_MAX:])),
            caused=self._shown(await self._watching.caused_by(seen)),
            deliveries=await self._watching.deliveries_of_run(run.key.text, run.run_id),
            reply=run.reply,
            model=run.plan.model or _model(entries),
        )

    @method(
        "exchanges.list",
        "operator.read",
        "read",
        "Ours: the newest sends and spawns between sessions.",
    )
    async def list(self, caller: Caller, params: ExchangeListParams) -> ExchangeListResult:
        require_person(self._resolver, caller)
        if params.ids is not None:
            found = await self._watching.exchanges_by_id(params.ids)
        else:
            found = await self._watching.exchanges(limit=params.limit)
        return ExchangeListResult(exchanges=self._shown(found))

    @method(
        "exchanges.trace",
        "operator.read",
        "read",
        "Ours: a send with its rounds and announce, or a spawn, step by step.",
    )
    async def exchange(self, caller: Caller, params: ExchangeParams) -> ExchangeTrace:
        require_person(self._resolver, caller)
        exchange = await self._find_exchange(params.id)
        if exchange is not None:
            await self._resolve(caller, exchange.target_key)
            return await self._trace_exchange(exchange)
        spawn = await self._watching.find_spawn(params.id)
        if spawn is None:
            raise NotFound(f"there is no exchange, run or child session {params.id}")
        await self._resolve(caller, spawn.parent_key)
        return await self._trace_spawn(spawn)

    async def _resolve(self, caller: Caller, stored: str) -> None:
        await self._resolver.resolve(caller.principal, self._resolver.shown(stored), "read")

    async def _trace_exchange(self, exchange: Exchange) -> ExchangeTrace:
        runs = await self._watching.of_exchange(exchange.exchange_id)
        traced = _of_exchange(exchange, [await self._step(run) for run in runs])
        return self._shown([traced])[0]

    async def _trace_spawn(self, spawn: SpawnRow) -> ExchangeTrace:
        """The child's first run, and what it said later."""
        first = await self._watching.runs_by_id([spawn.run_id])
        later = [run for each in first for run in await self._watching.caused_by(each)]
        own = [run for run in later if run.key == spawn.child_key]
        (spawn,) = self._shown([spawn])
        return _of_spawn(spawn, [await self._step(run) for run in [*first, *own]])

    async def _get(self, caller: Caller, run_id: str) -> tuple[Run, RunRow]:
        run, seen = await self._ledger.find_run(run_id), await self._watching.runs_by_id([run_id])
        if run is None or not seen:
            raise NotFound(f"there is no run {run_id}")
        await self._resolve(caller, run.key.text)
        return run, seen[0]

    def _shown(self, rows: Iterable[R]) -> builtins.list[R]:
        return shown_rows(self._resolver, rows)

    async def _find_exchange(self, name: str) -> Exchange | None:
        found = await self._ledger.find_exchange(name)
        if found is not None:
            return found
        run = await self._ledger.find_run(name)
        return await self._ledger.find_exchange(run.plan.exchange_id or "") if run else None

    async def _step(self, seen: RunRow) -> TraceStep:
        run = await self._ledger.find_run(seen.run_id)
        assert run is not None  # runs are never deleted
        entries = await self._watching.entries_of_run(run.run_id, limit=ENTRIES_MAX)
        return TraceStep(
            run=self._shown([seen])[0],
            text=await self._words(run, entries),
            spent=_spent(entries),
            reply=run.reply,
            deliveries=await self._watching.deliveries_of_run(run.key.text, run.run_id),
        )

    async def _message(self, run: Run, entries: Entries) -> UserMessage | None:
        said = [each.message for each in entries if isinstance(each.message, UserMessage)]
        return said[0] if said else await self._ledger.find_inbox(run.run_id)

    async def _message_row(self, run: Run, entries: Entries) -> dict[str, Any] | None:
        message = await self._message(run, entries)
        if message is None:
            return None
        return await waiting_message(self._ledger, run.run_id, message, run.created_at)

    async def _words(self, run: Run, entries: Entries) -> str:
        message = await self._message(run, entries)
        return words_of(message) if message else ""


def _entry(entry: Entry) -> TraceEntry:
    return TraceEntry(
        seq=entry.seq,
        at=entry.at,
        type=entry.type,
        message=wire_message(entry.message, entry.at) if entry.message else None,
        note=entry.note,
    )


def _alone(entry: Entry) -> TraceEntry:
    """One entry, shortened if it is too large, so that one picture does not hide a run."""
    (shown,) = fitting([entry], ENTRY_BYTES_MAX, _entry, _short_entry)
    return shown


def _short_entry(entry: Entry, size: int) -> TraceEntry:
    return msgspec.structs.replace(_entry(entry), message=short_wire_message(entry, size))


def _spent(entries: list[Entry]) -> RunSpending:
    answers = [each.message for each in entries if isinstance(each.message, AssistantMessage)]
    total = sum((answer.usage for answer in answers if answer.usage), Usage())
    return RunSpending(
        turns=len(answers),
        input_tokens=total.prompt,
        output_tokens=total.output,
        cost_usd=total.cost or 0.0,
    )


def _model(entries: list[Entry]) -> str | None:
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage) and message.model:
            return f"{message.provider}/{message.model}" if message.provider else message.model
    return None


def _of_exchange(exchange: Exchange, steps: list[TraceStep]) -> ExchangeTrace:
    return ExchangeTrace(
        kind="send",
        exchange_id=exchange.exchange_id,
        requester=exchange.requester_key,
        target=exchange.target_key,
        state=exchange.state,
        request=exchange.request,
        turn=exchange.turn,
        turns_max=exchange.turns_max,
        announce=exchange.announce,
        created_at=exchange.created_at,
        ended_at=exchange.ended_at,
        steps=steps,
        standing=_standing(exchange.state, steps, exchange.announce),
    )


def _of_spawn(spawn: SpawnRow, steps: list[TraceStep]) -> ExchangeTrace:
    return ExchangeTrace(
        kind="spawn",
        requester=spawn.parent_key,
        target=spawn.child_key,
        state=spawn.state,
        request=spawn.task,
        created_at=spawn.created_at,
        ended_at=spawn.ended_at,
        spawn=spawn,
        steps=steps,
        standing=_standing(spawn.state, steps),
    )


def _standing(state: str, steps: list[TraceStep], announce: str | None = None) -> State | None:
    states = [step.run.standing for step in steps if step.run.standing is not None]
    bad = [each for each in states if each.name not in UNDER_WAY]
    current = [each for each in states if each.name in UNDER_WAY]
    found = exchange_state(
        over=state == "over",
        worst=bad[0] if bad else None,
        current=current[-1] if current else None,
        announce=announce,
    )
    return None if found.name == "ok" else found
