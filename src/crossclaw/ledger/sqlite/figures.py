"""Figures on SQLite: collects what a step counts on its transaction (`figure_sums` writes it), and
reads the sums."""

from collections.abc import Sequence
from typing import Any

import msgspec

from crossclaw.domain.figures import FigureKey, Figures
from crossclaw.domain.messages import AssistantMessage, Usage
from crossclaw.domain.runs import Run, RunKind
from crossclaw.domain.sessions import NewEntry
from crossclaw.ledger.database import Database
from crossclaw.ledger.figures import (
    NAMES_MAX,
    POINTS_MAX,
    FigureQuery,
    FigureRow,
    channel_of_run,
    slot_of,
    turn_figures,
)
from crossclaw.ledger.operations import Append
from crossclaw.ledger.sqlite.damage import UNREADABLE
from crossclaw.ledger.sqlite.figure_sums import ADDED, HOUR_MINUTES, SLOT_MINUTES
from crossclaw.ledger.sqlite.writer import Transaction

_ROWS_MAX = POINTS_MAX * NAMES_MAX
_COLUMNS = {"agent": "agent_id", "model": "model", "channel": "channel", None: "''"}


class _ChatName(msgspec.Struct):
    channel: str


class _PlanWithReply(msgspec.Struct):
    """The part of a run's plan that is needed here."""

    reply_to: _ChatName | None = None


_plan = msgspec.json.Decoder(_PlanWithReply)


# ── counting ──────────────────────────────────────────────────────────────────────────────────


def count_used(
    transaction: Transaction, op: Append, agent_id: str, kind: RunKind, plan: str
) -> None:
    """Counts the tokens of models for a run of this kind, by its stored plan."""
    for entry in op.entries:
        usage = _usage_of(entry)
        if usage is None:
            continue
        model = _model_of(entry)
        transaction.counted.append(
            (
                FigureKey(slot_of(op.at), agent_id, model, _channel(kind, plan)),
                Figures(
                    calls=1,
                    input=usage.input + usage.cache_write,
                    cached=usage.cache_read,
                    output=usage.output,
                    cost_usd=usage.cost or 0.0,
                ),
            )
        )


def note_models(transaction: Transaction, op: Append) -> None:
    """Notes which model last answered a run: its end is counted under it."""
    for entry in op.entries:
        if isinstance(entry.message, AssistantMessage) and entry.message.model:
            transaction.models[op.fence.run_id] = _model_of(entry)


def count_end(transaction: Transaction, run: Run, at: int) -> None:
    if run.kind == "command" or run.status in ("queued", "running", "waiting"):
        return
    took_ms = None if run.started_at is None else max(0, at - run.started_at)
    where = run.plan.reply_to
    key = FigureKey(
        slot_of(at),
        run.key.agent_id,
        transaction.models.pop(run.run_id, "") or run.plan.model or "",
        channel_of_run(run.kind, where.channel if where else None),
    )
    transaction.counted.append((key, turn_figures(run.status, took_ms)))


def _usage_of(entry: NewEntry) -> Usage | None:
    message, note = entry.message, entry.note
    if isinstance(message, AssistantMessage):
        return message.usage
    if message is None and note and note.get("usage"):
        return msgspec.convert(note["usage"], Usage)
    return None


def _model_of(entry: NewEntry) -> str:
    message, note = entry.message, entry.note
    if isinstance(message, AssistantMessage):
        return "/".join(filter(None, (message.provider, message.model)))
    return str((note or {}).get("model") or "")


def _channel(kind: RunKind, plan: str) -> str:
    try:
        where = _plan.decode(plan).reply_to
    except UNREADABLE:
        where = None
    return channel_of_run(kind, where.channel if where else None)


# ── reading ───────────────────────────────────────────────────────────────────────────────────


def figures_over_time(db: Database, query: FigureQuery) -> list[FigureRow]:
    column = _COLUMNS[query.by]
    narrowed: Sequence[tuple[str, str | None]] = (
        ("agent_id", query.agent_id),
        ("model", query.model),
        ("channel", query.channel),
    )
    where = "".join(f" AND {name} = ?" for name, value in narrowed if value is not None)
    rows: Any = db.execute(
        f"SELECT {column}, (at - ?1) / ?2, {ADDED} FROM figures "
        f"WHERE minutes IN ({SLOT_MINUTES}, {HOUR_MINUTES}) AND at >= ?1 AND at < ?3{where} "
        f"GROUP BY 1, 2 ORDER BY 1, 2 LIMIT {_ROWS_MAX}",
        (query.since, query.step_ms, query.until, *(v for _, v in narrowed if v is not None)),
    )
    return [
        FigureRow(str(name), query.since + int(step) * query.step_ms, figures_of(sums))
        for name, step, *sums in rows
    ]


def figures_of(sums: Sequence[Any]) -> Figures:
    """Sums as figures of our types: some engines return whole numbers as another type."""
    plain = Figures(*(int(each) for each in sums))
    return plain._replace(cost_usd=float(sums[Figures._fields.index("cost_usd")]))
